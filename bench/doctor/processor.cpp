// The processor, and a test that the kernel library computes correctly on it.
#include <nlohmann/json.hpp>

#include "bench/doctor/check.h"
#include "model/backend/cpu/isa/kernels.h"
#include "model/engine/host/cpu_places.h"
#include "model/engine/host/host.h"

namespace isobar::doctor {
namespace {

// A small product with a known result shows that the library runs on this CPU.
bool matrix_product_works() {
  const float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8};
  alignas(64) float c[4] = {0, 0, 0, 0};
  cpu::gemm({2, 2, 2, false, false, DType::f32, DType::f32, DType::f32, false, false}, a, b, nullptr, c);
  return c[0] == 19 && c[1] == 22 && c[2] == 43 && c[3] == 50;
}

// The kernel for a layer of typical size; a run's record has the kernel of each op.
std::string product_kernel(DType t) {
  return cpu::gemm_kernel({1024, 1024, 1024, false, true, t, t, t, true, false});
}

}  // namespace

std::vector<Check> examine_processor() {
  std::vector<Check> out;
  const nlohmann::json p = engine::provenance();
  out.push_back({"processor", engine::cpu_name() + ", " + std::to_string(engine::cores()) +
                                  " cores, kernels of " + p["kernels"].get<std::string>()});
  out.push_back(examine_threads(engine::cpu_places()));
  out.push_back(examine_memory());
  out.push_back({"kernels", "products f32: " + product_kernel(DType::f32) +
                                "; bf16: " + product_kernel(DType::bf16) + "; other ops: Isobar's, " +
                                p["kernels"].get<std::string>()});
  const bool product = matrix_product_works();
  out.push_back({"oneDNN",
                 p["onednn"].get<std::string>() + (product ? ", test product is correct" : ", wrong product"),
                 product ? Health::ok : Health::failed, "apt-get install libdnnl-dev", true});
  for (const char* type : {"bf16", "f16", "tf32"}) {
    const std::string mode = p[std::string(type) + "_mode"];
    out.push_back({type, mode, mode == "emulated" ? Health::absent : Health::ok,
                   std::string(type) == "bf16"
                       ? "emulated: correct but slow, because the CPU has no AMX or AVX512_BF16"
                       : "emulated: correct but slow, because this build has no such products on CPUs"});
  }
  return out;
}

}  // namespace isobar::doctor
