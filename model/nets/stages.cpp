#include "model/nets/stages.h"

#include <algorithm>

#include "model/nets/parts.h"

namespace isobar {

std::pair<int64_t, int64_t> recomputed_with(const PolicySpec& policy, const Stage& stage, int64_t i) {
  const int64_t n = policy.recompute_num_layers;
  if (policy.recompute != "full") return {i, i};
  if (policy.recompute_method == "block") return {i, i < stage.first + n ? i + 1 : i};
  const int64_t first = i - (i - stage.first) % n;
  return {first, std::min(first + n, stage.end)};
}

Stages::Stages(Builder& b, const RunSpec& spec, int rank)
    : b_(b), ranks_(group_of(spec.layout, "pp", rank)), stage_(coords_of(spec.layout, rank).pp) {
  const auto pp = static_cast<int>(spec.layout.pp), chunks = static_cast<int>(spec.layout.vpp);
  const std::vector<int32_t> cuts = cuts_of(spec.net, pp * chunks);
  for (int v = stage_; v < pp * chunks; v += pp) {
    const bool first = v == 0, last = v == pp * chunks - 1;
    list_.push_back({v / pp, cuts[v] - (first ? 0 : 1), cuts[v + 1] - (last ? 2 : 1), first, last});
  }
}

void Stages::declare_buffers(int64_t count, DType stream) {
  stream_ = stream;
  leaving_.resize(list_.size());
  gradient_.resize(list_.size());
  for (const Stage& s : list_) {
    const std::string name = "stage" + std::to_string(s.chunk);
    if (!s.is_last) leaving_[s.chunk] = b_.io(name + ".x", stream, count);
    if (!s.is_last || !s.is_first) gradient_[s.chunk] = b_.io(name + ".dx", stream, count);
  }
}

int Stages::pair(const std::string& name, int from, int to) {
  const auto p = static_cast<int>(ranks_.size());
  const Group wanted{name, {ranks_[(from + p) % p], ranks_[(to + p) % p]}};
  for (size_t i = 0; i < b_.plan.groups.size(); ++i)
    if (b_.plan.groups[i].name == wanted.name && b_.plan.groups[i].ranks == wanted.ranks)
      return static_cast<int>(i);
  return b_.group(wanted.name, wanted.ranks);
}

void Stages::receive_forward(const Stage& s, const View& x) {
  b_.emit(OpKind::recv, "stage" + std::to_string(s.chunk) + "/recv_forward",
          {.group = pair("pp.forward", stage_ - 1, stage_)}, {}, {x}, Lane::recv_forward);
}

void Stages::send_forward(const Stage& s, const View& residual, const View& y) {
  const std::string path = "stage" + std::to_string(s.chunk);
  const View x = leaving_[s.chunk];
  b_.emit(OpKind::residual_add, path + "/add", {.m = 1, .n = x.count}, {residual, y}, {x});
  b_.emit(OpKind::send, path + "/send_forward", {.group = pair("pp.forward", stage_, stage_ + 1)}, {x}, {},
          Lane::send_forward);
}

View Stages::stream_gradient(const Stage& s, int64_t count) {
  return gradient_[s.chunk] ? gradient_[s.chunk] : b_.scratch("dx", stream_, count);
}

void Stages::receive_backward(const Stage& s, const View& dx) {
  b_.emit(OpKind::recv, "stage" + std::to_string(s.chunk) + "/recv_backward",
          {.group = pair("pp.backward", stage_ + 1, stage_)}, {}, {dx}, Lane::recv_backward);
}

void Stages::send_backward(const Stage& s, const View& dx) {
  b_.emit(OpKind::send, "stage" + std::to_string(s.chunk) + "/send_backward",
          {.group = pair("pp.backward", stage_, stage_ - 1)}, {dx}, {}, Lane::send_backward);
}

}  // namespace isobar
