#include "perfmodel/score/counts/hardware.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/base/error.h"
#include "model/base/names/did_you_mean.h"
#include "perfmodel/machine/name_words.h"
#include "perfmodel/machine/shipped.h"

namespace isobar::perf {
namespace {

// A whole step's products relative to the best large one alone; machine files' measured prices of products
// include it.
constexpr double kInWholeStep = 0.93;

struct Named {
  std::string name;
  NameWords words;
  ChipSpec chip;
  double nominal_gb;
};

/// Words that chips of one name do not differ by.
bool says_nothing(const std::string& word) {
  static const NameWords kNothing{
      "NVIDIA", "AMD",  "INTEL", "GOOGLE", "HABANA", "INSTINCT", "TESLA",  "GPU",   "DATA", "CENTER", "TPU",
      "HPU",    "GCD",  "TILE",  "OAM",    "DGX",    "HGX",      "SXM",    "SXM2",  "SXM3", "SXM4",   "SXM5",
      "SXM6",   "HBM2", "HBM2E", "HBM3",   "HBM3E",  "NVL72",    "NVLINK", "GDDR6", "ONE"};
  return kNothing.contains(word);
}

/// True if the word is a memory size, and the chip's: sheets round 288 to 279 and 192 to 180.
bool is_its_memory(const std::string& word, double nominal_gb) {
  const size_t digits = word.find_first_not_of("0123456789");
  const std::string unit = digits == std::string::npos ? "" : word.substr(digits);
  if (digits == 0 || !(unit == "GB" || unit == "G" || unit == "GIB")) return false;
  return std::abs(std::atof(word.c_str()) / nominal_gb - 1) < 0.08;
}

bool is_called(const Named& chip, const NameWords& words) {
  return std::includes(words.begin(), words.end(), chip.words.begin(), chip.words.end()) &&
         std::all_of(words.begin(), words.end(), [&](const std::string& w) {
           return chip.words.contains(w) || says_nothing(w) || is_its_memory(w, chip.nominal_gb);
         });
}

std::vector<Named> chips_of(const std::string& folder) {
  std::vector<Named> out;
  for (const std::string& file : files_in(folder, ".yaml")) {
    const Machine m = load_machine(file);
    if (!m.accelerator) continue;
    for (const std::string& name : m.accelerator->called) {
      const auto same =
          std::find_if(out.begin(), out.end(), [&](const Named& n) { return n.words == name_words(name); });
      if (same != out.end())
        throw ConfigError(file, "accelerator.called", "'" + name + "' is the name of another machine's chip",
                          "leave it to one of them");
      out.push_back(
          {name, name_words(name), chip_of(m), 1e-9 * static_cast<double>(m.accelerator->memory_bytes)});
    }
  }
  if (out.empty())
    throw ConfigError(folder, "accelerator.called", "is in none of the machine files there",
                      "run it where configs/machines is");
  return out;
}

const std::vector<Named>& chips() {
  static const std::vector<Named> all = chips_of(shipped("configs/machines"));
  return all;
}

}  // namespace

std::optional<Precision> precision_named(const std::string& name) {
  const std::string s = upper_case(name);
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

bool is_after_flash(const ChipSpec& chip) {
  return chip.fp8 > 1.5 * chip.half;
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
  NameWords words = name_words(gpu_type);
  if (upper_case(intra_link).find("PCIE") != std::string::npos) words.insert("PCIE");
  const Named* best = nullptr;
  for (const Named& n : chips())
    if (is_called(n, words) && (!best || n.words.size() > best->words.size())) best = &n;
  return best ? &best->chip : nullptr;
}

std::string unknown_chip(const std::string& gpu_type) {
  if (gpu_type.empty()) return "no accelerator: gpu_type is empty";
  std::vector<std::string> names;
  for (const Named& n : chips()) names.push_back(n.name);
  return "accelerator '" + gpu_type + "' is not known; the nearest names: " + nearest_few(gpu_type, names);
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
  c.memory_bytes = static_cast<double>(a.capacity());
  c.link_rate = a.host.of_rank();
  c.nic_rate = a.net.of_rank();
  c.link_latency = a.host.latency;
  c.nic_latency = a.net.latency;
  if (a.host_bandwidth > 0) c.host_rate = a.host_bandwidth;
  c.domain = static_cast<int>(a.host.ranks);
  c.sockets = a.net.sockets;
  return c;
}

}  // namespace isobar::perf
