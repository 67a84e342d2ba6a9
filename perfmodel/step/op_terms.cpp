#include "perfmodel/step/op_terms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "model/base/system/team.h"
#include "model/plan/ops/op_table.h"
#include "model/plan/ops/operands.h"
#include "perfmodel/step/shapes.h"

namespace isobar::perf {
namespace {

// Bytes read from memory for operands of this size: the more, the less they fit the rank's share of the
// cache.
double spilled(double bytes, double cache_share) {
  return bytes * bytes / (bytes + cache_share);
}

// Arithmetic of products, alone or within attention, by which back ends choose kernels.
enum class Arithmetic : uint8_t { f32, tf32, half, fp8 };
Arithmetic arithmetic_of(DType dtype, bool fp8, bool tf32) {
  return fp8                                           ? Arithmetic::fp8
         : dtype == DType::bf16 || dtype == DType::f16 ? Arithmetic::half
         : tf32                                        ? Arithmetic::tf32
                                                       : Arithmetic::f32;
}
Coef product_at(Arithmetic a) {
  constexpr Coef kPrices[] = {Coef::gemm_f32, Coef::gemm_tf32, Coef::gemm_bf16, Coef::gemm_fp8};
  return kPrices[static_cast<size_t>(a)];
}
Coef attention_at(Arithmetic a, bool backward) {  // fp8: of its products only
  constexpr Coef kPrices[][4] = {
      {Coef::attention_f32, Coef::attention_tf32, Coef::attention_bf16, Coef::attention_bf16},
      {Coef::attention_backward_f32, Coef::attention_backward_tf32, Coef::attention_backward_bf16,
       Coef::attention_backward_bf16}};
  return kPrices[backward ? 1 : 0][static_cast<size_t>(a)];
}
// On cores: exponentials, sums and rounding for each score, whatever the head size.
Coef softmax_at(Arithmetic a, bool backward) {
  const bool half = a == Arithmetic::half || a == Arithmetic::fp8;
  if (backward) return half ? Coef::softmax_backward_bf16 : Coef::softmax_backward_f32;
  return half ? Coef::softmax_bf16 : Coef::softmax_f32;
}

// Calls put(coefficient, amount) for each coefficient of an op that is no collective. `flops`: charged FLOPs,
// at least those executed.
template <class Put>
void count_compute(plan::PriceClass price, Arithmetic arithmetic, const plan::Work& work, double flops,
                   double cache_share, const Put& put) {
  put(Coef::op, 1);
  put(Coef::fork, 1);
  const double bytes = work.bytes();
  const auto rows = [&](Coef c) {
    put(c, bytes);
    put(Coef::vector, work.vector_flops);
    put(Coef::spill, spilled(bytes, cache_share));
  };
  switch (price) {
    case plan::PriceClass::product:
      put(product_at(arithmetic), flops);
      put(Coef::gemm_bytes, bytes);
      put(Coef::gemm_call, 1);
      put(Coef::spill, spilled(bytes, cache_share));
      break;
    case plan::PriceClass::attention:
    case plan::PriceClass::attention_backward: {
      const bool backward = price == plan::PriceClass::attention_backward;
      put(attention_at(arithmetic, backward), flops);
      put(softmax_at(arithmetic, backward), work.vector_flops);
      // Operands are packed element by element, whatever their size in bytes: with few tokens this is a
      // larger share.
      put(Coef::attention_bytes, (arithmetic == Arithmetic::half ? 2 : 1) * bytes);
      break;
    }
    case plan::PriceClass::norm:
      rows(Coef::norm);
      break;
    case plan::PriceClass::activation:
      rows(Coef::gelu);
      break;
    case plan::PriceClass::reduction:
      rows(Coef::reduction);
      break;
    case plan::PriceClass::copy:
      rows(Coef::copy);
      break;
    case plan::PriceClass::loss:
      rows(Coef::loss);
      break;
    case plan::PriceClass::optimizer:
      rows(Coef::optimizer);
      break;
    case plan::PriceClass::transfer:
      break;  // collective.h
  }
}

// Products and attention run over an accelerator's processors in waves of tiles; a partial last wave is
// charged in full. The kernel is the best of the usual tiles; smaller ones reuse less. Long products with few
// tiles are split along k. A tile's first loads are exposed: kFill of k.
struct Tile {
  double m, n, rate;
};
constexpr Tile kTiles[] = {{256, 128, 1}, {128, 256, 1}, {128, 128, 0.95}, {128, 64, 0.8}, {64, 64, 0.6}};
constexpr double kFill = 64;

double paid_gemm(const OpShape& s, double processors) {
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& t : kTiles) {
    const double tiles = std::max(1.0, s.batch) * std::ceil(s.m / t.m) * std::ceil(s.n / t.n);
    for (double split = 1; split <= 8 && s.k / split >= 256; split *= 2) {
      const double rounds = std::ceil(tiles * split / processors);
      best = std::min(best, rounds * processors * t.m * t.n * (s.k / split + kFill) / t.rate);
      if (rounds > 4) break;  // nearly full waves
    }
    if (s.k < 256) {
      const double rounds = std::ceil(tiles / processors);
      best = std::min(best, rounds * processors * t.m * t.n * (s.k + kFill) / t.rate);
    }
  }
  return std::max(2 * best, s.work.flops);
}

// Cores load a register of inputs for each step of a product: groups of few channels use each only little.
double narrow_groups(const OpShape& s) {
  constexpr double kRegister = 16;  // numbers
  return 1 + kRegister / std::max(1.0, std::min({s.m, s.n, s.k}));
}

// Tiles of 128 queries of one head; those on an edge of what a mask hides are computed whole.
double paid_attention(const OpShape& s, double processors) {
  const double tiles = s.batch * s.heads * std::ceil(s.tq / 128), rounds = std::ceil(tiles / processors);
  const double seen = s.work.vector_flops / (s.batch * s.heads * s.tq);  // keys of a query
  const double edges = s.windowed ? 2 : s.causal ? 1 : 0, whole = 1 + edges * 64 / std::max(64.0, seen);
  return std::max(s.work.flops * whole * softmax_of_head(s.d) * rounds * processors / tiles, s.work.flops);
}

// The threads used by an op, and all threads of its rank. Prices are for the whole team (cost.h: rates), so
// fewer threads count for more, with a typical serial share in place of the machine's threads.serial. oneDNN
// adds a thread for each number of FLOPs of a product in f32 (its adjust_thread_count: 3,000 cycles of 64
// multiply-adds); its matmul in 16 bits cuts the smallest product into blocks for all threads.
struct Team {
  double own = 1, whole = 1;
  static double of_one(double threads) {  // seconds of a team, relative to one thread
    constexpr double kUsualSerial = 0.05;
    return (1 + kUsualSerial * (threads - 1)) / threads;
  }
  double share(Resource r) const {
    if (own == whole) return 1;
    if (r == Resource::fork) return std::log2(own) / std::log2(whole);
    return r == Resource::compute || r == Resource::memory ? of_one(own) / of_one(whole) : 1;
  }
};

Team team_of(plan::PriceClass price, DType dtype, const plan::Work& work, int64_t threads) {
  if (threads <= 1) return {};
  constexpr double kFlopsPerThread = 2 * 3000 * 64;
  const auto whole = static_cast<double>(threads);
  if (price == plan::PriceClass::attention || price == plan::PriceClass::attention_backward)
    return {whole, whole};
  if (price == plan::PriceClass::product && size_of(dtype) < 4) return {whole, whole};
  if (price == plan::PriceClass::product)
    return {std::clamp(std::floor(work.flops / kFlopsPerThread), 1.0, whole), whole};
  // Bytes of an element: read and written; for Adam six reads or writes in f32 and a gradient
  const double element =
      price == plan::PriceClass::optimizer ? 28 : 2.0 * static_cast<double>(size_of(dtype));
  return {static_cast<double>(threads_worth(static_cast<int64_t>(work.bytes() / element), threads)), whole};
}

plan::PriceClass price_of(const plan::Op& op) {
  const auto* priced = std::get_if<plan::PricedAttrs>(&op.attrs);
  return priced ? priced->price : plan::info_of(op.kind).price;
}

}  // namespace

double softmax_of_head(double head_size) {
  return (1 + 32 / head_size) / 1.25;
}

DType dtype_of(const plan::Op& op, const plan::Plan& plan) {
  for (const auto* views : {&op.reads, &op.writes})
    for (const plan::View& v : *views)
      if (v) return plan.buffers[v.buffer].dtype;
  return DType::f32;
}

OpShape shape_of(const plan::Op& op, const plan::Plan& plan, const Conditions& where) {
  OpShape s{.kind = op.kind,
            .price = price_of(op),
            .dtype = dtype_of(op, plan),
            .to_host = op.lane == plan::Lane::h2d || op.lane == plan::Lane::d2h,
            .work = plan::work(op, plan)};
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  if (const auto* a = std::get_if<plan::GemmAttrs>(&op.attrs)) {
    s.fp8 = a->fp8, s.tf32 = a->tf32;
    s.m = real(a->m), s.n = real(a->n), s.k = real(a->k), s.batch = real(a->batch);
  } else if (const auto* a = std::get_if<plan::GroupedGemmAttrs>(&op.attrs)) {  // groups alike
    s.fp8 = a->fp8, s.tf32 = a->tf32;
    s.m = real(a->m), s.n = real(a->n), s.k = real(a->k), s.batch = real(a->groups);
    s.busiest = a->busiest;
    (a->trans_a ? s.k : s.m) *= s.busiest / s.batch;
    s.work.flops *= s.busiest;
  } else if (const plan::AttentionAttrs* a = plan::attention_in(op.attrs)) {
    s.tf32 = a->tf32, s.causal = a->causal, s.windowed = a->window > 0;
    s.batch = real(a->batch), s.heads = real(a->heads);
    s.tq = real(a->tq), s.tk = real(a->tk), s.d = real(a->d);
  }
  if (!plan::is_collective(op.kind)) return s;
  const plan::Group& g = plan.groups[op.as<plan::TransferAttrs>().group];
  const int64_t host = plan.rank / where.ranks_on_host;
  s.group.ranks = static_cast<double>(g.ranks.size());
  s.group.per_host = static_cast<double>(
      std::count_if(g.ranks.begin(), g.ranks.end(), [&](int r) { return r / where.ranks_on_host == host; }));
  const plan::View& whole = plan::whole_of(op);
  s.bytes = op.kind == plan::OpKind::all_to_all
                ? s.work.wire_bytes
                : static_cast<double>(whole.count * size_of(plan.buffers[whole.buffer].dtype));
  return s;
}

double op_seconds(const OpShape& op, const Counts& rates, const Conditions& where, double cache_share,
                  Counts* counts) {
  if (plan::is_collective(op.kind)) {
    const CollectiveCounts c = count_collective(op.kind, op.bytes, size_of(op.dtype), op.group, rates, where);
    if (counts) add(*counts, c, rates, 1);
    return seconds(c, rates);
  }
  plan::Work work = op.work;
  double flops = work.flops;
  const auto processors = static_cast<double>(where.processors);
  if (processors > 0 && (op.kind == plan::OpKind::gemm || op.kind == plan::OpKind::grouped_gemm))
    flops = paid_gemm(op, processors);
  if (processors == 0 && op.kind == plan::OpKind::grouped_gemm) flops *= narrow_groups(op);
  if (processors > 0 && (op.kind == plan::OpKind::attention || op.kind == plan::OpKind::attention_backward)) {
    flops = paid_attention(op, processors);
    keep_flops_alone(work);
  }
  double s = 0;
  if (processors > 0 && op.to_host) {
    s = op.work.bytes_written * rates[index_of(Coef::copy_host)];
    if (counts) (*counts)[index_of(Coef::copy_host)] += op.work.bytes_written;
    return s;
  }
  const Team team = processors > 0 ? Team{} : team_of(op.price, op.dtype, op.work, where.threads);
  count_compute(op.price, arithmetic_of(op.dtype, op.fp8, op.tf32), work, flops, cache_share,
                [&](Coef c, double amount) {
                  const double n = amount * team.share(info_of(c).resource);
                  s += n * rates[index_of(c)];
                  if (counts) (*counts)[index_of(c)] += n;
                });
  return s;
}

void keep_flops_alone(plan::Work& attention) {
  attention.vector_flops = attention.bytes_read = attention.bytes_written = 0;
}

Counts count_op(plan::OpKind kind, DType dtype, const plan::Work& work, double cache_share, int64_t threads) {
  Counts n{};
  if (plan::is_collective(kind)) {
    n[index_of(Coef::message_host)] = work.messages;
    n[index_of(Coef::wire_host)] = work.wire_bytes;
    n[index_of(Coef::sum_host)] = work.vector_flops;
    return n;
  }
  const plan::PriceClass price = plan::info_of(kind).price;
  const Team team = team_of(price, dtype, work, threads);
  count_compute(price, arithmetic_of(dtype, false, false), work, work.flops, cache_share,
                [&](Coef c, double amount) { n[index_of(c)] += amount * team.share(info_of(c).resource); });
  return n;
}

double op_seconds(const plan::Op& op, const plan::Plan& plan, const Counts& rates, const Conditions& where,
                  double cache_share, Counts* counts) {
  const double factor = plan::is_collective(op.kind) ? 1 : shape_factor(op, where);
  Counts own{};
  const double s = op_seconds(shape_of(op, plan, where), rates, where, cache_share, counts ? &own : nullptr);
  if (counts)
    for (size_t i = 0; i < kCoefs; ++i) (*counts)[i] += factor * own[i];
  return factor * s;
}

Counts count_op(const plan::Op& op, const plan::Plan& plan, double cache_share, const Conditions& where) {
  Counts n{};
  op_seconds(op, plan, Counts{}, where, cache_share, &n);
  return n;
}

}  // namespace isobar::perf
