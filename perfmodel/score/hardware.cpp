#include "perfmodel/score/hardware.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "model/base/error.h"

namespace isobar {
namespace {

constexpr double T = 1e12, G = 1e9, GiB = 1073741824.0;

// Sources: configs/published/hardware.csv; products of V100 and MI250X are assumed. Order matters: the first
// name found in gpu_type wins.
constexpr std::array<std::pair<const char*, ChipSpec>, 16> kAccelerators{{
    {"GB300",
     {"gb300", 80 * T, 1250 * T, 2500 * T, 5000 * T, 15000 * T, 277.5 * GiB, 8000 * G, 900 * G, 100 * G, 72,
      0.73, 0.72}},
    {"GB200",
     {"gb200", 80 * T, 1250 * T, 2500 * T, 5000 * T, 10000 * T, 185.0 * GiB, 8000 * G, 900 * G, 50 * G, 72,
      0.729, 0.723}},
    {"B300",
     {"b300", 80 * T, 1125 * T, 2250 * T, 4500 * T, 12600 * T, 268.6 * GiB, 8000 * G, 900 * G, 100 * G, 8,
      0.786, 0.745}},
    {"B200",
     {"b200", 80 * T, 1125 * T, 2250 * T, 4500 * T, 9000 * T, 179.0 * GiB, 8000 * G, 900 * G, 50 * G, 8,
      0.776, 0.763}},
    {"H200",
     {"h200", 67 * T, 494.5 * T, 989 * T, 1979 * T, 0, 139.8 * GiB, 4800 * G, 450 * G, 50 * G, 8, 0.803,
      0.734}},
    {"H100-96",
     {"h100-96", 67 * T, 494.5 * T, 989 * T, 1979 * T, 0, 95.0 * GiB, 2400 * G, 450 * G, 50 * G, 8, 0.803,
      0.709}},
    {"H800",
     {"h800", 67 * T, 494.5 * T, 989 * T, 1979 * T, 0, 79.6 * GiB, 3350 * G, 200 * G, 50 * G, 8, 0.803,
      0.709}},
    {"H100",
     {"h100", 67 * T, 494.5 * T, 989 * T, 1979 * T, 0, 79.6 * GiB, 3350 * G, 450 * G, 50 * G, 8, 0.803,
      0.709}},
    {"A800",
     {"a800", 19.5 * T, 156 * T, 312 * T, 0, 0, 79.2 * GiB, 2000 * G, 200 * G, 25 * G, 8, 0.869, 0.869}},
    {"A100-40",
     {"a100-40", 19.5 * T, 156 * T, 312 * T, 0, 0, 39.4 * GiB, 1555 * G, 300 * G, 25 * G, 8, 0.869, 0.869}},
    {"A100",
     {"a100", 19.5 * T, 156 * T, 312 * T, 0, 0, 79.2 * GiB, 2000 * G, 300 * G, 25 * G, 8, 0.869, 0.869}},
    {"V100", {"v100", 15.7 * T, 0, 125 * T, 0, 0, 31.7 * GiB, 900 * G, 150 * G, 12.5 * G, 8, 0.85, 0.85}},
    {"MI300X",
     {"mi300x", 163.4 * T, 653.7 * T, 1300 * T, 2610 * T, 0, 191.0 * GiB, 5300 * G, 448 * G, 50 * G, 8, 0.514,
      0.514}},
    {"MI250X",
     {"mi250x", 23.95 * T, 0, 191.5 * T, 0, 0, 63.9 * GiB, 1600 * G, 50 * G, 12.5 * G, 8, 0.75, 0.75}},
    {"MAX 1550",
     {"max1550", 22.5 * T, 209 * T, 418 * T, 0, 0, 63.9 * GiB, 1638 * G, 15 * G, 16.67 * G, 12, 0.612,
      0.612}},
    {"MAX1550",
     {"max1550", 22.5 * T, 209 * T, 418 * T, 0, 0, 63.9 * GiB, 1638 * G, 15 * G, 16.67 * G, 12, 0.612,
      0.612}},
}};
// PCIe cards: the rates of the board, and one PCIe 4.0 x16 slot instead of a link (32 GB/s, 1/2 usable across
// a switch under all-to-all use is left to the fit).
constexpr ChipSpec kA100Pcie{"a100-pcie", 19.5 * T, 156 * T, 312 * T, 0,     0,    79.2 * GiB,
                             1940 * G,    32 * G,   25 * G,  8,       0.811, 0.811};

std::string upper(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::toupper(c); });
  return s;
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
      return fp8 > 0 ? fp8 : half;
    case Precision::bf16:
      return half;
    case Precision::tf32:
      return tf32 > 0 ? tf32 : fp32;
    case Precision::fp32:
      return fp32;
  }
  return half;
}

double ChipSpec::accurate_fp32() const {
  return std::max(fp32, tf32 / 3);
}

double ChipSpec::host_rate() const {
  const std::string s = name;
  if (s.starts_with("gb")) return 225 * G;   // NVLink-C2C: 450 GB/s to each Grace, which two GPUs share
  if (s.starts_with("v100")) return 16 * G;  // PCIe 3.0 x16
  if (s.starts_with("a") || s.starts_with("mi250") || s == "max1550") return 32 * G;  // PCIe 4.0, its like
  return 64 * G;                                                                      // PCIe 5.0
}

std::string ChipSpec::chip() const {
  const std::string s = name;
  return s.substr(0, s.find('-'));
}

double ChipSpec::reached(Precision p) const {
  const double share = p > Precision::bf16 && fp8 > 0 ? matmul_low : matmul;
  return peak(p) * share;
}

const ChipSpec* chip_named(const std::string& gpu_type, const std::string& intra_link) {
  const std::string s = upper(gpu_type);
  if (s.find("A100") != std::string::npos &&
      (s.find("PCIE") != std::string::npos || upper(intra_link).find("PCIE") != std::string::npos))
    return &kA100Pcie;
  for (const auto& [name, a] : kAccelerators)
    if (s.find(name) != std::string::npos) return &a;
  return nullptr;
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
  take(c.memory_rate, "memory");
  c.memory_bytes = static_cast<double>(m.accelerator->memory_bytes);
  c.link_rate = m.accelerator->host.of_rank();
  c.nic_rate = m.accelerator->net.of_rank();
  c.domain = static_cast<int>(m.accelerator->host.ranks);
  return c;
}

}  // namespace isobar
