// Time before the first step, by stage.
//
//   Starting starting(slow);                    // "starting up" for the watchdog, until done()
//   starting.stage("planning");                 // ends the stage before
//   say(starting.done());                       // "started in 5.1 s: first values 3.0 s, planning 1.2 s"
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/engine/liveness/slow_work.h"

namespace isobar::engine {

class Starting {
 public:
  explicit Starting(SlowWork& slow) : part_(std::in_place, &slow, "starting up") {}

  /// `what`: a literal. A stage that is entered again accumulates.
  void stage(const char* what);
  /// Ends the last stage and the watchdog's part. Returns the stages that took at least a tenth of the start,
  /// longest first; "" for a start under a second.
  std::string done();
  /// By stage, those that ended.
  const std::vector<std::pair<const char*, double>>& seconds() const { return seconds_; }

 private:
  using Clock = std::chrono::steady_clock;
  void end_stage();

  std::optional<SlowWork::Part> part_;
  Clock::time_point begin_ = Clock::now(), since_ = begin_;
  const char* current_ = "looking at the run";
  std::vector<std::pair<const char*, double>> seconds_;
};

}  // namespace isobar::engine
