#include "model/plan/ops/special_work.h"

#include <algorithm>
#include <cmath>

#include "model/plan/link.h"
#include "model/plan/ops/operands.h"
#include "model/plan/ops/work.h"

namespace isobar::plan::special {
namespace {

double element(const View& v, const Plan& plan) {
  return static_cast<double>(size_of(plan.buffers[v.buffer].dtype));
}

double ranks_of(const Op& op, const Plan& plan) {
  return static_cast<double>(plan.groups[op.as<TransferAttrs>().group].ranks.size());
}

// Keys that a query sees, of all, in the mean
double share_seen(const AttentionAttrs& a) {
  if (!a.causal) return 1;
  const auto all = static_cast<double>(a.tk);
  const double most = a.window > 0 ? std::min(all, static_cast<double>(a.window)) : all;
  const auto seen_before = [&](int64_t place) {  // by all queries before a place
    const auto p = static_cast<double>(place), rises = std::min(p, most);
    return rises * rises / 2 + (p - rises) * most;
  };
  return (seen_before(a.token0 + a.tq) - seen_before(a.token0)) / (static_cast<double>(a.tq) * all);
}

void attention_of(const Op& op, const Plan& plan, double products, bool forward, Work& w) {
  const auto& a = op.as<AttentionAttrs>();
  w.flops = products * 2.0 * static_cast<double>(a.batch * a.heads) * static_cast<double>(a.tq) *
            static_cast<double>(a.tk) * static_cast<double>(a.d) * share_seen(a);
  w.vector_flops = w.flops / (products * 2.0 * static_cast<double>(a.d));
  // q, k and v are strided views; the workspace stays in cache
  const View& result = forward ? out<OpKind::attention>(op, "o") : out<OpKind::attention_backward>(op, "dq");
  const double size = element(result, plan);
  const double q = size * static_cast<double>(a.batch * a.tq * a.heads * a.d);
  const double kv = size * static_cast<double>(2 * a.batch * a.tk * a.kv_heads * a.d);
  const double lse = 4.0 * static_cast<double>(a.batch * a.heads * a.tq);
  const double bias = bytes_of(bias_of_scores(op), plan);  // its gradient has its size
  w.bytes_read = (forward ? q + kv : 3 * q + kv + lse) + bias;
  w.bytes_written = forward ? q + lse : q + kv + bias;
}

}  // namespace

void gemm(const Op& op, const Plan& plan, Work& w) {
  const auto& a = op.as<GemmAttrs>();
  w.flops = 2.0 * static_cast<double>(std::max<int64_t>(1, a.batch)) * static_cast<double>(a.m) *
            static_cast<double>(a.n) * static_cast<double>(a.k);
  if (a.batch > 0) {  // operands are strided views
    const double size = element(out<OpKind::gemm>(op, "C"), plan);
    w.bytes_read = size * static_cast<double>(a.batch * a.k * (a.m + a.n));
    w.bytes_written = size * static_cast<double>(a.batch * a.m * a.n);
  }
  if (a.accumulate) w.bytes_read += bytes_of(out<OpKind::gemm>(op, "C"), plan);
}

void grouped_gemm(const Op& op, const Plan& plan,
                  Work& w) {  // groups share the rows, so their number is no factor
  const auto& a = op.as<GroupedGemmAttrs>();
  w.flops = 2.0 * static_cast<double>(a.m) * static_cast<double>(a.n) * static_cast<double>(a.k);
  if (a.accumulate) w.bytes_read += bytes_of(out<OpKind::grouped_gemm>(op, "C"), plan);
}

void attention(const Op& op, const Plan& plan, Work& w) {
  attention_of(op, plan, 2, true, w);
}

void attention_backward(const Op& op, const Plan& plan, Work& w) {
  attention_of(op, plan, 5, false, w);
}

void attention_merge(const Op& op, const Plan& plan, Work& w) {
  const auto& [a, first] = op.as<AttentionMergeAttrs>();  // the few weights per row and head are ignored
  w.vector_flops = 3 * static_cast<double>(a.batch * a.tq * a.heads * a.d);
  constexpr OpKind kMerge = OpKind::attention_merge;
  if (!first) w.bytes_read += bytes_of(out<kMerge>(op, "o"), plan) + bytes_of(out<kMerge>(op, "lse"), plan);
}

void added_unless_first(const Op& op, const Plan& plan, Work& w) {
  if (!op.as<NormAttrs>().first)
    w.bytes_read += bytes_of(out<OpKind::residual_norm_backward, OpKind::rms_norm_backward>(op, "dx"), plan);
}

namespace {

// Bytes of a view beside the rows of a norm that it covers
double more_than_rows(const Op& op, const Plan& plan, const View& v) {
  const auto& a = op.as<NormAttrs>();
  return static_cast<double>(v.count - a.rows * a.cols) * element(v, plan);
}

}  // namespace

void rms_norm(const Op& op, const Plan& plan, Work& w) {
  w.bytes_read -= more_than_rows(op, plan, in<OpKind::rms_norm>(op, "residual"));
  w.bytes_written -= more_than_rows(op, plan, out<OpKind::rms_norm>(op, "h"));
}

void rms_norm_backward(const Op& op, const Plan& plan, Work& w) {
  constexpr OpKind kBackward = OpKind::rms_norm_backward;
  const double of_dx = more_than_rows(op, plan, out<kBackward>(op, "dx"));
  added_unless_first(op, plan, w);
  if (!op.as<NormAttrs>().first) w.bytes_read -= of_dx;
  w.bytes_read -=
      more_than_rows(op, plan, in<kBackward>(op, "x")) + more_than_rows(op, plan, in<kBackward>(op, "dh"));
  w.bytes_written -= of_dx;
}

void cast(const Op& op, const Plan& plan, Work& w) {
  if (op.as<ElementsAttrs>().accumulate) w.bytes_read += bytes_of(out<OpKind::cast>(op, "y"), plan);
}

void adam(const Op& op, const Plan& plan, Work& w) {  // parameter and both moments
  for (const View* v :
       {&out<OpKind::adam>(op, "param"), &out<OpKind::adam>(op, "m"), &out<OpKind::adam>(op, "v")})
    w.bytes_read += bytes_of(*v, plan);
}

void sgd(const Op& op, const Plan& plan, Work& w) {  // parameter and momentum
  for (const View* v : {&out<OpKind::sgd>(op, "param"), &out<OpKind::sgd>(op, "momentum")})
    w.bytes_read += bytes_of(*v, plan);
}

void average(const Op& op, const Plan& plan, Work& w) {
  w.bytes_read += bytes_of(out<OpKind::average>(op, "average"), plan);
}

void rotary(const Op& op, const Plan& plan, Work& w) {  // in place
  const View& x =
      op.kind == OpKind::rotary ? out<OpKind::rotary>(op, "qk") : out<OpKind::rotary_backward>(op, "dqk");
  w.bytes_read = w.bytes_written =
      static_cast<double>(extent_of(op.attrs).rows * extent_of(op.attrs).cols) * element(x, plan);
}

namespace {

// Bytes of a shared key's view beside the key
double beside_key(const Op& op, const Plan& plan, const View& key) {
  const auto& a = op.as<LatentAttrs>();
  return static_cast<double>(key.count - a.rows * a.rope) * element(key, plan);
}

}  // namespace

void latent_heads(const Op& op, const Plan& plan, Work& w) {
  w.bytes_read -= beside_key(op, plan, in<OpKind::latent_heads>(op, "key"));
}

void latent_heads_backward(const Op& op, const Plan& plan, Work& w) {
  w.bytes_written -= beside_key(op, plan, out<OpKind::latent_heads_backward>(op, "dkey"));
}

void copy(const Op& op, const Plan& plan, Work& w) {
  const auto& a = op.as<CopyAttrs>();
  w.bytes_read = w.bytes_written = static_cast<double>(a.extent[0] * a.extent[1] * a.extent[2] * a.run) *
                                   element(out<OpKind::copy>(op, "y"), plan);
}

void embedding(const Op& op, const Plan& plan, Work& w) {  // of the table only the rows that are looked up
  w.bytes_read =
      static_cast<double>(op.as<EmbeddingAttrs>().rows) * 4 +
      bytes_of(out<OpKind::embedding>(op, "x"), plan) * (in<OpKind::embedding>(op, "positions") ? 2 : 1);
}

void embedding_backward(const Op& op, const Plan& plan, Work& w) {  // adds to gradients in place
  constexpr OpKind kBackward = OpKind::embedding_backward;
  const auto& a = op.as<EmbeddingAttrs>();
  const int tables = (out<kBackward>(op, "dtable") ? 1 : 0) + (out<kBackward>(op, "dpositions") ? 1 : 0);
  const double added = 4 * static_cast<double>(a.rows) * static_cast<double>(a.cols) * tables;
  w.bytes_read =
      bytes_of(in<kBackward>(op, "tokens"), plan) + bytes_of(in<kBackward>(op, "dx"), plan) + added;
  w.bytes_written = added;
}

// One table row for each row written, however many the table has
void gather(const Op& op, const Plan& plan, Work& w) {
  const auto& a = op.as<IndexAttrs>();
  const double rows = static_cast<double>(a.rows) * static_cast<double>(a.cols);
  int tables = 0;
  for (const View* table : {&in<OpKind::gather>(op, "table"), &in<OpKind::gather>(op, "table2")})
    if (*table) {
      w.bytes_read += rows * element(*table, plan) - bytes_of(*table, plan);
      ++tables;
    }
  w.vector_flops = rows * (tables - 1 + (in<OpKind::gather>(op, "base") ? 1 : 0));
}

// One row of x for each row written
void dispatch(const Op& op, const Plan& plan, Work& w) {
  w.bytes_read +=
      bytes_of(out<OpKind::dispatch>(op, "y"), plan) - bytes_of(in<OpKind::dispatch>(op, "x"), plan);
}

void combine(const Op& op, const Plan&, Work& w) {
  w.vector_flops = static_cast<double>(in<OpKind::combine>(op, "x").count);
}

void priced(const Op& op, const Plan&, Work& w) {
  const auto& a = op.as<PricedAttrs>();
  w.flops = a.flops, w.vector_flops = a.vector_flops;
  w.bytes_read = a.bytes_read, w.bytes_written = a.bytes_written;
}

void all_reduce(const Op& op, const Plan& plan, Work& w) {
  const double n = ranks_of(op, plan);
  w.wire_bytes = 2 * (n - 1) / n * bytes_of(whole_of(op), plan);
  w.messages = 2 * (n - 1);
  w.vector_flops = (n - 1) / n * static_cast<double>(whole_of(op).count);
}

void broadcast(const Op& op, const Plan& plan, Work& w) {
  const double n = ranks_of(op, plan);
  w.wire_bytes = n > 1 ? bytes_of(whole_of(op), plan) : 0;
  w.messages = std::ceil(std::log2(n));
}

void all_gather(const Op& op, const Plan& plan, Work& w) {
  const double n = ranks_of(op, plan);
  w.wire_bytes = (n - 1) / n * bytes_of(whole_of(op), plan);
  w.messages = n - 1;
}

void reduce_scatter(const Op& op, const Plan& plan, Work& w) {
  const double n = ranks_of(op, plan);
  w.wire_bytes = (n - 1) / n * bytes_of(whole_of(op), plan);
  w.vector_flops = (n - 1) / n * static_cast<double>(whole_of(op).count);
  w.messages = n - 1;
}

void all_to_all(const Op& op, const Plan& plan, Work& w) {  // data that stays on this rank is no traffic
  const auto& ranks = plan.groups[op.as<TransferAttrs>().group].ranks;
  w.messages = static_cast<double>(ranks.size()) - 1;
  if (in<OpKind::all_to_all>(op, "offsets")) {  // each rank has as many of a token's experts
    const View &x = in<OpKind::all_to_all>(op, "x"), &y = out<OpKind::all_to_all>(op, "y");
    // Others wait for the busiest rank, for what it receives or sends back.
    const double bytes =
        op.as<TransferAttrs>().back ? bytes_of(x, plan) : std::max(bytes_of(x, plan), bytes_of(y, plan));
    w.wire_bytes = w.messages / static_cast<double>(ranks.size()) * bytes;
    return;
  }
  const auto place = std::find(ranks.begin(), ranks.end(), plan.rank) - ranks.begin();
  const auto parts = send_parts(op, whole_of(op).count, static_cast<int>(ranks.size()));
  View leaving = whole_of(op);
  leaving.count -= parts.at(place);
  w.wire_bytes = bytes_of(leaving, plan);
}

void sent(const Op& op, const Plan& plan, Work& w) {
  w.wire_bytes = bytes_of(whole_of(op), plan);
  w.messages = 1;
}

void received(const Op&, const Plan&, Work& w) {  // the sender counts its bytes
  w.messages = 1;
}

}  // namespace isobar::plan::special
