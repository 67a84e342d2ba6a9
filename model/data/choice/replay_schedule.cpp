#include "model/data/choice/replay_schedule.h"

#include "model/base/rng.h"

namespace isobar::data {
namespace {

constexpr uint64_t kDrawStream = uint64_t{0x7265706c} << 32;  // "repl"

}  // namespace

ReplaySchedule::ReplaySchedule(const RunSpec& spec, const Dataset& set, int64_t first, int64_t places)
    : train_(spec.train),
      set_(set),
      first_(first),
      order_(set.size(), spec.train.global_batch, static_cast<uint64_t>(spec.train.seed), spec.data.shuffle),
      rings_(static_cast<size_t>(places)) {
  begin();
}

void ReplaySchedule::begin() {
  step_ = -1;
  for (Ring& ring : rings_) ring = {};
  for (from_data_ = 0; from_data_ < train_.replay_capacity; ++from_data_)
    for (size_t i = 0; i < rings_.size(); ++i)
      rings_[i].entries.push_back({order_.at(from_data_, first_ + static_cast<int64_t>(i)), 0});
}

const ReplayDraw& ReplaySchedule::at(int64_t step, int64_t i) {
  if (step < step_) begin();
  while (step_ < step) advance();
  return rings_.at(static_cast<size_t>(i)).drawn;
}

int64_t ReplaySchedule::longest_lead(int64_t step) const {
  return step < train_.replay_warmup_steps ? train_.replay_warmup_lead : train_.replay_max_lead;
}

int64_t ReplaySchedule::put(Ring& ring, Entry e) const {
  const int64_t to = ring.oldest;
  ring.entries[static_cast<size_t>(to)] = e;
  ring.oldest = (to + 1) % train_.replay_capacity;
  return to;
}

void ReplaySchedule::advance() {
  ++step_;
  const bool refreshed = step_ > 0 && step_ % train_.replay_refresh == 0;
  for (size_t i = 0; i < rings_.size(); ++i) {
    Ring& ring = rings_[i];
    const int64_t place = first_ + static_cast<int64_t>(i);
    if (refreshed) put(ring, {order_.at(from_data_, place), 0});
    const auto index = static_cast<uint64_t>(step_ * train_.global_batch + place);
    const uint64_t bits = philox(static_cast<uint64_t>(train_.seed), kDrawStream, index)[0];
    const auto drawn = static_cast<int64_t>(bits * static_cast<uint64_t>(train_.replay_capacity) >> 32);
    const Entry e = ring.entries[static_cast<size_t>(drawn)];
    ring.drawn = {.sample = e.sample, .lead = e.lead, .from = drawn};
    // The prediction has lead e.lead + 1, and a prediction from it would have e.lead + 2.
    const int64_t next = set_.one_later(e.sample);
    if (next >= 0 && e.lead + 2 <= longest_lead(step_)) ring.drawn.to = put(ring, {next, e.lead + 1});
  }
  if (refreshed) ++from_data_;
}

}  // namespace isobar::data
