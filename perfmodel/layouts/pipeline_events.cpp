#include "perfmodel/layouts/pipeline_events.h"

#include <algorithm>
#include <deque>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace isobar::perf {
namespace {

using Port = VirtualStage::Port;
using Segment = VirtualStage::Segment;

// One stage's lanes: the times at which each is free, and pending transfers.
struct Lanes {
  double compute = 0;
  double host = 0;  // time at which all so far is launched
  double send_forward = 0, receive_forward = 0, send_backward = 0, receive_backward = 0;
};

// One chunk's buffers and progress.
struct ChunkState {
  int32_t forwarded = 0, backwarded = 0;
  std::vector<double> ready, gradient_ready;  // time at which a sent stream, or a received one's gradient,
                                              // can be sent
  std::vector<double> leaving;                // by stream sent: time at which its buffer is free
  std::vector<double> gradient;               // by stream: time at which its gradient's memory is free
  std::vector<double> slots;                  // time at which each is free
};

void raise(double& a, double b) {
  a = std::max(a, b);
}

// Returns the end of the work; the host continues while the device waits.
double done(double now, const Segment::Work& work, double& host) {
  const double end = std::max(now, host + work.lag) + work.seconds;
  host += work.launches;
  return end;
}

}  // namespace

void VirtualStage::Segment::Work::add(double more, double more_launches) {
  lag = std::max(lag, launches + more_launches - seconds - more);
  seconds += more;
  launches += more_launches;
}

PipelineEvents::PipelineEvents(PipelineSchedule schedule, int p, int v, std::vector<VirtualStage> stages)
    : schedule_(schedule), p_(p), v_(v), stages_(std::move(stages)) {
  for (const VirtualStage& s : stages_)
    for (const auto* ports : {&s.enters, &s.leaves})
      for (const Port& port : *ports) streams_ = std::max({streams_, port.stream + 1, port.same + 1});
}

// Plays whole groups of p micro-batches, as interleaved schedules need. The pace is a mean over several
// groups, since slots take turns and each stage has another number of them.
double PipelineEvents::seconds(int64_t m) const {
  constexpr int64_t kPlayed = 6, kPaced = 4;  // groups
  if (m <= (kPlayed + 1) * p_) return played(static_cast<int>(m));
  const int64_t more = kPlayed * p_ + m % p_, less = more - kPaced * p_;
  const double last = played(static_cast<int>(more)), before = played(static_cast<int>(less));
  return last + static_cast<double>(m - more) / static_cast<double>(more - less) * (last - before);
}

namespace {

struct Played {  // of all stages
  std::vector<std::vector<plan::Action>> actions;
  std::vector<std::vector<int64_t>> slots;  // of each chunk
};

// A search plays the same schedule with other times.
const Played& played_actions(PipelineSchedule schedule, int p, int m, int v) {
  constexpr size_t kKept = 16;
  using Key = std::tuple<PipelineSchedule, int, int, int>;
  thread_local std::deque<std::pair<Key, Played>> all;
  const Key key{schedule, p, m, v};
  for (const auto& [of, known] : all)
    if (of == key) return known;
  Played fresh;
  for (int s = 0; s < p; ++s) {
    fresh.actions.push_back(plan::schedule_actions(schedule, p, s, m, v));
    fresh.slots.push_back(plan::in_flight(fresh.actions.back(), v));
  }
  if (all.size() == kKept) all.pop_front();
  return all.emplace_back(key, std::move(fresh)).second;
}

}  // namespace

double PipelineEvents::played(int m) const {
  const int virtuals = p_ * v_;
  std::vector<Lanes> lanes(p_);
  std::vector<ChunkState> chunks(virtuals);
  const auto& [actions, all_slots] = played_actions(schedule_, p_, m, v_);
  std::vector<size_t> next(p_, 0);
  for (int s = 0; s < p_; ++s) {
    const std::vector<int64_t>& slots = all_slots[s];
    for (int c = 0; c < v_; ++c) {
      ChunkState& x = chunks[c * p_ + s];
      const VirtualStage& stage = stages_[c * p_ + s];
      x.ready.resize(stage.leaves.size());
      x.leaving.resize(stage.leaves.size());
      x.gradient_ready.resize(stage.enters.size());
      x.gradient.resize(streams_);
      x.slots.resize(slots[c]);
    }
  }
  std::vector<double> arrived;

  const auto forward = [&](int s, int v, int k) {
    const VirtualStage& stage = stages_[v];
    ChunkState& x = chunks[v];
    Lanes& lane = lanes[s];
    double& slot = x.slots[k % x.slots.size()];
    arrived.assign(stage.enters.size(), 0);
    const auto leaves = [&](int32_t stream) {
      size_t i = 0;
      while (stage.leaves[i].stream != stream) ++i;
      return i;
    };
    if (v > 0) {
      ChunkState& from = chunks[v - 1];
      Lanes& other = lanes[(s + p_ - 1) % p_];
      for (size_t i = 0; i < stage.enters.size(); ++i) {
        const Port& port = stage.enters[i];
        const double room = port.passes ? x.leaving[leaves(port.stream)] : slot;
        const double end =
            std::max({other.send_forward, lane.receive_forward, from.ready[i], room}) + port.transfer;
        other.send_forward = lane.receive_forward = from.leaving[i] = arrived[i] = end;
        if (port.passes) x.ready[leaves(port.stream)] = end;
      }
    }
    double now = lane.compute + stage.ahead_forward;
    bool first = true;
    for (const Segment& segment : stage.segments) {
      for (const int32_t i : segment.takes) raise(now, arrived[i]);
      if (first) now += stage.wait_forward - stage.ahead_forward;
      first = false;
      if (!segment.hands_on)
        for (const int32_t i : segment.gives) raise(now, x.leaving[i]);
      now = done(now, segment.forward, lane.host);
      if (segment.hands_on) {
        for (const int32_t i : segment.gives) raise(now, x.leaving[i]);
        if (!stage.leaves.empty()) now += stage.boundary;
      }
      for (const int32_t i : segment.gives) x.ready[i] = now;
    }
    lane.compute = now;
    ++x.forwarded;
  };

  const auto backward = [&](int s, int v, int k, bool split) {
    const VirtualStage& stage = stages_[v];
    ChunkState& x = chunks[v];
    Lanes& lane = lanes[s];
    arrived.assign(stage.leaves.size(), 0);
    if (v + 1 < virtuals) {
      ChunkState& from = chunks[v + 1];
      Lanes& other = lanes[(s + 1) % p_];
      for (size_t i = 0; i < stage.leaves.size(); ++i) {
        const Port& port = stage.leaves[i];
        const double end = std::max({other.send_backward, lane.receive_backward, from.gradient_ready[i],
                                     x.gradient[port.same]}) +
                           port.transfer;
        other.send_backward = lane.receive_backward = arrived[i] = end;
        raise(from.gradient[port.same], end);
        if (!port.passes) continue;
        size_t in = 0;
        while (stage.enters[in].stream != port.stream) ++in;
        x.gradient_ready[in] = end;
      }
    }
    double now = lane.compute + stage.ahead_backward;
    bool first = true;
    for (size_t n = stage.segments.size(); n-- > 0;) {
      const Segment& segment = stage.segments[n];
      for (const int32_t i : segment.gives) raise(now, arrived[i]);
      if (first) now += stage.wait_backward - stage.ahead_backward - stage.behind;
      first = false;
      // Waits for the gradients it overwrites: unless it just arrived, the last one must have left.
      for (const int32_t i : segment.takes) raise(now, x.gradient[stage.enters[i].same]);
      now = done(now, segment.backward, lane.host);
      for (const int32_t i : segment.takes) x.gradient_ready[i] = now;
      for (const int32_t i : segment.gives) raise(x.gradient[stage.leaves[i].same], now);
    }
    // In place: the memory of what arrived holds what is sent on.
    for (const Port& in : stage.enters)
      if (!in.passes) raise(x.gradient[in.same], now);
    lane.compute = now + stage.behind;
    if (!split) x.slots[k % x.slots.size()] = now;
    ++x.backwarded;
  };

  const auto ready = [&](const plan::Action& a, int v) {
    switch (a.type) {
      case plan::Action::Type::forward:
        return (v == 0 || chunks[v - 1].forwarded > a.micro) &&
               (v + 1 == virtuals || chunks[v + 1].forwarded >= a.micro);
      case plan::Action::Type::backward:
      case plan::Action::Type::backward_input:
        return (v + 1 == virtuals || chunks[v + 1].backwarded > a.micro) &&
               (v == 0 || chunks[v - 1].backwarded >= a.micro);
      case plan::Action::Type::backward_weight:
        return true;
    }
    return true;
  };

  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < p_; ++s) {
      for (; next[s] < actions[s].size(); ++next[s]) {
        const plan::Action& a = actions[s][next[s]];
        const int v = a.chunk * p_ + s;
        if (!ready(a, v)) break;
        moved = true;
        if (a.type == plan::Action::Type::forward) {
          forward(s, v, a.micro);
        } else if (a.type == plan::Action::Type::backward_weight) {
          double& now = lanes[s].compute;
          for (const Segment& segment : stages_[v].segments) now = done(now, segment.weight, lanes[s].host);
          chunks[v].slots[a.micro % chunks[v].slots.size()] = now;
        } else {
          backward(s, v, a.micro, a.type == plan::Action::Type::backward_input);
        }
      }
    }
  }
  double end = 0;
  for (int s = 0; s < p_; ++s) {
    if (next[s] != actions[s].size()) throw std::logic_error("the pipeline waits for itself");
    end = std::max(end, lanes[s].compute);
  }
  return end;
}

}  // namespace isobar::perf
