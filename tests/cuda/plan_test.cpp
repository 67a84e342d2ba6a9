// Decisions of the GPU backend that need no GPU: workspaces and the arena, products' keys, and the order of
// programs on streams.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "model/backend/cuda/cuda_backend.h"
#include "model/backend/cuda/kernels/divisor.h"
#include "model/backend/cuda/kernels/workspace.h"
#include "model/backend/cuda/stream_order.h"
#include "model/nets/build.h"
#include "model/plan/ops/work.h"

namespace isobar::cuda {
namespace {

RunSpec net(Amp amp) {
  RunSpec s;
  s.file = "test";
  s.net.vit().embed_dim = 64;
  s.net.vit().depth = 3;
  s.net.vit().num_heads = 4;
  s.net.vit().img_height = 64;
  s.net.vit().img_width = 128;
  s.train.global_batch = 8;
  s.policy.micro_batch = 2;
  s.policy.amp = amp;
  return s;
}

std::vector<RunSpec> specs() {
  std::vector<RunSpec> all;
  for (const Amp amp : {Amp::none, Amp::bf16, Amp::fp16}) {
    RunSpec s = net(amp);
    all.push_back(s);
    s.policy.offload_optimizer = true;
    s.policy.bucket_mb = 0.1;
    all.push_back(s);
    s.policy.offload_optimizer = false;
    s.layout.dp = 2;
    s.policy.zero = 3;
    all.push_back(s);
    s.policy.zero = 0;
    s.layout = {.dp = 1, .tp = 2, .cp = 2, .pp = 2};
    s.policy.cp_kind = CpKind::ring;
    all.push_back(s);
  }
  return all;
}

TEST(Workspace, IsAskedForByEveryOpThatTakesOneAndLiesInTheArena) {
  for (const RunSpec& s : specs()) {
    const plan::Plan plan = nets::build_plan(s, 0, cuda_workspace());
    for (const plan::Op& op : plan.ops) {
      const int64_t bytes = cuda_workspace()(op);
      EXPECT_EQ(op.workspace, bytes > 0) << op.path;
      if (bytes == 0) continue;
      const plan::View& w = op.writes.back();
      ASSERT_TRUE(w) << op.path;
      EXPECT_GE(w.count * 4, bytes) << op.path;
      EXPECT_EQ(plan.buffers[w.buffer].kind, plan::BufferKind::scratch) << op.path;
      const auto [begin, end] = plan::address(plan, w, 0);
      EXPECT_EQ(begin % 256, 0) << op.path;  // cuBLASLt's requirement, which cudaMalloc meets
      EXPECT_LE(end, plan.memory.arena) << op.path;
    }
  }
}

TEST(Workspace, DependsOnTheOpAlone) {
  const plan::Workspace one = cuda_workspace(), other = cuda_workspace();
  std::map<std::string, int64_t> bytes;
  for (int round = 0; round < 2; ++round)
    for (const RunSpec& s : specs())
      for (const plan::Op& op : nets::build_plan(s, 0, round == 0 ? one : other).ops) {
        plan::Op moved = op;  // the same op at other addresses
        for (auto* views : {&moved.reads, &moved.writes})
          for (plan::View& v : *views)
            if (v) v.offset += 1024, v.buffer += 7;
        EXPECT_EQ(one(op), other(moved)) << op.path;
        const auto [at, fresh] =
            bytes.try_emplace(name_of(s.policy.amp) + std::to_string(s.layout.world()) +
                                  std::to_string(s.policy.zero) + op.path + plan::shape_text(op),
                              one(op));
        EXPECT_EQ(at->second, one(op)) << op.path;
      }
}

TEST(Workspace, ChangesNeitherWorkNorTheOtherOperands) {
  for (const RunSpec& s : specs()) {
    const plan::Workspace none([](const plan::Op&) { return int64_t{0}; }, cuda_workspace().align);
    const plan::Plan without = nets::build_plan(s, 0, none), with = nets::build_plan(s, 0, cuda_workspace());
    ASSERT_EQ(without.ops.size(), with.ops.size());
    for (size_t i = 0; i < with.ops.size(); ++i) {
      const plan::Work a = plan::work(without.ops[i], without), b = plan::work(with.ops[i], with);
      EXPECT_EQ(a.flops, b.flops) << with.ops[i].path;
      EXPECT_EQ(a.bytes(), b.bytes()) << with.ops[i].path;
    }
    EXPECT_GT(with.memory.arena, without.memory.arena);
    for (const plan::BufferKind k :
         {plan::BufferKind::params, plan::BufferKind::grads, plan::BufferKind::adam, plan::BufferKind::saved})
      EXPECT_EQ(with.memory.by_kind[static_cast<int>(k)], without.memory.by_kind[static_cast<int>(k)]);
  }
}

TEST(GemmKey, NamesAllThatAnAlgorithmDependsOn) {
  const plan::Plan plan = nets::build_plan(net(Amp::bf16), 0, cuda_workspace());
  std::set<std::string> texts;
  std::set<GemmKey> keys;
  for (const plan::Op& op : plan.ops) {
    if (op.kind != plan::OpKind::gemm) continue;
    const GemmKey key = key_of(op, plan, {nullptr, nullptr, nullptr, nullptr});
    EXPECT_EQ(key.align, 16);
    keys.insert(key);
    texts.insert(text_of(key));
    GemmKey other = key;
    other.accumulate = !other.accumulate;
    EXPECT_NE(key, other);
    EXPECT_NE(text_of(key), text_of(other));
  }
  EXPECT_EQ(texts.size(), keys.size());
  EXPECT_LT(keys.size(), plan.ops.size() / 4) << "blocks share shapes";
}

TEST(GemmKey, AlignmentIsThatOfTheWorstOperandButNoMoreThanAnAccess) {
  const auto at = [](uintptr_t p) { return reinterpret_cast<void*>(p); };
  EXPECT_EQ(alignment_of({at(256), at(512), nullptr, at(1024)}), 16);
  EXPECT_EQ(alignment_of({at(256), at(520), nullptr, at(1024)}), 8);
  EXPECT_EQ(alignment_of({at(256), at(512), at(2), at(1024)}), 2);
}

// C' = op(B)' op(A)', computed from the description only
TEST(GemmKey, ColumnMajorViewIsTheSameProduct) {
  std::mt19937 engine{std::random_device()()};
  std::uniform_int_distribution<int64_t> size(1, 9);
  std::normal_distribution<double> normal;
  for (int round = 0; round < 50; ++round) {
    GemmKey key;
    key.m = size(engine), key.n = size(engine), key.k = size(engine);
    key.trans_a = round % 2 == 1, key.trans_b = round / 2 % 2 == 1;
    std::vector<double> a(static_cast<size_t>(key.m * key.k)), b(static_cast<size_t>(key.k * key.n));
    for (auto* x : {&a, &b})
      for (double& v : *x) v = normal(engine);
    const ColumnMajor c = column_major(key);
    EXPECT_EQ(c.rows, key.n);
    EXPECT_EQ(c.cols, key.m);
    std::vector<double> out(static_cast<size_t>(key.m * key.n));
    for (int64_t i = 0; i < c.rows; ++i)
      for (int64_t j = 0; j < c.cols; ++j)
        for (int64_t e = 0; e < c.inner; ++e) {
          const double x = b[static_cast<size_t>(c.trans_first ? e + i * c.ld_first : i + e * c.ld_first)];
          const double y = a[static_cast<size_t>(c.trans_second ? j + e * c.ld_second : e + j * c.ld_second)];
          out[static_cast<size_t>(i + j * c.ld_out)] += x * y;
        }
    for (int64_t i = 0; i < key.m; ++i)
      for (int64_t j = 0; j < key.n; ++j) {
        double want = 0;
        for (int64_t e = 0; e < key.k; ++e)
          want += a[static_cast<size_t>(key.trans_a ? e * key.m + i : i * key.k + e)] *
                  b[static_cast<size_t>(key.trans_b ? j * key.k + e : e * key.n + j)];
        EXPECT_NEAR(out[static_cast<size_t>(i * key.n + j)], want, 1e-9);
      }
  }
}

TEST(StreamOrder, KeepsEveryWaitOfTheProgramAndAddsNone) {
  for (const RunSpec& s : specs())
    for (int rank = 0; rank < s.layout.world(); ++rank)
      for (const bool serial : {false, true}) {
        const plan::Plan plan = nets::build_plan(s, rank, cuda_workspace());
        const plan::Program program = plan::link(plan, plan.train, serial);
        const StreamOrder order(program);
        ASSERT_EQ(order.list.size(), program.instrs.size());
        std::map<int32_t, size_t> recorded;  // event -> index in the list
        int32_t waits = 0;
        for (size_t i = 0; i < order.list.size(); ++i) {
          const Enqueue& e = order.list[i];
          const plan::Instr& instr = program.instrs[i];
          EXPECT_EQ(e.instr, static_cast<int32_t>(i));  // program order is NCCL's order on every rank
          EXPECT_EQ(e.lane, instr.lane);
          EXPECT_TRUE(order.used[static_cast<size_t>(e.lane)]);
          std::set<int32_t> waited;
          for (const int32_t event : e.waits) {
            ASSERT_TRUE(recorded.contains(event)) << "waits for what has not been recorded yet";
            waited.insert(static_cast<int32_t>(recorded[event]));
            EXPECT_NE(order.list[recorded[event]].lane, e.lane);
            ++waits;
          }
          EXPECT_EQ(waited, std::set<int32_t>(instr.waits.begin(), instr.waits.end()));
          if (e.event >= 0) {
            EXPECT_TRUE(recorded.emplace(e.event, i).second) << "an event is recorded once";
          }
        }
        EXPECT_EQ(static_cast<size_t>(order.events), recorded.size());
        const bool lanes = std::any_of(program.instrs.begin(), program.instrs.end(),
                                       [](const plan::Instr& i) { return i.lane != plan::Lane::compute; });
        EXPECT_EQ(waits > 0, lanes);
      }
}

TEST(Libraries, HaveTheFunctionsThatAreAskedFor) {
  std::string cublas;
  try {
    cublas = Gemms::library_version();
  } catch (const std::runtime_error& e) {
    GTEST_SKIP() << e.what();
  }
  EXPECT_EQ(cublas.substr(0, cublas.find('.')), std::to_string(CUBLAS_VER_MAJOR));
  if (CudnnAttention::built()) {
    EXPECT_EQ(CudnnAttention::version().substr(0, 2), "9.");
  }
}

TEST(Arena, EveryBufferBeginsOnTheBytesThatTheBackendAsksFor) {
  for (const RunSpec& s : specs())
    for (const int64_t align : {64, 256, 512}) {
      const plan::Plan plan = nets::build_plan(s, 0, {cuda_workspace(), align});
      EXPECT_EQ(plan.align, align);
      EXPECT_EQ(plan.memory.arena % align, 0);
      for (const plan::Buffer& b : plan.buffers) {
        if (b.offset < 0) continue;
        EXPECT_EQ(b.offset % align, 0) << b.name;
        EXPECT_EQ(b.slot_stride % align, 0) << b.name;
      }
    }
}

TEST(Divisor, IsTheDivisionOfIntegers) {
  std::mt19937 engine{std::random_device()()};
  std::uniform_int_distribution<int> any(0, std::numeric_limits<int>::max());
  for (int round = 0; round < 20000; ++round) {
    const int size = round < 300 ? round + 1 : std::max(1, any(engine) >> (round % 31));
    const Divisor by(size);
    for (const int n : {0, size - 1, size, any(engine), any(engine) >> (round % 29),
                        std::numeric_limits<int>::max() / size * size - 1, std::numeric_limits<int>::max()})
      ASSERT_EQ(by(n), n / size) << n << " / " << size;
  }
}

TEST(AttentionPath, IsCudnnsForWholeSixteenByteRowsOfSixteenBitTypesElseOurOwn) {
  Attention a{.batch = 1,
              .heads = 2,
              .kv_heads = 2,
              .tq = 10,
              .tk = 10,
              .d = 48,
              .act = DType::bf16,
              .ld_q = 288,
              .ld_kv = 288,
              .ld_o = 96};
  using Path = AttentionPath;
  EXPECT_EQ(attention_path(a, false, 9, true), Path::cudnn);
  EXPECT_EQ(attention_path(a, false, 9, false), Path::tensor_cores) << "without cuDNN";
  a.act = DType::f16;
  a.ld_q = 290;
  EXPECT_EQ(attention_path(a, false, 9, true), Path::tensor_cores);
  a.ld_q = 288;
  a.d = 192;
  EXPECT_EQ(attention_path(a, true, 9, true), Path::cudnn);
  EXPECT_EQ(attention_path(a, false, 8, true), Path::cudnn);
  for (const int other : {8, 10}) EXPECT_EQ(attention_path(a, true, other, true), Path::tensor_cores);
  a.act = DType::f32;
  EXPECT_EQ(attention_path(a, false, 9, true), Path::scalar) << "strict f32 keeps its precision";
  a.tf32 = true;
  EXPECT_EQ(attention_path(a, false, 9, true), Path::tensor_cores);
  a.d = 64;
  a.tq = 13, a.tk = 3;
  for (const DType act : {DType::f32, DType::bf16}) {
    a.act = act;
    EXPECT_EQ(attention_path(a, true, 9, true), Path::few_tokens);
  }
  a.tk = 13;
  EXPECT_EQ(attention_path(a, true, 9, true), Path::cudnn) << "169 pairs";
  a.d = 264;
  EXPECT_THROW(attention_path(a, false, 9, true), std::invalid_argument);
}

}  // namespace
}  // namespace isobar::cuda
