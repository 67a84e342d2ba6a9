// Every op of the CPU back end, on every instruction set of this machine, against its reference.
#include "model/backend/cpu/cpu_backend.h"
#include "tests/backend/run_op.h"

namespace isobar::testing {
namespace {

class CpuOp : public ::testing::TestWithParam<plan::OpKind> {};

TEST_P(CpuOp, IsItsReferenceInAllTypes) {
  Random random;
  const std::vector<OpCase> cases = cases_of(GetParam(), random);
  ASSERT_FALSE(cases.empty()) << plan::name_of(GetParam()) << " has no case in tests/backend";
  for (const cpu::Isa isa : cpu::testing::isas()) {
    const int threads = static_cast<int>(random.integer(1, 3));
    const cpu::testing::Running running(isa, threads);
    for (const OpCase& c : cases) {
      const OpInPlan op(c, cpu_workspace(threads));
      cpu::testing::Buffer arena(DType::f32, op.plan().memory.arena / size_of(DType::f32) + 1);
      CpuBackend backend(op.plan(), static_cast<std::byte*>(arena.data()));
      op.run(backend);
    }
  }
}

TEST(CpuOps, AreThoseThatTheRowsClaim) {
  for (int k = 0; k < plan::kOpKinds; ++k) {
    const plan::OpInfo& op = plan::info_of(static_cast<plan::OpKind>(k));
    const bool claimed =
        (op.backends & plan::kCpu) && op.price != plan::PriceClass::transfer;  // transfers: model/comm
    EXPECT_EQ(cpu_ops()[op.kind] != nullptr, claimed) << op.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Backend, CpuOp, ::testing::ValuesIn(kinds_of(plan::kCpu)),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace isobar::testing
