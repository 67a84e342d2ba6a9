// What each optimizer step trains on where a replay buffer feeds predictions back
// (TrainSpec::replay_capacity), known before anything is predicted: it depends on the seed, the step and the
// sample's place in the global batch alone, never on the layout, on loader workers or on where a run was
// resumed.
//
// Each place of the global batch has a ring of entries. They are samples of the data at first, in the order
// of sample_order.h, and from step replay_refresh on every replay_refresh-th step puts the next one in. A
// step draws one of the ring's entries, evenly; what it predicts from that becomes an entry too, unless that
// is as far from the data as is wanted or no sample of the data says what follows. The oldest entry makes
// room.
//
//   ReplaySchedule schedule(spec.train, *set, seed, first_place, places);
//   const ReplayDraw d = schedule.at(step, i);
#pragma once
#include <cstdint>
#include <vector>

#include "model/base/spec.h"
#include "model/data/dataset.h"
#include "model/data/sample_order.h"

namespace isobar {

struct ReplayDraw {
  int64_t sample = 0;  // of the data: what is predicted, and what is not known from a prediction
  int64_t lead = 0;    // so many of its newest times were predicted, one after the other
  int64_t from = 0;    // the entry that was drawn
  int64_t to = -1;     // the entry that takes what is predicted from it; -1: none does
};

class ReplaySchedule {
 public:
  /// Of `places` places of the global batch from `first` on. `set` outlives this.
  ReplaySchedule(const RunSpec& spec, const Dataset& set, int64_t first, int64_t places);
  /// Of the i-th of these places. Steps that do not ascend begin anew.
  const ReplayDraw& at(int64_t step, int64_t i);

 private:
  struct Entry {
    int64_t sample, lead;
  };
  struct Ring {
    std::vector<Entry> entries;
    int64_t oldest = 0;
    ReplayDraw drawn;
  };
  void begin();
  void advance();  // by a step
  int64_t put(Ring& ring, Entry e) const;
  int64_t longest_lead(int64_t step) const;

  const TrainSpec train_;
  const Dataset& set_;
  const int64_t first_;
  SampleOrder order_;
  std::vector<Ring> rings_;
  int64_t step_ = -1;      // that the draws are of
  int64_t from_data_ = 0;  // samples of the data that each ring has had
};

}  // namespace isobar
