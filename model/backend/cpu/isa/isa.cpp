// Choice of the instruction set.
#include <oneapi/dnnl/dnnl.hpp>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "model/backend/cpu/isa/kernel_table.h"
#include "model/base/error.h"

namespace isobar::cpu {
namespace {

struct IsaName {
  Isa isa;
  const char* name;
};
constexpr IsaName kNames[] = {{Isa::portable, "portable"},
                              {Isa::avx2, "avx2"},
                              {Isa::avx512, "avx512"},
                              {Isa::avx512_bf16, "avx512_bf16"},
                              {Isa::amx, "amx"}};

#if defined(__x86_64__)
bool has_f16c() {  // clang has no name for it
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

// The CPU has bf16 tiles (GCC 12 has no name for them), and Linux permits this process to use them.
bool has_tiles() {
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kAmxBf16) == 0 || (d & kAmxTile) == 0)
    return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

Isa detect() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512 && __builtin_cpu_supports("avx512bf16")) return has_tiles() ? Isa::amx : Isa::avx512_bf16;
  if (avx512) return Isa::avx512;
  if (avx2) return Isa::avx2;
#endif
  return Isa::portable;
}

Isa allowed() {
  const char* limit = std::getenv("ISOBAR_MAX_ISA");
  if (limit == nullptr) return Isa::amx;
  for (const IsaName& n : kNames)
    if (std::string(limit) == n.name) return n.isa;
  throw ConfigError("environment", "ISOBAR_MAX_ISA", "'" + std::string(limit) + "' is no instruction set",
                    "use portable, avx2, avx512, avx512_bf16 or amx");
}

const KernelTable* table_of(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::amx:
      return &amx_kernels();
    case Isa::avx512_bf16:
      return &avx512_bf16_kernels();
    case Isa::avx512:
      return &avx512_kernels();
    case Isa::avx2:
      return &avx2_kernels();
#endif
    default:
      return &portable_kernels();
  }
}

struct Choice {
  std::atomic<Isa> isa;
  std::atomic<const KernelTable*> table;
};

Choice& choice() {
  static Choice c{best_isa(), table_of(best_isa())};
  return c;
}

}  // namespace

const char* name_of(Isa isa) {
  return kNames[static_cast<int>(isa)].name;
}

Isa best_isa() {
  static const Isa best = std::min(detect(), allowed());
  return best;
}

Isa current_isa() {
  return choice().isa.load(std::memory_order_relaxed);
}

void use_isa(Isa isa) {
  if (isa > best_isa()) throw std::invalid_argument("use_isa: more than this CPU (or ISOBAR_MAX_ISA) allows");
  choice().isa = isa;
  choice().table = table_of(isa);
}

void use_plain_tiles() {
#if defined(__x86_64__)
  if (current_isa() >= Isa::avx512_bf16) {
    choice().table = &plain_tile_avx512_kernels();
    return;
  }
#endif
  choice().table = &plain_tile_kernels();
}

const KernelTable& kernels() {
  return *choice().table.load(std::memory_order_relaxed);
}

const char* bf16_mode() {
  // Sets of bits; a site may hold the library to less than the CPU has (ONEDNN_MAX_CPU_ISA).
  static const unsigned library = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto library_has = [](dnnl::cpu_isa isa) {
    return (library & static_cast<unsigned>(isa)) == static_cast<unsigned>(isa);
  };
  if (current_isa() < Isa::avx512_bf16 || !library_has(dnnl::cpu_isa::avx512_core_bf16)) return "emulated";
  return library_has(dnnl::cpu_isa::avx512_core_amx) ? "amx" : "avx512_bf16";
}
const char* f16_mode() {
  return "emulated";
}
const char* tf32_mode() {
  return "emulated";
}

}  // namespace isobar::cpu
