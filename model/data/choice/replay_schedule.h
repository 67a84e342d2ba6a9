// The samples of each optimizer step when a replay buffer feeds predictions back
// (TrainSpec::replay_capacity). They depend only on the seed, the step and the place in the global batch, not
// on the layout, loader workers or a resume, and so are known before anything is predicted.
//
// Each place of the global batch has a ring of entries, at first samples of the data in the order of
// sample_order.h; every replay_refresh-th step adds the next sample. A step draws an entry uniformly. Its
// prediction becomes an entry as well, unless it has reached the longest lead or the data have no next
// target. New entries replace the oldest.
//
//   ReplaySchedule schedule(spec.train, *set, seed, first_place, places);
//   const ReplayDraw d = schedule.at(step, i);
#pragma once
#include <cstdint>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/data/choice/sample_order.h"
#include "model/data/dataset.h"

namespace isobar::data {

struct ReplayDraw {
  int64_t sample = 0;  // sample with the target, and with inputs that are not predicted
  int64_t lead = 0;    // number of successive predictions behind the newest input
  int64_t from = 0;    // entry drawn
  int64_t to = -1;     // entry that stores the prediction; -1: none
};

class ReplaySchedule {
 public:
  /// Covers `places` places of the global batch from `first`. `set` must outlive this.
  ReplaySchedule(const RunSpec& spec, const Dataset& set, int64_t first, int64_t places);
  /// The draw of the i-th of these places. A step below the last one restarts from step 0.
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
  void advance();  // to the next step
  int64_t put(Ring& ring, Entry e) const;
  int64_t longest_lead(int64_t step) const;

  const TrainSpec train_;
  const Dataset& set_;
  const int64_t first_;
  SampleOrder order_;
  std::vector<Ring> rings_;
  int64_t step_ = -1;      // step of the current draws
  int64_t from_data_ = 0;  // data samples that each ring has received
};

}  // namespace isobar::data
