#include "model/plan/special_work.h"

#include <algorithm>
#include <cmath>

#include "model/plan/link.h"

namespace isobar::special {
namespace {

double element(const View& v, const Plan& plan) {
  return static_cast<double>(size_of(plan.buffers[v.buffer].dtype));
}

double bytes_of(const View& v, const Plan& plan) {
  return v ? static_cast<double>(v.count) * element(v, plan) : 0;
}

double ranks_of(const Op& op, const Plan& plan) {
  return static_cast<double>(plan.groups[op.a.group].ranks.size());
}

void attention_of(const Op& op, const Plan& plan, double products, bool forward, Work& w) {
  const Attrs& a = op.a;
  w.flops = products * 2.0 * static_cast<double>(a.batch * a.heads) * static_cast<double>(a.tq) *
            static_cast<double>(a.tk) * static_cast<double>(a.d) * (a.causal ? 0.5 : 1.0);
  w.vector_flops = w.flops / (products * 2.0 * static_cast<double>(a.d));
  // q, k and v are strided views; the workspace stays in cache
  const double size = element(op.writes[0], plan);
  const double q = size * static_cast<double>(a.batch * a.tq * a.heads * a.d);
  const double kv = size * static_cast<double>(2 * a.batch * a.tk * a.kv_heads * a.d);
  const double lse = 4.0 * static_cast<double>(a.batch * a.heads * a.tq);
  const size_t at = forward ? 3 : 6;  // of the bias, whose gradient has its size
  const double bias = op.reads.size() > at ? bytes_of(op.reads[at], plan) : 0;
  w.bytes_read = (forward ? q + kv : 3 * q + kv + lse) + bias;
  w.bytes_written = forward ? q + lse : q + kv + bias;
}

}  // namespace

void gemm(const Op& op, const Plan& plan, Work& w) {
  const Attrs& a = op.a;
  w.flops = 2.0 * static_cast<double>(std::max<int64_t>(1, a.batch)) * static_cast<double>(a.m) *
            static_cast<double>(a.n) * static_cast<double>(a.k);
  if (a.batch > 0) {  // operands are strided views
    const double size = element(op.writes[0], plan);
    w.bytes_read = size * static_cast<double>(a.batch * a.k * (a.m + a.n));
    w.bytes_written = size * static_cast<double>(a.batch * a.m * a.n);
  }
  added_if_accumulating(op, plan, w);
}

void attention(const Op& op, const Plan& plan, Work& w) {
  attention_of(op, plan, 2, true, w);
}

void attention_backward(const Op& op, const Plan& plan, Work& w) {
  attention_of(op, plan, 5, false, w);
}

void attention_merge(const Op& op, const Plan& plan, Work& w) {
  const Attrs& a = op.a;  // the few weights per row and head are ignored
  w.vector_flops = 3 * static_cast<double>(a.batch * a.tq * a.heads * a.d);
  if (!a.first) w.bytes_read += bytes_of(op.writes[0], plan) + bytes_of(op.writes[1], plan);
}

void added_unless_first(const Op& op, const Plan& plan, Work& w) {
  if (!op.a.first) w.bytes_read += bytes_of(op.writes[0], plan);
}

void added_if_accumulating(const Op& op, const Plan& plan, Work& w) {
  if (op.a.accumulate) w.bytes_read += bytes_of(op.writes[0], plan);
}

void adam(const Op& op, const Plan& plan, Work& w) {  // parameter and both moments
  for (int i = 0; i < 3; ++i) w.bytes_read += bytes_of(op.writes[i], plan);
}

void sgd(const Op& op, const Plan& plan, Work& w) {  // parameter and momentum
  for (int i = 0; i < 2; ++i) w.bytes_read += bytes_of(op.writes[i], plan);
}

void average(const Op& op, const Plan& plan, Work& w) {
  w.bytes_read += bytes_of(op.writes[0], plan);
}

void rotary(const Op& op, const Plan& plan, Work& w) {  // in place
  w.bytes_read = w.bytes_written = static_cast<double>(op.a.m * op.a.n) * element(op.writes[0], plan);
}

void copy(const Op& op, const Plan& plan, Work& w) {
  const Attrs& a = op.a;
  w.bytes_read = w.bytes_written =
      static_cast<double>(a.extent[0] * a.extent[1] * a.extent[2] * a.n) * element(op.writes[0], plan);
}

void embedding(const Op& op, const Plan& plan, Work& w) {  // of the table only the rows that are looked up
  w.bytes_read = static_cast<double>(op.a.m) * 4 + bytes_of(op.writes[0], plan) * (op.reads[2] ? 2 : 1);
}

void embedding_backward(const Op& op, const Plan& plan, Work& w) {  // adds to gradients in place
  const int tables = (op.writes[0] ? 1 : 0) + (op.writes[1] ? 1 : 0);
  const double added = 4 * static_cast<double>(op.a.m) * static_cast<double>(op.a.n) * tables;
  w.bytes_read = bytes_of(op.reads[0], plan) + bytes_of(op.reads[1], plan) + added;
  w.bytes_written = added;
}

// One table row for each row written, however many the table has
void gather(const Op& op, const Plan& plan, Work& w) {
  const double rows = static_cast<double>(op.a.m) * static_cast<double>(op.a.n);
  int tables = 0;
  for (const size_t table : {1u, 3u})
    if (table < op.reads.size() && op.reads[table]) {
      w.bytes_read += rows * element(op.reads[table], plan) - bytes_of(op.reads[table], plan);
      ++tables;
    }
  w.vector_flops = rows * (tables - 1 + (op.reads[0] ? 1 : 0));
}

void all_reduce(const Op& op, const Plan& plan, Work& w) {
  const double n = ranks_of(op, plan);
  w.wire_bytes = 2 * (n - 1) / n * bytes_of(op.reads[0], plan);
  w.messages = 2 * (n - 1);
  w.vector_flops = (n - 1) / n * static_cast<double>(op.reads[0].count);
}

void broadcast(const Op& op, const Plan& plan, Work& w) {
  const double n = ranks_of(op, plan);
  w.wire_bytes = n > 1 ? bytes_of(op.reads[0], plan) : 0;
  w.messages = std::ceil(std::log2(n));
}

void all_gather(const Op& op, const Plan& plan, Work& w) {
  const double n = ranks_of(op, plan);
  w.wire_bytes = (n - 1) / n * bytes_of(op.writes[0], plan);
  w.messages = n - 1;
}

void reduce_scatter(const Op& op, const Plan& plan, Work& w) {
  const double n = ranks_of(op, plan);
  w.wire_bytes = (n - 1) / n * bytes_of(op.reads[0], plan);
  w.vector_flops = (n - 1) / n * static_cast<double>(op.reads[0].count);
  w.messages = n - 1;
}

void all_to_all(const Op& op, const Plan& plan, Work& w) {  // data that stays on this rank is no traffic
  const auto& ranks = plan.groups[op.a.group].ranks;
  const auto place = std::find(ranks.begin(), ranks.end(), plan.rank) - ranks.begin();
  const auto parts = send_parts(op, op.reads[0].count, static_cast<int>(ranks.size()));
  View leaving = op.reads[0];
  leaving.count -= parts.at(place);
  w.wire_bytes = bytes_of(leaving, plan);
  w.messages = static_cast<double>(ranks.size()) - 1;
}

void sent(const Op& op, const Plan& plan, Work& w) {
  w.wire_bytes = bytes_of(op.reads[0], plan);
  w.messages = 1;
}

void received(const Op&, const Plan&, Work& w) {  // the sender counts its bytes
  w.messages = 1;
}

}  // namespace isobar::special
