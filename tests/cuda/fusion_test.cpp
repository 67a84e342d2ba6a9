// Ops that are fused into products read and leave the same values as separate ones.
#include "model/backend/cuda/libraries/fusion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "model/backend/cuda/kernels/workspace.h"
#include "model/backend/cuda/libraries/gemm.h"
#include "model/nets/build.h"
#include "model/plan/link.h"

namespace isobar::cuda {
namespace {

RunSpec net(Amp amp, Gelu gelu) {
  RunSpec s;
  s.file = "test";
  s.net.vit().gelu = gelu;
  s.net.vit().embed_dim = 64;
  s.net.vit().depth = 3;
  s.net.vit().num_heads = 4;
  s.net.vit().img_height = 32;
  s.net.vit().img_width = 64;
  s.train.global_batch = 8;
  s.policy.micro_batch = 2;
  s.policy.amp = amp;
  return s;
}

std::vector<RunSpec> fused_specs() {
  std::vector<RunSpec> all;
  for (const Gelu gelu : {Gelu::erf, Gelu::tanh}) {
    const RunSpec s = net(Amp::bf16, gelu);
    all.push_back(s);
    const auto with = [&](const auto& change) {
      all.push_back(s);
      change(all.back());
    };
    with([](RunSpec& r) { r.policy.recompute = Recompute::full; });
    with([](RunSpec& r) { r.policy.main_grads_dtype = GradientType::bf16; });
    with([](RunSpec& r) { r.layout.dp = 2, r.policy.zero = 2, r.policy.bucket_mb = 0.01; });
    with([](RunSpec& r) { r.layout = {.tp = 2, .pp = 2}, r.policy.schedule = PipelineSchedule::zb_h1; });
    with([](RunSpec& r) { r.layout = {.dp = 2, .tp = 2}, r.policy.sequence_parallel = true; });
    with([](RunSpec& r) { r.layout.cp = 2, r.policy.cp_kind = CpKind::ring; });
  }
  return all;
}

std::map<Fused, int> counts(const std::vector<Fusion>& fusions) {
  std::map<Fused, int> n;
  for (const Fusion& f : fusions) ++n[f.kind];
  return n;
}

TEST(Fusion, FindsGeluItsGradientAndBothBiasGradientsOfEveryBlock) {
  RunSpec s = net(Amp::bf16, Gelu::tanh);
  s.policy.micro_batch = 8;  // one micro-batch: one forward routine, one backward
  const plan::Plan plan = nets::build_plan(s, 0, cuda_workspace());
  const auto n = counts(fusible(plan));
  EXPECT_EQ(n.at(Fused::gelu), s.net.vit().depth);
  EXPECT_EQ(n.at(Fused::gelu_gradient), s.net.vit().depth);
  EXPECT_EQ(n.at(Fused::bias_gradient), 2 * s.net.vit().depth) << "qkv and fc1";
  for (const Fusion& f : fusible(plan)) {
    const std::string &product = plan.ops[f.product].path, &other = plan.ops[f.other].path;
    EXPECT_EQ(product.substr(0, 7), other.substr(0, 7)) << product << " and " << other;
  }
}

TEST(Fusion, TakesInOnlyTheSameFunctionInSixteenBits) {
  EXPECT_EQ(
      counts(fusible(nets::build_plan(net(Amp::bf16, Gelu::erf), 0, cuda_workspace()))).count(Fused::gelu),
      0U);
  EXPECT_EQ(counts(fusible(nets::build_plan(net(Amp::bf16, Gelu::erf), 0, cuda_workspace())))
                .count(Fused::gelu_gradient),
            0U);
  for (const Amp amp : {Amp::none, Amp::tf32})
    EXPECT_TRUE(fusible(nets::build_plan(net(amp, Gelu::tanh), 0, cuda_workspace())).empty());
  RunSpec odd = net(Amp::fp16, Gelu::tanh);
  odd.net.vit().embed_dim = 36;
  odd.net.vit().mlp_ratio = 3;  // 108: rows not aligned to 8 elements
  const auto n = counts(fusible(nets::build_plan(odd, 0, cuda_workspace())));
  EXPECT_EQ(n.count(Fused::gelu) + n.count(Fused::gelu_gradient), 0U);
  EXPECT_GT(n.at(Fused::bias_gradient), 0);
}

// A memory that holds a hash of its provenance for every 64 bytes: an op's writes are a function of its name
// and reads.
class Memory {
 public:
  explicit Memory(const plan::Plan& plan)
      : plan_(plan), cells_(static_cast<size_t>((plan.memory.arena + plan.memory.host) / 64 + 2)) {}
  uint64_t read(const plan::View& v, int32_t slot) const {
    uint64_t h = 1469598103934665603ULL;
    each(v, slot, [&](size_t i) { h = (h ^ cells_[i]) * 1099511628211ULL; });
    return h;
  }
  void write(const plan::View& v, int32_t slot, uint64_t value) {
    each(v, slot, [&](size_t i) { cells_[i] = value + i; });
  }

 private:
  template <class F>
  void each(const plan::View& v, int32_t slot, const F& f) const {
    if (!v || v.count == 0) return;
    const auto [begin, end] = plan::address(plan_, v, slot);
    for (int64_t i = begin / 64; i <= (end - 1) / 64; ++i) f(static_cast<size_t>(i));
  }
  const plan::Plan& plan_;
  std::vector<uint64_t> cells_;
};

// All ops' reads in a step, by instr; `taken`: one product with its fused op, or none
class Played {
 public:
  Played(const plan::Plan& plan, const plan::Program& program, const std::vector<Fusion>& chosen)
      : plan_(plan), memory_(plan), program_(program), seen_(program.instrs.size()) {
    std::map<int32_t, std::vector<Fusion>> by_product;
    std::map<int32_t, std::set<Fused>> taken;
    for (const Fusion& f : chosen) by_product[f.product].push_back(f), taken[f.other].insert(f.kind);
    for (size_t i = 0; i < program.instrs.size(); ++i) {
      const plan::Instr& instr = program.instrs[i];
      const auto& mine = taken[instr.op];
      if (by_product.contains(instr.op)) {
        const Fusion f = by_product[instr.op][0];
        const size_t at = i + static_cast<size_t>(f.other - instr.op);  // an invocation's instrs are adjacent
        if (f.kind == Fused::bias_gradient) perform(at, sums_of(f.other), instr.slot);
        perform(i, all_of(instr.op), instr.slot);
        if (f.kind != Fused::bias_gradient) perform(at, result_of(f.other), instr.slot);
      } else if (mine.empty()) {
        perform(i, all_of(instr.op), instr.slot);
      } else if (mine == std::set{Fused::gelu_gradient}) {
        perform(i, sums_of(instr.op), instr.slot);
      }
    }
  }
  const std::vector<std::vector<uint64_t>>& seen() const { return seen_; }
  const Memory& memory() const { return memory_; }

 private:
  struct Part {  // of an op
    std::vector<plan::View> reads, writes;
  };
  const plan::Op& op(int32_t i) const { return plan_.ops[static_cast<size_t>(i)]; }
  Part all_of(int32_t i) const {
    if (op(i).kind == plan::OpKind::activation_backward) return {};  // always in two parts
    return {op(i).reads, op(i).writes};
  }
  Part result_of(int32_t i) const { return {op(i).reads, {op(i).writes[0]}}; }
  Part sums_of(int32_t i) const {
    if (op(i).kind == plan::OpKind::column_sum) return {op(i).reads, {op(i).writes[0]}};
    return {{op(i).writes[0]}, {op(i).writes[1]}};
  }
  void perform(size_t instr, const Part& part, int32_t slot) {
    const plan::Instr& x = program_.instrs[instr];
    const plan::Op& o = op(x.op);
    if (part.reads.empty() && part.writes.empty()) {
      perform(instr, result_of(x.op), slot);
      return perform(instr, sums_of(x.op), slot);
    }
    uint64_t h = std::hash<std::string>()(o.path) + static_cast<uint64_t>(x.micro);
    for (const plan::View& v : part.reads) h = h * 31 + (v ? memory_.read(v, slot) : 7);
    const int32_t scratch = o.workspace ? o.writes.back().buffer : -1;  // written, never read
    if (plan::accumulates(o.attrs))
      for (const plan::View& v : part.writes)
        if (v && v.buffer != scratch) h = h * 31 + memory_.read(v, slot);
    seen_[instr].push_back(h);
    for (const plan::View& v : part.writes)
      if (v) memory_.write(v, slot, h);
  }
  const plan::Plan& plan_;
  Memory memory_;
  const plan::Program& program_;
  std::vector<std::vector<uint64_t>> seen_;
};

TEST(Fusion, EveryOpReadsWhatItReadsOneByOne) {
  for (const RunSpec& s : fused_specs())
    for (int rank = 0; rank < s.layout.world(); rank += 3) {
      const plan::Plan plan = nets::build_plan(
          s, rank, [](const plan::Op& op) -> int64_t { return cuda_workspace()(op) > 0 ? 4096 : 0; });
      const plan::Program program = plan::link(plan, plan.train);
      const std::vector<Fusion> chosen = fusible(plan);
      const Played apart(plan, program, {}), together(plan, program, chosen);
      for (size_t i = 0; i < program.instrs.size(); ++i)
        EXPECT_EQ(apart.seen()[i], together.seen()[i]) << plan.ops[program.instrs[i].op].path;
      EXPECT_EQ(apart.memory().read(plan.params_all, 0), together.memory().read(plan.params_all, 0));
      // zb-h1's weight gradients come later, separately.
      EXPECT_TRUE(!chosen.empty() || s.policy.schedule == PipelineSchedule::zb_h1)
          << name_of(s.net.vit().gelu);
    }
}

// Conflicting accesses on different lanes are ordered by waits, directly or transitively.
TEST(Fusion, RelinkedProgramsWaitForEveryConflict) {
  for (const RunSpec& s : fused_specs())
    for (int rank = 0; rank < s.layout.world(); rank += 3) {
      const plan::Plan plan = nets::build_plan(s, rank, cuda_workspace());
      const plan::Plan as_run = fused(plan, fusible(plan));
      ASSERT_EQ(as_run.ops.size(), plan.ops.size());
      for (const Fusion& f : fusible(plan)) {  // the product now touches the fused op's operands
        const plan::Op &other = plan.ops[f.other], &product = as_run.ops[f.product];
        const bool sums = f.kind == Fused::bias_gradient;
        const auto has = [](const std::vector<plan::View>& views, const plan::View& v) {
          return std::any_of(views.begin(), views.end(), [&](const plan::View& x) {
            return x.buffer == v.buffer && x.offset == v.offset && x.count == v.count;
          });
        };
        EXPECT_TRUE(has(product.writes,
                        other.writes[sums && other.kind == plan::OpKind::activation_backward ? 1 : 0]))
            << other.path;
        EXPECT_TRUE(sums || has(product.reads, other.reads[0]) || has(product.writes, other.reads[0]))
            << other.path;
        const auto& left = as_run.ops[f.other];
        for (const auto* views : {&left.reads, &left.writes})
          for (const plan::View& v : *views) EXPECT_TRUE(!v || f.kind == Fused::gelu_gradient) << other.path;
      }
      plan::Program program = plan::link(plan, plan.train);
      plan::relink(as_run, program);
      std::array<int32_t, plan::kLanes> last;
      last.fill(-1);
      std::vector<std::array<int32_t, plan::kLanes>>
          done;  // by instr and lane: the latest finished when it begins
      struct Touch {
        int32_t instr;
        int64_t begin, end;
        bool write;
      };
      std::vector<Touch> touches;
      for (size_t i = 0; i < program.instrs.size(); ++i) {
        const plan::Instr& instr = program.instrs[i];
        const auto lane = static_cast<size_t>(instr.lane);
        std::array<int32_t, plan::kLanes> before;
        before.fill(-1);
        const auto learn = [&](int32_t from) {
          for (size_t l = 0; l < plan::kLanes; ++l)
            before[l] = std::max(before[l], done[static_cast<size_t>(from)][l]);
          auto& own = before[static_cast<size_t>(program.instrs[static_cast<size_t>(from)].lane)];
          own = std::max(own, from);
        };
        if (last[lane] >= 0) learn(last[lane]);
        for (const int32_t w : instr.waits) learn(w);
        const plan::Op& op = as_run.ops[static_cast<size_t>(instr.op)];
        for (const bool write : {false, true})
          for (const plan::View& v : write ? op.writes : op.reads) {
            if (!v || v.count == 0) continue;
            const auto [begin, end] = plan::address(plan, v, instr.slot);
            for (const Touch& t : touches)
              if (t.begin < end && begin < t.end && (write || t.write) &&
                  t.instr != static_cast<int32_t>(i)) {
                const plan::Lane other = program.instrs[static_cast<size_t>(t.instr)].lane;
                EXPECT_GE(before[static_cast<size_t>(other)], t.instr)
                    << op.path << " does not wait for " << as_run.ops[program.instrs[t.instr].op].path;
              }
            touches.push_back({static_cast<int32_t>(i), begin, end, write});
          }
        done.push_back(before);
        last[lane] = static_cast<int32_t>(i);
      }
    }
}

TEST(Fusion, EpiloguesAreThoseOfTheTable) {
  GemmKey key{.m = 64, .n = 32, .k = 16, .in = DType::bf16, .out = DType::bf16};
  EXPECT_EQ(epilogue_of(key), CUBLASLT_EPILOGUE_DEFAULT);
  key.fused = Fused::gelu;
  EXPECT_EQ(epilogue_of(key), CUBLASLT_EPILOGUE_GELU_AUX);
  key.bias = true;
  EXPECT_EQ(epilogue_of(key), CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
  key.fused = Fused::none;
  EXPECT_EQ(epilogue_of(key), CUBLASLT_EPILOGUE_BIAS);
  key.bias = false;
  key.fused = Fused::gelu_gradient;
  EXPECT_EQ(epilogue_of(key), CUBLASLT_EPILOGUE_DGELU);
  key.fused = Fused::bias_gradient;
  EXPECT_EQ(epilogue_of(key), CUBLASLT_EPILOGUE_BGRADB);
}

// BGRADB sums cuBLASLt's second operand, which it wants transposed, over the inner dimension: one sum for
// each column of its result. GELU's input has a leading dimension aligned to 8 elements.
TEST(Fusion, OperandsLieAsTheEpiloguesWantThem) {
  for (const RunSpec& s : fused_specs()) {
    const plan::Plan plan = nets::build_plan(s, 0, cuda_workspace());
    for (const Fusion& f : fusible(plan)) {
      const plan::Op &product = plan.ops[f.product], &other = plan.ops[f.other];
      const ColumnMajor c = column_major(key_of(product, plan, {}));
      // A product's scratch must not overlap the other op's result.
      const auto [scratch, scratch_end] = plan::address(plan, product.writes.back(), 0);
      for (const auto* views : {&other.reads, &other.writes})
        for (const plan::View& v : *views) {
          if (!v || (other.workspace && v.buffer == other.writes.back().buffer)) continue;
          const auto [begin, end] = plan::address(plan, v, 0);
          EXPECT_TRUE(end <= scratch || scratch_end <= begin) << product.path << " and " << other.path;
        }
      if (f.kind == Fused::bias_gradient) {
        EXPECT_TRUE(c.trans_second);
        EXPECT_EQ(c.cols, plan::extent_of(other.attrs).cols);
        EXPECT_EQ(c.inner, plan::extent_of(other.attrs).rows);
      } else {
        EXPECT_EQ(c.ld_out % 8, 0);
        EXPECT_EQ(c.ld_out, c.rows);
        EXPECT_EQ(c.rows * c.cols, other.reads[0].count);
      }
    }
  }
}

}  // namespace
}  // namespace isobar::cuda
