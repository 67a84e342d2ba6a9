// run.attention: which kernels it chooses, and an op through the back end by ours for Hopper.
#include "model/backend/cuda/kernels/attention/attention_choice.h"

#include <algorithm>
#include <cstring>

#include "model/backend/cuda/cuda_backend.h"
#include "model/backend/cuda/kernels/attention/attention_path.h"
#include "model/backend/cuda/kernels/hopper/attention.h"
#include "model/backend/cuda/kernels/workspace.h"
#include "model/plan/builder.h"
#include "tests/cuda/kernels/attention_problem.h"

namespace isobar::cuda::testing {
namespace {

using Choice = AttentionChoice;
using Path = AttentionPath;

Attention attention(int64_t d, bool causal, int64_t tokens) {
  return {.batch = 1,
          .heads = 2,
          .kv_heads = 2,
          .tq = tokens,
          .tk = tokens,
          .d = d,
          .causal = causal,
          .act = DType::bf16,
          .ld_q = 2 * d,
          .ld_kv = 2 * d,
          .ld_o = 2 * d};
}

TEST(AttentionChoice, AutoIsTheFasterByTheMeasuredTimes) {
  for (const MeasuredAttention& m : kMeasuredAttention) {
    const auto path = [&](int64_t tq, int64_t tk) {
      Attention a = attention(m.d, m.causal, tq);
      a.tk = tk;
      return attention_path(a, m.backward, 9, true);
    };
    for (size_t i = 0; i < std::size(kMeasuredTokens); ++i) {
      const Path faster = m.times[i] >= 1 ? Path::hopper : Path::cudnn;
      const Path below = i > 0 && m.times[i - 1] >= 1 ? Path::hopper : Path::cudnn;
      const int64_t n = kMeasuredTokens[i];
      EXPECT_EQ(path(n, n), faster) << m.d;
      EXPECT_EQ(path(n - 1, n), below) << m.d;
      EXPECT_EQ(path(n, n - 1), below) << m.d;
    }
  }
  for (const int64_t d : {int64_t{48}, int64_t{64}, int64_t{96}, int64_t{128}, int64_t{192}, int64_t{144}})
    for (const bool causal : {false, true})
      for (const bool backward : {false, true}) {
        const auto rows = std::ranges::count_if(kMeasuredAttention, [&](const MeasuredAttention& m) {
          return m.d == d && m.causal == causal && m.backward == backward;
        });
        EXPECT_LE(rows, 1) << d;
        if (rows == 0) {
          EXPECT_EQ(attention_path(attention(d, causal, 8192), backward, 9, true), Path::cudnn) << d;
        }
      }
}

TEST(AttentionChoice, OwnIsOursWhereTheyTakeTheShapeElseAsCudnn) {
  const auto path = [](const Attention& a, bool backward, Choice choice = Choice::own, int capability = 9) {
    return attention_path(a, backward, capability, true, choice);
  };
  for (const bool backward : {false, true})
    for (const bool causal : {false, true})
      for (const int64_t tokens : {20, 4096}) {
        const Attention a = attention(48, causal, tokens);
        EXPECT_EQ(path(a, backward), Path::hopper);
        EXPECT_EQ(path(a, backward, Choice::cudnn), Path::cudnn);
        for (const Choice any : {Choice::automatic, Choice::cudnn, Choice::own})
          for (const int capability : {8, 10}) EXPECT_EQ(path(a, backward, any, capability), Path::cudnn);
        Attention other = a;
        other.deterministic = true;
        EXPECT_EQ(path(other, backward), backward ? Path::cudnn : Path::hopper) << "its sums have no order";
        other = a;
        other.biased = true;
        EXPECT_EQ(path(other, backward), Path::tensor_cores);
        other = a;
        other.act = DType::f32;
        EXPECT_EQ(path(other, backward), Path::scalar);
        other = a;
        other.d = 56, other.ld_q = other.ld_kv = other.ld_o = 112;
        EXPECT_EQ(path(other, backward), Path::cudnn);
        other = a;
        other.tq = 13, other.tk = 3;
        EXPECT_EQ(path(other, backward), Path::few_tokens);
      }
}

TEST(AttentionChoice, WorkspaceIsEnoughForThePathThatRuns) {
  for (const int64_t d : {48, 64, 96, 128, 192})
    for (const Choice choice : {Choice::automatic, Choice::cudnn, Choice::own})
      for (const bool deterministic : {false, true}) {
        Attention a = attention(d, false, 4096);
        a.tq = 4100;  // ends inside a tile
        a.deterministic = deterministic;
        const int64_t bytes = attention_workspace(a, true, 9, choice);
        EXPECT_GE(bytes, attention_workspace(a, true, 9, Choice::cudnn));
        if (attention_path(a, true, 9, true, choice) == Path::hopper) {
          EXPECT_GE(bytes, hopper_backward_workspace(a));
        } else {
          EXPECT_EQ(bytes, attention_workspace(a, true, 9, Choice::cudnn));
        }
        for (const int capability : {8, 10})
          EXPECT_EQ(attention_workspace(a, true, capability, choice),
                    attention_workspace(a, true, capability, Choice::cudnn));
      }
}

struct Operands {
  std::vector<plan::View> reads, writes;
};
// A plan of one op with the workspace of `choice`
plan::Plan plan_of(bool backward, const Attention& a, Choice choice, Operands& to) {
  plan::Builder b(0, 1, cuda_workspace(9, false, choice));
  const auto hold = [&](DType t, int64_t n) { return b.io("operand", t, n); };
  const int64_t queries = a.batch * a.tq, keys = a.batch * a.tk;
  const auto q = [&] { return hold(a.act, queries * a.ld_q); };
  const auto k = [&] { return hold(a.act, keys * a.ld_kv); };
  const auto o = [&] { return hold(a.act, queries * a.ld_o); };
  const auto lse = [&] { return hold(DType::f32, queries * a.heads); };
  to.reads = {q(), k(), k()};
  if (backward) {
    to.reads.insert(to.reads.end(), {o(), lse(), o()});
    to.writes = {q(), k(), k()};
  } else {
    to.writes = {o(), lse()};
  }
  std::vector<plan::View> reads = to.reads, writes = to.writes;
  reads.emplace_back();  // no bias, and no gradient of it
  if (backward) writes.emplace_back();
  const int routine = b.begin("op", plan::Pass::forward);
  b.emit_with_workspace(backward ? plan::OpKind::attention_backward : plan::OpKind::attention, "op",
                        plan::AttentionAttrs{.batch = a.batch,
                                             .heads = a.heads,
                                             .kv_heads = a.kv_heads,
                                             .tq = a.tq,
                                             .tk = a.tk,
                                             .d = a.d,
                                             .ld_q = a.ld_q,
                                             .ld_kv = a.ld_kv,
                                             .ld_o = a.ld_o,
                                             .causal = a.causal,
                                             .scale = a.scale,
                                             .token0 = a.shift()},
                        reads, writes);
  b.end();
  b.plan.train.push_back({routine, 0, 0});
  plan::place(b.plan);
  return std::move(b.plan);
}

// Results of the op through the back end, without cuDNN
std::vector<Buffer> results_of(bool backward, const Attention& a, Choice choice,
                               const std::vector<const Buffer*>& given) {
  Operands operands;
  const plan::Plan plan = plan_of(backward, a, choice, operands);
  const Streams streams;
  const DeviceArena arena(plan.memory.arena);
  CudaBackend backend(plan, arena.data(), nullptr, streams, {.cudnn = false, .attention = choice});
  backend.prepare();
  EXPECT_EQ(backend.attentions().at(0).path, choice == Choice::own ? Path::hopper : Path::tensor_cores);
  for (size_t i = 0; i < given.size(); ++i)
    std::memcpy(backend.host(operands.reads[i]), given[i]->data(), static_cast<size_t>(given[i]->bytes()));
  backend.upload(operands.reads);
  backend.launch(plan.ops[0], 0, 0);
  backend.sync();
  backend.download(operands.writes);
  std::vector<Buffer> results;
  for (const plan::View& v : operands.writes) {
    Buffer& to = results.emplace_back(plan.buffers[static_cast<size_t>(v.buffer)].dtype, v.count);
    std::memcpy(to.data(), backend.host(v), static_cast<size_t>(to.bytes()));
  }
  return results;
}

TEST(Kernels, AttentionByOursForHopperIsThatOfThePortableOnes) {
  ISOBAR_NEEDS_HOPPER();
  Random random;
  for (const Shape& s :
       {Shape{2, 2, 1, 70, 150, 48, 0, false, false}, Shape{1, 2, 2, 130, 130, 64, 0, true, false},
        Shape{1, 1, 1, 100, 70, 192, 0, false, false}}) {
    const Problem x(s, DType::bf16, random);
    const auto both = [&](bool backward, const std::vector<const Buffer*>& given, double allowed) {
      std::vector<Buffer> portable = results_of(backward, x.a, Choice::cudnn, given);
      const std::vector<Buffer> own = results_of(backward, x.a, Choice::own, given);
      for (size_t i = 0; i < own.size(); ++i)
        expect_near(own[i], portable[i], allowed * roundoff(DType::bf16),
                    text_of(x.a, backward) + " result " + std::to_string(i));
      return portable;
    };
    const std::vector<Buffer> done = both(false, {&x.q, &x.k, &x.v}, 2);
    both(true, {&x.q, &x.k, &x.v, &done[0], &done[1], &x.d_o}, 4);
  }
}

#ifdef ISOBAR_EMULATED
TEST(Kernels, AttentionOnHopperNeedsThePlanOfItsChoice) {
  const Streams streams;
  Attention a = attention(48, false, 4096);
  a.tq = 4100;  // ours fill whole tiles, cuDNN's do not
  for (const Choice planned : {Choice::cudnn, Choice::own}) {
    Operands operands;
    const plan::Plan plan = plan_of(true, a, planned, operands);
    CudaBackend backend(plan, reinterpret_cast<std::byte*>(uintptr_t{1} << 40), nullptr, streams,
                        {.gemm = GemmChoice::heuristic, .cudnn = false, .attention = Choice::own});
    if (planned == Choice::own) {
      EXPECT_NO_THROW(backend.prepare());
    } else {
      EXPECT_THROW(backend.prepare(), std::logic_error);
    }
  }
}
#endif

}  // namespace
}  // namespace isobar::cuda::testing
