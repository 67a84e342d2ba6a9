#include "model/nets/layout/stages.h"

#include <algorithm>

#include "model/nets/parts.h"

namespace isobar::nets {

std::pair<int32_t, int32_t> recomputed_with(const PolicySpec& policy, const Stage& stage, int32_t i) {
  const auto n = static_cast<int32_t>(std::min<int64_t>(policy.recompute_num_layers, stage.end));
  const int32_t first = stage.inner_first(), end = stage.inner_end();
  if (policy.recompute != Recompute::full || i < first || i >= end) return {i, i};
  if (policy.recompute_method == RecomputeMethod::block) return {i, i < first + n ? i + 1 : i};
  const int32_t from = i - (i - first) % n;
  return {from, std::min(from + n, end)};
}

Stages::Stages(const RunSpec& spec, int rank)
    : ranks_(plan::group_of(spec.layout, "pp", rank)), index_(plan::coords_of(spec.layout, rank).pp) {
  const auto pp = static_cast<int>(spec.layout.pp), chunks = static_cast<int>(spec.layout.vpp);
  const std::vector<int32_t> cuts = cuts_of(spec.net, int64_t{pp} * chunks, spec.layout.stages);
  for (int v = index_; v < pp * chunks; v += pp)
    list_.push_back({v / pp, cuts[v], cuts[v + 1], v == 0, v == pp * chunks - 1});
}

StageLinks::StageLinks(plan::Builder& b, const Stages& stages, const std::vector<plan::Stream>& streams,
                       const std::vector<int>& same)
    : b_(b), stages_(stages), streams_(streams), same_(same) {
  leaving_.resize(stages.list().size());
  gradient_.resize(stages.list().size());
  for (const Stage& s : stages.list()) {
    const std::string name = "stage" + std::to_string(s.chunk);
    std::vector<plan::View>&leaving = leaving_[s.chunk], &gradient = gradient_[s.chunk];
    leaving.resize(streams.size());
    gradient.resize(streams.size());
    for (size_t i = 0; i < streams.size(); ++i)
      if (s.leaves(streams[i]))
        leaving[i] = b_.io(name + "." + streams[i].name, streams[i].dtype, streams[i].count);
    for (size_t i = 0; i < streams.size(); ++i)
      if ((s.enters(streams[i]) || s.leaves(streams[i])) && !gradient[same_[i]])
        gradient[same_[i]] = b_.io(name + ".d" + streams[i].name, streams[i].dtype, streams[i].count);
  }
}

int StageLinks::pair(const std::string& name, int from, int to) {
  const std::vector<int>& ranks = stages_.ranks();
  const auto p = static_cast<int>(ranks.size());
  const plan::Group wanted{name, {ranks[(from + p) % p], ranks[(to + p) % p]}};
  for (size_t i = 0; i < b_.plan.groups.size(); ++i)
    if (b_.plan.groups[i].name == wanted.name && b_.plan.groups[i].ranks == wanted.ranks)
      return static_cast<int>(i);
  return b_.group(wanted.name, wanted.ranks);
}

std::string StageLinks::path(const Stage& s, const char* what, int stream) const {
  const plan::Stream& x = streams_[stream];
  // The first stream between two adjacent parts needs no name.
  const bool another = stream > 0 && streams_[stream - 1].from == x.from && streams_[stream - 1].to == x.to;
  return "stage" + std::to_string(s.chunk) + "/" + what + (x.jumps() || another ? "/" + x.name : "");
}

void StageLinks::receive_forward(const Stage& s, int stream, const plan::View& x) {
  const int me = stages_.index();
  b_.emit<plan::OpKind::recv>(path(s, "recv_forward", stream), {.group = pair("pp.forward", me - 1, me)}, {},
                              {x}, plan::Lane::recv_forward);
}

void StageLinks::send_forward(const Stage& s, int stream, const Flow& flow) {
  const int me = stages_.index();
  const plan::View out = leaving(s, stream);
  if (flow.y)
    b_.emit<plan::OpKind::residual_add>(path(s, "add", stream), flow.sum(out), {flow.x, flow.y}, {out});
  else if (flow.x.buffer != out.buffer)
    b_.emit<plan::OpKind::copy>(path(s, "copy", stream), {.run = out.count}, {flow.x}, {out});
  b_.emit<plan::OpKind::send>(path(s, "send_forward", stream), {.group = pair("pp.forward", me, me + 1)},
                              {out}, {}, plan::Lane::send_forward);
}

void StageLinks::receive_backward(const Stage& s, int stream, const plan::View& dx) {
  const int me = stages_.index();
  b_.emit<plan::OpKind::recv>(path(s, "recv_backward", stream), {.group = pair("pp.backward", me + 1, me)},
                              {}, {dx}, plan::Lane::recv_backward);
}

void StageLinks::last_to_first(const Stage& s, plan::Pass pass, bool sends, const plan::Stream& stream,
                               const plan::View& v) {
  const int me = stages_.index();
  const bool forward = pass == plan::Pass::forward;
  const std::string way = forward ? "forward" : "backward";
  const int other = sends == forward ? me + 1 : me - 1;
  const plan::TransferAttrs a{.group = sends ? pair("pp." + way, me, other) : pair("pp." + way, other, me)};
  const std::string path =
      "stage" + std::to_string(s.chunk) + (sends ? "/send_" : "/recv_") + way + "/" + stream.name;
  if (sends)
    b_.emit<plan::OpKind::send>(path, a, {v}, {},
                                forward ? plan::Lane::send_forward : plan::Lane::send_backward);
  else
    b_.emit<plan::OpKind::recv>(path, a, {}, {v},
                                forward ? plan::Lane::recv_forward : plan::Lane::recv_backward);
}

void StageLinks::send_backward(const Stage& s, int stream, const plan::View& dx) {
  const int me = stages_.index();
  b_.emit<plan::OpKind::send>(path(s, "send_backward", stream), {.group = pair("pp.backward", me, me - 1)},
                              {dx}, {}, plan::Lane::send_backward);
}

}  // namespace isobar::nets
