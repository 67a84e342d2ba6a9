// The mapping of an op's operands and sizes to kernel calls, and the memory that an op leaves unchanged.
#include "model/backend/cpu/cpu_backend.h"

#include <omp.h>

#include "model/base/latitude.h"
#include "model/plan/ops/op_table.h"
#include "tests/cpu/kernel_testing.h"

namespace isobar::cpu::testing {
namespace {

// A plan of buffers in an arena that begins as NaN
class Bench {
 public:
  Bench() : arena_(DType::f32, kFloats) { plan_.batch = {{.name = "input"}, {.name = "target"}}; }
  plan::View add(DType t, int64_t n) {
    const auto id = static_cast<int32_t>(plan_.buffers.size());
    isobar::plan::Buffer b{
        .name = std::to_string(id), .kind = plan::BufferKind::io, .dtype = t, .count = n, .offset = end_};
    plan_.buffers.push_back(b);
    end_ += (b.bytes() + 63) / 64 * 64;
    plan_.memory.arena = end_;
    if (end_ > arena_.bytes()) throw std::logic_error("arena too small");
    return {id, 0, n};
  }
  plan::View add(const Buffer& b) {
    const plan::View v = add(b.type(), b.size());
    std::memcpy(at(v), b.data(), b.bytes());
    return v;
  }
  void run(plan::OpKind kind, const plan::Attrs& a, std::vector<plan::View> reads,
           std::vector<plan::View> writes) {
    CpuBackend backend(plan_, static_cast<std::byte*>(arena_.data()));
    backend.on_fetch([this](int32_t, const BatchPlaces& to) {
      fetched_ = {to.floats("input"), to.floats("target")};
    });
    backend.launch(
        {.kind = kind, .attrs = a, .reads = std::move(reads), .writes = std::move(writes), .path = "op"}, 0,
        0);
  }
  void* at(const plan::View& v) { return static_cast<char*>(arena_.data()) + plan_.buffers[v.buffer].offset; }
  float* f32(const plan::View& v) { return static_cast<float*>(at(v)); }
  bool holds(const plan::View& v, const Buffer& want) {
    return std::memcmp(at(v), want.data(), want.bytes()) == 0;
  }
  std::pair<float*, float*> fetched() const { return fetched_; }

 private:
  static constexpr int64_t kFloats = 1 << 20;
  plan::Plan plan_;
  int64_t end_ = 0;
  Buffer arena_;
  std::pair<float*, float*> fetched_;
};

TEST(Backend, FetchesOnlyWhatTheOpHasRoomFor) {
  Bench bench;
  const plan::View image = bench.add(DType::f32, 10);
  bench.run(plan::OpKind::fetch, plan::ImageAttrs{}, {}, {image, plan::View{}});
  EXPECT_EQ(bench.fetched(), std::make_pair(bench.f32(image), static_cast<float*>(nullptr)));
  bench.run(plan::OpKind::fetch, plan::ImageAttrs{}, {}, {plan::View{}, image});
  EXPECT_EQ(bench.fetched(), std::make_pair(static_cast<float*>(nullptr), bench.f32(image)));
}

// Image ops without token and row ranges cover all of them.
TEST(Backend, ImageOpsTakeTheRangesOfTheirAttributes) {
  Random random;
  for (const bool all : {true, false}) {
    SCOPED_TRACE(all ? "all rows" : "a part");
    plan::ImageAttrs a{.batch = 2, .channels = 3, .height = 8, .width = 12, .patch = 2};
    Patch s{2, 3, 8, 12, 2, DType::bf16, 0, 24, 0, 48};
    if (!all) {
      a.token0 = s.token0 = 5, a.tokens = s.tokens = 13, a.row0 = s.row0 = 7, a.rows = s.rows = 11;
    }
    const int64_t n = s.rows * 12;
    const Buffer image = random.buffer(DType::f32, 2 * 3 * 8 * 12), pred = random.buffer(DType::bf16, n);
    Buffer patches(DType::bf16, n), sums(DType::f32, 2 * 5), metrics = random.buffer(DType::f32, 4);
    Buffer dpred(DType::bf16, n);
    Bench bench;
    const plan::View v_image = bench.add(image), v_pred = bench.add(pred), v_metrics = bench.add(metrics);
    const plan::View v_patches = bench.add(DType::bf16, n), v_sums = bench.add(DType::f32, sums.size());
    const plan::View v_dpred = bench.add(DType::bf16, n);
    patch_gather(s, image.f32(), patches.data());
    const std::vector<double> weights = row_weights(s.height, {});
    loss_sums(s, pred.data(), image.f32(), sums.f32(), {.rows = weights.data()});
    loss(s, sums.f32(), 0.5f, metrics.f32(), metrics.f32() + 1);
    loss_backward(s, pred.data(), image.f32(), sums.f32(), 0.5f, dpred.data());
    bench.run(plan::OpKind::patch_gather, a, {v_image}, {v_patches});
    bench.run(plan::OpKind::loss_sums, plan::LossAttrs{.image = a, .weight = 0.5f}, {v_pred, v_image},
              {v_sums});
    bench.run(plan::OpKind::loss, plan::LossAttrs{.image = a, .weight = 0.5f}, {v_sums}, {v_metrics});
    bench.run(plan::OpKind::loss_backward, plan::LossAttrs{.image = a, .weight = 0.5f},
              {v_pred, v_image, v_sums, plan::View{}}, {v_dpred});
    EXPECT_TRUE(bench.holds(v_patches, patches));
    EXPECT_TRUE(bench.holds(v_sums, sums));
    EXPECT_TRUE(bench.holds(v_metrics, metrics));
    EXPECT_TRUE(bench.holds(v_dpred, dpred));
  }
}

TEST(Backend, RowOpsTakeTheirFirstRowAndDoWithoutOptionalOperands) {
  Random random;
  const plan::NormAttrs a{.rows = 9, .cols = 20, .eps = 1e-6f, .period = 4, .row0 = 3};
  const ResidualNorm p{9, 20, 1e-6f, 4, DType::bf16, 3};
  const Buffer residual = random.buffer(DType::f32, 4 * 20), y = random.buffer(DType::bf16, 9 * 20);
  const Buffer gamma = random.buffer(DType::f32, 20), beta = random.buffer(DType::f32, 20);
  for (const bool with_y : {true, false}) {
    SCOPED_TRACE(with_y ? "with y" : "without y");
    Buffer x(DType::f32, 9 * 20), h(DType::bf16, 9 * 20), mean(DType::f32, 9), rstd(DType::f32, 9);
    residual_norm_forward(p, residual.f32(), with_y ? y.data() : nullptr, gamma.f32(), beta.f32(),
                          with_y ? x.f32() : nullptr, h.data(), mean.f32(), rstd.f32());
    Bench bench;
    const plan::View v_residual = bench.add(residual), v_y = bench.add(y), v_gamma = bench.add(gamma);
    const plan::View v_beta = bench.add(beta), v_x = bench.add(DType::f32, 180),
                     v_h = bench.add(DType::bf16, 180);
    const plan::View v_mean = bench.add(DType::f32, 9), v_rstd = bench.add(DType::f32, 9);
    bench.run(plan::OpKind::residual_norm, a, {v_residual, with_y ? v_y : plan::View{}, v_gamma, v_beta},
              {with_y ? v_x : plan::View{}, v_h, v_mean, v_rstd});
    EXPECT_TRUE(bench.holds(v_x, x) && bench.holds(v_h, h));  // without y, x is unchanged
    EXPECT_TRUE(bench.holds(v_mean, mean) && bench.holds(v_rstd, rstd));
  }
  const Buffer dx = random.buffer(DType::f32, 9 * 20);
  Buffer dpos(DType::f32, 4 * 20), sum(DType::f32, 9 * 20);
  period_sum(9, 20, 4, 3, dx.f32(), dpos.f32(), false);
  residual_add(9 * 20, DType::bf16, dx.f32(), y.data(), sum.f32());
  Bench bench;
  const plan::View v_dx = bench.add(dx), v_y = bench.add(y), v_dpos = bench.add(DType::f32, 80);
  const plan::View v_sum = bench.add(DType::f32, 180);
  bench.run(plan::OpKind::period_sum, plan::PeriodSumAttrs{.rows = 9, .cols = 20, .period = 4, .row0 = 3},
            {v_dx}, {v_dpos});
  bench.run(plan::OpKind::residual_add, plan::AddAttrs{9, 20}, {v_dx, v_y}, {v_sum});
  EXPECT_TRUE(bench.holds(v_dpos, dpos) && bench.holds(v_sum, sum));
}

TEST(Backend, CopiesWithTheStridesOfTheOp) {
  Random random;
  const Buffer x = random.buffer(DType::bf16, 2 * 3 * 4 * 5);
  plan::CopyAttrs a{.run = 5};  // [2,3,4,5] -> [4,3,2,5]
  const Copy c{{2, 3, 4}, {60, 20, 5}, {5, 10, 30}, 5, DType::bf16};
  for (int d = 0; d < 3; ++d) a.extent[d] = c.extent[d], a.from[d] = c.from[d], a.to[d] = c.to[d];
  Buffer y(DType::bf16, x.size());
  copy(c, x.data(), y.data());
  Bench bench;
  const plan::View v_x = bench.add(x), v_y = bench.add(DType::bf16, x.size());
  bench.run(plan::OpKind::copy, a, {v_x}, {v_y});
  EXPECT_TRUE(bench.holds(v_y, y));
}

TEST(Backend, RefusesWhatGoesOverTheNetwork) {
  Bench bench;
  const plan::View x = bench.add(DType::f32, 4);
  for (const plan::OpKind kind : {plan::OpKind::all_reduce, plan::OpKind::broadcast, plan::OpKind::all_gather,
                                  plan::OpKind::reduce_scatter, plan::OpKind::all_to_all,
                                  plan::OpKind::exchange, plan::OpKind::send, plan::OpKind::recv})
    EXPECT_THROW(bench.run(kind, {}, {x}, {x}), std::logic_error) << isobar::plan::name_of(kind);
}

// Attention's workspace is cut by the threads that run it: more threads than planned would overflow it.
TEST(Backend, RefusesAWorkspaceOfFewerThreads) {
  plan::AttentionAttrs a;
  a.batch = 1, a.heads = a.kv_heads = 4, a.tq = a.tk = 64, a.d = 16, a.scale = 0.25;
  a.ld_q = a.ld_kv = a.ld_o = 4 * 16;
  const int64_t n = 64 * 4 * 16;
  const auto run = [&](int planned) {
    Bench bench;
    const plan::View q = bench.add(DType::f32, n), k = bench.add(DType::f32, n), v = bench.add(DType::f32, n),
                     o = bench.add(DType::f32, n), lse = bench.add(DType::f32, 64 * 4);
    const int64_t bytes = cpu_workspace(planned)({.kind = plan::OpKind::attention, .attrs = a});
    bench.run(plan::OpKind::attention, a, {q, k, v}, {o, lse, bench.add(DType::f32, (bytes + 3) / 4)});
  };
  const int before = omp_get_max_threads();
  omp_set_num_threads(2);
  EXPECT_NO_THROW(run(2));
  EXPECT_NO_THROW(run(3));
  EXPECT_THROW(run(1), std::logic_error);
  omp_set_num_threads(before);
}

TEST(Backend, RefusesTheKindsOfWhichTheTableSaysThatItHasNone) {
  int refused = 0;
  for (int k = 0; k < plan::kOpKinds; ++k) {
    const auto kind = static_cast<plan::OpKind>(k);
    if (plan::info_of(kind).backends & plan::kCpu) continue;
    EXPECT_THROW(Bench().run(kind, {}, {}, {}), std::logic_error) << plan::name_of(kind);
    ++refused;
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace isobar::cpu::testing
