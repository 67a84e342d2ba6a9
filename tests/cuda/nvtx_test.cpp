// NVTX calls as a profiler receives them, through our own listener (nvtx_probe.cpp); needs no GPU.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
#include <string>

#include "model/trace/cuda/op_tracer.h"
#include "tests/paths.h"
#include "tests/trace/fixture.h"

namespace isobar::cuda {
namespace {

TEST(Nvtx, RangesCarryTheOpsPathAndIndexInOneDomain) {
  const char* moved = std::getenv("ISOBAR_NVTX_PROBE");  // its path in a bundle differs
  const std::string file = moved ? moved : preload("nvtx_probe");
  ASSERT_EQ(::setenv("NVTX_INJECTION64_PATH", file.c_str(), 1), 0);  // before NVTX is first called
  const trace::SmallPlan s = trace::small_plan();
  {
    NvtxRanges ranges(s.plan);
    for (const plan::Instr& i : s.program.instrs) {
      ranges.begin(i.op);
      ranges.end();
    }
    ranges.begin("forward, micro-batch 3");
    ranges.end();
  }
  void* probe = dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(probe, nullptr) << "NVTX did not load the probe";
  const auto log = reinterpret_cast<const char* (*)()>(dlsym(probe, "nvtx_probe_log"));
  std::ostringstream expected;
  for (const plan::Op& op : s.plan.ops) expected << "string isobar " << op.path << "\n";
  for (const plan::Instr& i : s.program.instrs)
    expected << "push isobar " << s.plan.ops[i.op].path << " " << i.op << "\npop isobar\n";
  expected << "push isobar text forward, micro-batch 3\npop isobar\n";
  EXPECT_EQ(log(), expected.str());
}

}  // namespace
}  // namespace isobar::cuda
