// Every op of the GPU back end against its reference (tests/backend): on a GPU if there is one, and in the
// emulator.
#include "model/backend/cuda/cuda_backend.h"
#include "model/backend/cuda/kernels/workspace.h"
#include "tests/backend/run_op.h"
#include "tests/cuda/kernels/kernel_check.h"

namespace isobar::cuda::testing {
namespace {

using isobar::testing::OpCase;
using isobar::testing::OpInPlan;

class CudaOp : public ::testing::TestWithParam<plan::OpKind> {};

TEST_P(CudaOp, IsItsReferenceInAllTypes) {
  ISOBAR_NEEDS_KERNELS();
  Random random;
  const std::vector<OpCase> cases = isobar::testing::cases_of(GetParam(), random);
  ASSERT_FALSE(cases.empty()) << plan::name_of(GetParam()) << " has no case in tests/backend";
  const Streams streams;
  for (const OpCase& c : cases) {
    const OpInPlan op(c, cuda_workspace());
    const DeviceArena arena(op.plan().memory.arena);
    CudaBackend backend(op.plan(), arena.data(), nullptr, streams, {});
    backend.prepare();
    op.run(backend);
  }
}

TEST(CudaOps, AreThoseThatTheRowsClaim) {
  for (int k = 0; k < plan::kOpKinds; ++k) {
    const plan::OpInfo& op = plan::info_of(static_cast<plan::OpKind>(k));
    const bool claimed =
        (op.backends & plan::kCuda) && op.price != plan::PriceClass::transfer;  // transfers: model/comm
    EXPECT_EQ(cuda_ops()[op.kind] != nullptr, claimed) << op.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Backend, CudaOp, ::testing::ValuesIn(isobar::testing::kinds_of(plan::kCuda)),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace isobar::cuda::testing
