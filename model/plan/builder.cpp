#include "model/plan/builder.h"

#include <algorithm>
#include <stdexcept>

namespace isobar {
namespace {
// Elements: parameters that start an operand are 64-byte aligned. The gaps hold zeros from the arena's start
// on, and stay so: their gradients are never written.
constexpr int64_t kAlign = 16;
}  // namespace

Builder::Builder(int rank, int world, Workspace workspace) : workspace_(std::move(workspace)) {
  plan.rank = rank;
  plan.world = world;
}

View Builder::params_together(const std::vector<Param>& pieces) {
  param_end_ = (param_end_ + kAlign - 1) / kAlign * kAlign;
  const int64_t first = param_end_;
  for (Param p : pieces) {
    if (p.axis >= 0 && p.extent == 0) p.extent = p.shape[p.axis];
    p.count = 1;
    for (size_t i = 0; i < p.shape.size(); ++i)
      p.count *= static_cast<int>(i) == p.axis ? p.extent : p.shape[i];
    p.offset = param_end_;
    param_end_ += p.count;
    plan.params.push_back(std::move(p));
  }
  return {-2, first, param_end_ - first};  // the buffer is known after end_params()
}

void Builder::end_params(bool params16) {
  params_ = add("params", BufferKind::params, DType::f32, param_end_).buffer;
  grads_ = add("grads", BufferKind::grads, DType::f32, param_end_).buffer;
  plan.adam_m = add("adam.m", BufferKind::adam, DType::f32, param_end_);
  plan.adam_v = add("adam.v", BufferKind::adam, DType::f32, param_end_);
  plan.params_all = {params_, 0, param_end_};
  plan.grads_all = {grads_, 0, param_end_};
  if (params16) {
    plan.params16_all = add("params16", BufferKind::params16, DType::bf16, param_end_);
    params16_ = plan.params16_all.buffer;
  }
}

View Builder::weight(const View& param) const {
  return {params16_ >= 0 ? params16_ : params_, param.offset, param.count};
}

View Builder::add(const std::string& name, BufferKind kind, DType t, int64_t count) {
  Buffer b{name, kind, t, count};
  if (kind == BufferKind::scratch || kind == BufferKind::saved) {
    if (routine_ < 0) throw std::logic_error("buffer " + name + " is declared outside of a routine");
    b.routine = routine_;
    b.chunk = plan.routines[routine_].chunk;
  }
  plan.buffers.push_back(b);
  return {static_cast<int32_t>(plan.buffers.size()) - 1, 0, count};
}

int Builder::begin(const std::string& name, Pass pass, int chunk) {
  routine_ = static_cast<int>(plan.routines.size());
  plan.routines.push_back({name, pass, chunk, static_cast<int32_t>(plan.ops.size()), 0});
  return routine_;
}

void Builder::end() {
  plan.routines[routine_].count = static_cast<int32_t>(plan.ops.size()) - plan.routines[routine_].first;
  routine_ = -1;
}

Op& Builder::emit(OpKind kind, const std::string& path, Attrs a, std::vector<View> reads,
                  std::vector<View> writes, Lane lane) {
  if (routine_ < 0) throw std::logic_error("op " + path + " is emitted outside of a routine");
  for (auto* operands : {&reads, &writes})
    for (View& v : *operands)
      if (v.buffer == -2) v.buffer = params_;  // parameters were declared before their buffer
  plan.ops.push_back({kind, lane, std::move(a), std::move(reads), std::move(writes), path});
  return plan.ops.back();
}

void Builder::emit_with_workspace(OpKind kind, const std::string& path, Attrs a, std::vector<View> reads,
                                  std::vector<View> writes) {
  const int64_t bytes = workspace_ ? workspace_({kind, Lane::compute, a, reads, writes, path}) : 0;
  writes.push_back(bytes > 0 ? scratch(path + ".workspace", DType::f32, (bytes + 3) / 4) : View{});
  emit(kind, path, std::move(a), std::move(reads), std::move(writes));
}

int Builder::group(const std::string& name, std::vector<int> ranks) {
  plan.groups.push_back({name, std::move(ranks)});
  return static_cast<int>(plan.groups.size()) - 1;
}

GradientBuckets::GradientBuckets(Builder& b, int group, int64_t begin, int64_t end, int64_t bucket_bytes,
                                 bool overlap)
    : b_(b),
      group_(group),
      bucket_(std::max<int64_t>(1, bucket_bytes / size_of(DType::f32))),
      overlap_(overlap),
      begin_(begin),
      reduced_(end),
      done_(end) {}

void GradientBuckets::done_down_to(int64_t offset) {
  done_ = std::min(done_, offset);
  if (group_ >= 0 && overlap_ && reduced_ - done_ >= bucket_) reduce(done_);
}

void GradientBuckets::finish(const View& last) {
  if (group_ < 0) return;
  last_ = last;
  // Without overlap the buckets are the same in size, only later.
  while (reduced_ - bucket_ > begin_ && !overlap_) reduce(reduced_ - bucket_);
  if (reduced_ > begin_) reduce(begin_);
}

void GradientBuckets::reduce(int64_t from) {
  const Plan& plan = b_.plan;
  const View bucket = plan.grads_all.slice(from, reduced_ - from);
  std::vector<View> reads = {bucket};
  if (!overlap_) reads.push_back(last_);  // who reads it too cannot begin under backward
  const std::string name = plan.groups[group_].name + "/bucket" + std::to_string(from);
  b_.emit(OpKind::all_reduce, "grads/" + name + "/all_reduce", {.group = group_}, std::move(reads), {bucket},
          Lane::dp);
  reduced_ = from;
}

}  // namespace isobar
