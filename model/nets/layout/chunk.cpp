#include "model/nets/layout/chunk.h"

#include <map>
#include <numeric>
#include <utility>

namespace isobar::nets {

std::vector<PartPorts> ports_of(const Net& net) {
  std::vector<PartPorts> ports(net.parts().size());
  for (int i = 0; i < static_cast<int>(net.streams().size()); ++i) {
    ports[net.streams()[i].from].gives.push_back(i);
    ports[net.streams()[i].to].takes.push_back(i);
  }
  return ports;
}

// A part that shares gradients between two streams puts them in one buffer, and so on through the net.
std::vector<int> shared_gradients(const Net& net) {
  const std::vector<PartPorts> ports = ports_of(net);
  std::vector<int> same(net.streams().size());
  std::iota(same.begin(), same.end(), 0);
  for (size_t part = 0; part < ports.size(); ++part)
    for (size_t i = 0; i < ports[part].takes.size(); ++i)
      if (const int given = net.parts()[part]->shares_gradient_with(i); given >= 0)
        same[ports[part].gives[given]] = same[ports[part].takes[i]];
  return same;
}

ChunkEmitter::ChunkEmitter(Emission& e, Net& net, plan::Parameters& params, const Stages& stages)
    : e_(e),
      b_(e.b),
      net_(net),
      params_(params),
      streams_(net.streams()),
      ports_(ports_of(net)),
      same_(shared_gradients(net)),
      links_(b_, stages, streams_, same_),
      roll_(net.roll_out()),
      feedback_(roll_ ? roll_->feedback() : std::vector<plan::Stream>{}),
      flows_(streams_.size()) {}

// ---- forward ----

int ChunkEmitter::forward(const Stage& stage, const std::string& name) {
  const int r = b_.begin(name, plan::Pass::forward, stage.chunk);
  params_.forward(stage.chunk);
  if (e_.roll.first) fetch(stage);
  if (roll_ && stage.is_first) read_before(stage);
  for (int i = 0; i < static_cast<int>(streams_.size()); ++i) {
    const plan::Stream& s = streams_[i];
    if (!stage.enters(s)) continue;
    flows_[i] = {.x = destination(stage, i)};
    links_.receive_forward(stage, i, flows_[i].x);
  }
  for (int part = stage.first; part < stage.end; ++part) {
    params_.need(part);
    run_forward(stage, part, inputs(part), {.keep = keep_of(stage, part)});
  }
  for (int i = 0; i < static_cast<int>(streams_.size()); ++i)
    if (stage.leaves(streams_[i])) links_.send_forward(stage, i, flows_[i]);
  if (stage.is_last && !e_.roll.last) send_prediction(stage);
  if (stage.is_last && b_.plan.replayed) keep_replayed();
  b_.end();
  return r;
}

// ---- from one step of a roll-out to the next ----

void ChunkEmitter::read_before(const Stage& stage) {
  if (e_.roll.first) return roll_->before({});
  if (stage.is_last) return roll_->before(roll_->predicted().of_before(e_.roll.slots_back));
  const plan::Stream& s = feedback_[0];
  const plan::View v = b_.scratch(s.name, s.dtype, s.count);
  links_.last_to_first(stage, plan::Pass::forward, false, s, v);
  roll_->before(v);
}

void ChunkEmitter::send_prediction(const Stage& stage) {
  if (!stage.is_first)
    links_.last_to_first(stage, plan::Pass::forward, true, feedback_[0], roll_->predicted());
}

// ---- from one optimizer step to a later one ----

void ChunkEmitter::keep_replayed() {
  const plan::View& from = roll_->predicted();
  const plan::InPart here(b_, feedback_[0].from);
  b_.convert("replay/keep", from, b_.plan.replayed);
}

void ChunkEmitter::send_replayed_to_first(const Stages& stages) {
  for (const Stage& s : stages.list())
    if (b_.plan.replayed && s.is_last != s.is_first)
      links_.last_to_first(s, plan::Pass::forward, s.is_last, feedback_[0], b_.plan.replayed);
}

// In a buffer of its own, because it outlives the routine or is sent.
void ChunkEmitter::receive_next_gradient(const Stage& stage) {
  if (feedback_.empty() || !e_.roll.all || !(stage.is_first || stage.is_last)) return;
  const plan::Stream& s = feedback_[0];
  if (!next_gradient_) next_gradient_ = b_.io("d" + s.name, s.dtype, s.count);
  roll_->gradient(next_gradient_);
  if (stage.is_last && !stage.is_first && !e_.roll.last)
    links_.last_to_first(stage, plan::Pass::backward, false, s, next_gradient_);
}

void ChunkEmitter::send_prediction_gradient(const Stage& stage) {
  if (stage.is_first && !stage.is_last && !feedback_.empty() && e_.roll.gradient_before())
    links_.last_to_first(stage, plan::Pass::backward, true, feedback_[0], next_gradient_);
}

// One op fetches all tensors that the chunk's parts read.
void ChunkEmitter::fetch(const Stage& stage) {
  std::vector<plan::View> writes(net_.batch().size());
  std::map<plan::BatchRole, plan::View> held;
  int reader = -1;
  for (size_t i = 0; i < writes.size(); ++i) {
    const plan::BatchTensor& t = net_.batch()[i];
    if (t.part < stage.first || t.part >= stage.end) continue;
    const plan::InPart here(b_, t.part);
    // If steps have slots of their own, a step's tensor lies in its slot, at one place for all steps.
    plan::View alone;
    plan::View& at = e_.roll.all ? held[t.role] : alone;
    if (!at) at = b_.saved_or_scratch(t.name, t.dtype, t.count, t.kept);
    writes[i] = at.of_before(-t.step * e_.roll.slots_back);
    net_.fetched(i, writes[i]);
    if (reader < 0) reader = t.part;
  }
  if (reader < 0) return;
  const plan::InPart here(b_, reader);
  b_.emit<plan::OpKind::fetch>("data/fetch", net_.fetch(), {}, std::move(writes));
}

// The best buffer for a complete stream: the input buffer of the part that reads it, or the send buffer. A
// part that is recomputed from another's input keeps none.
plan::View ChunkEmitter::destination(const Stage& stage, int stream) {
  const plan::Stream& s = streams_[stream];
  if (stage.leaves(s)) return links_.leaving(stage, stream);
  if (keep_of(stage, s.to) == Keep::nothing) return b_.scratch(s.name, s.dtype, s.count);
  const std::vector<int>& takes = ports_[s.to].takes;
  size_t port = 0;
  while (takes[port] != stream) ++port;
  return net_.parts()[s.to]->receive_buffer(port);
}

std::vector<Flow> ChunkEmitter::inputs(int part) const {
  std::vector<Flow> in;
  for (const int i : ports_[part].takes) in.push_back(flows_[i]);
  return in;
}

void ChunkEmitter::run_forward(const Stage& stage, int part, const std::vector<Flow>& in, Forward how) {
  const plan::InPart here(b_, part);
  e_.in_f32(net_.parts()[part]->in_f32());
  const std::vector<int>& gives = ports_[part].gives;
  how.output_place = [&](size_t i) { return destination(stage, gives[i]); };
  std::vector<Flow> out = net_.parts()[part]->forward(in, how);
  for (size_t i = 0; i < gives.size(); ++i) flows_[gives[i]] = std::move(out[i]);
}

// Among parts that are recomputed together, those keep their input that read a stream from outside the group.
Keep ChunkEmitter::keep_of(const Stage& stage, int part) const {
  const auto [from, to] = recomputed_with(e_.spec.policy, stage, part);
  if (from == to) return Keep::all;
  for (const int i : ports_[part].takes)
    if (streams_[i].from < from) return Keep::input;
  return Keep::nothing;
}

// ---- backward ----

int ChunkEmitter::backward(const Stage& stage, const std::string& name, bool accumulate, bool reduce) {
  const int r = b_.begin(name, plan::Pass::backward, stage.chunk);
  params_.backward(stage.chunk, !accumulate, reduce);
  accumulate = accumulate && params_.ops_accumulate();
  finals_.clear();
  find_gradients(stage);
  receive_next_gradient(stage);
  e_.backward_begins(accumulate);
  for (int i = 0; i < static_cast<int>(streams_.size()); ++i)
    if (stage.leaves(streams_[i])) arrive(stage, i, accumulate);
  for (int part = stage.end - 1; part >= stage.first; --part) {
    const auto [from, to] = recomputed_with(e_.spec.policy, stage, part);
    if (part + 1 == to) recompute(stage, from, to);
    for (const int read : net_.parts()[part]->backward_reads())
      if (stage.first <= read && read < stage.end) params_.need(read);
    run_backward(part);
    if (e_.split)
      finals_.push_back({e_.postponed(), part});
    else
      params_.final(part);
  }
  for (int i = 0; i < static_cast<int>(streams_.size()); ++i)
    if (stage.enters(streams_[i])) links_.send_backward(stage, i, gradients_[i].dx);
  send_prediction_gradient(stage);
  params_.finish(last_gradient(stage, false));
  b_.end();
  return r;
}

void ChunkEmitter::find_gradients(const Stage& stage) {
  gradients_.assign(streams_.size(), {});
  for (int i = 0; i < static_cast<int>(streams_.size()); ++i) {
    const plan::Stream& s = streams_[i];
    if (s.to < stage.first || s.from >= stage.end) continue;
    plan::View dx = links_.gradient(stage, i);
    for (int j = 0; j < i && !dx; ++j)
      if (same_[j] == same_[i]) dx = gradients_[j].dx;
    gradients_[i].dx = dx ? dx : b_.scratch("d" + s.name, s.dtype, s.count);
  }
}

// Receives the gradient of a stream that left the chunk, and derives that of y if it was still to be added.
void ChunkEmitter::arrive(const Stage& stage, int stream, bool accumulate) {
  const plan::Stream& s = streams_[stream];
  const plan::View dx = gradients_[stream].dx;
  links_.receive_backward(stage, stream, dx);
  const Flow& flow = flows_[stream];
  if (!flow.y) return;
  const plan::InPart here(b_, s.from);
  e_.in_f32(net_.parts()[s.from]->in_f32());
  if (flow.bias) {
    const int64_t D = flow.bias.count;
    b_.emit<plan::OpKind::column_sum>(flow.linear + "/backward_bias",
                                      {.rows = dx.count / D, .cols = D, .accumulate = accumulate}, {dx},
                                      {b_.grad(flow.bias)});
  }
  gradients_[stream].dy = e_.for_linear(flow.linear + "/backward_cast", "stream.dy", dx);
}

// A recomputation needs no copy of kept values, nor the last product, which backward does not read.
void ChunkEmitter::recompute(const Stage& stage, int32_t from, int32_t to) {
  for (int32_t part = from; part < to; ++part) params_.need(part);
  const std::vector<Flow> kept = flows_;
  for (int32_t part = from; part < to; ++part) {
    std::vector<Flow> in = inputs(part);
    if (keep_of(stage, part) == Keep::input) in = net_.parts()[part]->kept_inputs();
    run_forward(stage, part, in, {.keep = Keep::nothing, .recompute = true, .result = part + 1 < to});
  }
  flows_ = kept;
}

void ChunkEmitter::run_backward(int part) {
  const plan::InPart here(b_, part);
  e_.in_f32(net_.parts()[part]->in_f32());
  std::vector<Gradient> out, in;
  for (const int i : ports_[part].gives) out.push_back(gradients_[i]);
  for (const int i : ports_[part].takes) in.push_back({.dx = gradients_[i].dx});
  net_.parts()[part]->backward(out, in);
  for (size_t i = 0; i < in.size(); ++i) gradients_[ports_[part].takes[i]].dy = in[i].dy;
}

plan::View ChunkEmitter::last_gradient(const Stage& stage, bool weight) const {
  const TrainSpec& t = e_.spec.train;
  if (t.freeze.empty() && t.lora_rank == 0)
    for (int part = stage.first; part < stage.end; ++part)
      if (const plan::View p = net_.parts()[part]->last_gradient(weight)) return b_.grad(p);
  // Some parameters may have no gradient: take the last compute op that writes.
  const std::vector<plan::Op>& ops = b_.plan.ops;
  for (size_t i = ops.size(); i-- > static_cast<size_t>(b_.plan.routines.back().first);)
    for (const plan::View& v : ops[i].writes)
      if (v && ops[i].lane == plan::Lane::compute) return v;
  return {};
}

int ChunkEmitter::backward_weight(const Stage& stage, const std::string& name, bool accumulate, bool reduce) {
  const int r = b_.begin(name, plan::Pass::backward, stage.chunk);
  params_.backward(stage.chunk, !accumulate, reduce);
  size_t next = 0;
  e_.weight_gradients(accumulate, [&](size_t emitted) {
    for (; next < finals_.size() && finals_[next].after <= emitted; ++next) params_.final(finals_[next].part);
  });
  params_.finish(last_gradient(stage, true));
  b_.end();
  return r;
}

}  // namespace isobar::nets
