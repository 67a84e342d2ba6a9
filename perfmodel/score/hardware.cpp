#include "perfmodel/score/hardware.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "model/base/error.h"
#include "perfmodel/machine/shipped.h"

namespace isobar {
namespace {

// A whole step's products relative to the best large one alone; machine files' measured prices of products
// include it.
constexpr double kInWholeStep = 0.93;

std::string upper(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::toupper(c); });
  return s;
}

struct Named {
  std::string name;  // upper case
  ChipSpec chip;
};

std::vector<Named> chips_of(const std::string& folder) {
  std::vector<Named> out;
  for (const std::string& file : files_in(folder, ".yaml")) {
    const Machine m = load_machine(file);
    if (!m.accelerator) continue;
    for (const std::string& name : m.accelerator->called) {
      const auto same =
          std::find_if(out.begin(), out.end(), [&](const Named& n) { return n.name == upper(name); });
      if (same != out.end())
        throw ConfigError(file, "accelerator.called", "'" + name + "' is the name of another machine's chip",
                          "leave it to one of them");
      out.push_back({upper(name), chip_of(m)});
    }
  }
  if (out.empty())
    throw ConfigError(folder, "accelerator.called", "is in none of the machine files there",
                      "run it where configs/machines is");
  return out;
}

}  // namespace

std::optional<Precision> precision_named(const std::string& name) {
  const std::string s = upper(name);
  const auto has = [&](const char* part) { return s.find(part) != std::string::npos; };
  if (has("FP4")) return Precision::fp4;
  if (has("FP8") || has("F8")) return Precision::fp8;
  if (has("BF16") || has("FP16") || has("F16") || has("HALF")) return Precision::bf16;
  if (has("TF32")) return Precision::tf32;
  if (has("FP32") || has("F32")) return Precision::fp32;
  return std::nullopt;
}

double ChipSpec::peak(Precision p) const {
  switch (p) {
    case Precision::fp4:
      return fp4 > 0 ? fp4 : peak(Precision::fp8);
    case Precision::fp8:
      return fp8;
    case Precision::bf16:
      return half;
    case Precision::tf32:
      return tf32;
    case Precision::fp32:
      return fp32;
  }
  return half;
}

double ChipSpec::accurate_fp32() const {
  return std::max(fp32, tf32 / 3);
}

std::string ChipSpec::chip() const {
  return name.substr(0, name.find('-'));
}

double ChipSpec::reached(Precision p) const {
  return peak(p) * (p > Precision::bf16 ? matmul_low : matmul);
}

ChipSpec chip_of(const Machine& m) {
  ChipSpec c = at_rates_of({}, m);
  c.name = m.accelerator->called.empty() ? m.accelerator->name : m.accelerator->called.front();
  std::transform(c.name.begin(), c.name.end(), c.name.begin(),
                 [](unsigned char x) { return std::tolower(x); });
  const auto share = [&](Coef product, double peak) { return 1 / (kInWholeStep * m[product].value * peak); };
  c.matmul = share(Coef::gemm_bf16, c.half);
  c.matmul_low = m[Coef::gemm_fp8].measured() ? share(Coef::gemm_fp8, c.fp8) : c.matmul;
  return c;
}

const ChipSpec* chip_named(const std::string& gpu_type, const std::string& intra_link) {
  static const std::vector<Named> chips = chips_of(shipped("configs/machines"));
  const bool slot = upper(intra_link).find("PCIE") != std::string::npos;
  const std::string s = upper(gpu_type) + (slot ? "-PCIE" : "");
  const Named* best = nullptr;
  for (const Named& n : chips)
    if (s.find(n.name) != std::string::npos && (!best || n.name.size() > best->name.size())) best = &n;
  return best ? &best->chip : nullptr;
}

ChipSpec at_rates_of(const ChipSpec& chip, const Machine& m) {
  if (!m.accelerator)
    throw ConfigError(m.file, "accelerator", "is missing: tables of published runs are of accelerators",
                      "name a machine file like configs/machines/dgx-a100.yaml");
  ChipSpec c = chip;
  const auto take = [&](double& rate, const char* peak) {
    if (const auto p = m.peaks.find(peak); p != m.peaks.end()) rate = p->second.value;
  };
  take(c.fp32, "f32");
  take(c.tf32, "tf32");
  take(c.half, "bf16");
  take(c.fp8, "fp8");
  take(c.fp4, "fp4");
  take(c.memory_rate, "memory");
  const Accelerator& a = *m.accelerator;
  c.memory_bytes = static_cast<double>(a.reported_bytes > 0 ? a.reported_bytes : a.memory_bytes);
  c.link_rate = a.host.of_rank();
  c.nic_rate = a.net.of_rank();
  if (a.host_bandwidth > 0) c.host_rate = a.host_bandwidth;
  c.domain = static_cast<int>(a.host.ranks);
  return c;
}

}  // namespace isobar
