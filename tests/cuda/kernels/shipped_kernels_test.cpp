// The products of every shipped configuration, as the backend prepares them before the first step: placed,
// aligned and fused as cuBLASLt demands. The emulator's cuBLASLt refuses what the real one would
// (library_contracts.h), and a GPU uses the real one. Nothing is computed, so the arena is only an address.
#include <gtest/gtest.h>

#include "model/backend/cuda/cuda_backend.h"
#include "model/backend/cuda/kernels/workspace.h"
#include "model/nets/build.h"
#include "tests/cuda/kernels/kernel_check.h"
#include "tests/cuda/kernels/shipped.h"

namespace isobar::cuda::testing {
namespace {

TEST(Kernels, ProductsOfEveryShippedConfigurationAreTaken) {
  ISOBAR_NEEDS_KERNELS();
  const Streams streams;
  auto* const arena = reinterpret_cast<std::byte*>(uintptr_t{1} << 40);
  int nets = 0;
  size_t shapes = 0;
  for (const ShippedRun& run : shipped_runs()) {
    if (run.spec.net.words() && run.spec.layout.world() > 1) continue;  // of many GPUs
    SCOPED_TRACE(run.name);
    const plan::Plan plan = nets::build_plan(run.spec, 0, cuda_workspace());
    CudaBackend backend(plan, arena, nullptr, streams, {.gemm = GemmChoice::heuristic, .cudnn = false});
    EXPECT_NO_THROW(backend.prepare());
    shapes += backend.gemms().shapes();
    ++nets;
  }
  EXPECT_GT(nets, 80);
  EXPECT_GT(shapes, size_t{500});
}

#ifdef ISOBAR_EMULATED
// A version of cuDNN that wants more than was declared stops no run.
TEST(Kernels, AttentionThatCudnnDoesNotTakeRunsInOurOwnKernels) {
  const Streams streams;
  const RunSpec spec = load_run_spec(source_dir() + "/configs/models/vit-tiny.yaml", {"policy.amp=bf16"});
  const plan::Plan plan = nets::build_plan(spec, 0, cuda_workspace());
  CudaBackend backend(plan, reinterpret_cast<std::byte*>(uintptr_t{1} << 40), nullptr, streams,
                      {.gemm = GemmChoice::heuristic});
  backend.prepare();
  ASSERT_EQ(backend.attentions().size(), 2u);
  for (const CudaBackend::AttentionUse& use : backend.attentions()) {
    EXPECT_EQ(attention_path(use.shape, use.backward, 9, true), AttentionPath::cudnn);
    EXPECT_EQ(use.path, AttentionPath::tensor_cores);
    EXPECT_NE(use.refused.find("wants more than"), std::string::npos) << use.refused;
  }
}
#endif

}  // namespace
}  // namespace isobar::cuda::testing
