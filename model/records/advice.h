// Advice on a run from its own records: why its steps take longer than expected, and what would help. Each is
// given once, with its figures, and none while the difference is within the interval.
//
//   Advisor advisor({.expected = ExpectedStep{0.12, 0.11, 0.13, "predicted"}, .workers = 4});
//   for (const StepRecord& s : steps) if (auto text = advisor.step(s)) say(*text);
//   // "180 ms a step, 120 expected (predicted): the loader, 60 ms of waiting (6 workers would keep up, 4
//   are)"
//
// Without an expectation a run is compared with its own first stable minute.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/records/records.h"

namespace isobar::records {

struct ExpectedStep {
  double seconds = 0, lower = 0, upper = 0;  // 80 % interval
  std::string from;                          // "predicted by fitted.yaml"
};
/// As run_start's provenance keeps it; nothing where there is none.
nlohmann::json to_json(const ExpectedStep& e);
std::optional<ExpectedStep> expected_in(const nlohmann::json& provenance);

struct AdviceContext {
  std::optional<ExpectedStep> expected = std::nullopt;
  int64_t workers = 0;  // of the loader
};

class Advisor {
 public:
  explicit Advisor(AdviceContext context) : context_(std::move(context)) {}
  /// Advice that is new after this step.
  std::optional<std::string> step(const StepRecord& s);
  /// Times of the ranks, for what follows.
  void ranks(const RanksRecord& r);
  /// Bytes that this host has read back from swap during the run.
  void swapped(int64_t bytes) { swapped_ = bytes; }
  const std::vector<std::string>& given() const { return given_; }

 private:
  struct Cause {
    std::string kind, text;
  };
  void learn(const StepRecord& s);
  Cause cause_of(double now, double wait) const;
  std::optional<Cause> loader(double now, double wait) const;
  std::optional<Cause> slow_rank() const;
  std::optional<Cause> clocks() const;
  std::optional<std::string> straggler(const ExpectedStep& e);
  std::optional<std::string> once(const std::string& kind, const std::string& text);

  AdviceContext context_;
  int64_t steps_ = 0, slow_ = 0;  // slow: consecutive windows above the interval
  double first_s_ = 0;            // seconds of the steps behind `first_`
  std::vector<double> first_;
  std::deque<StepRecord> lately_;
  std::optional<RanksRecord> first_ranks_, last_ranks_;
  int64_t swapped_ = 0;
  std::set<std::string> said_;
  std::vector<std::string> given_;
};

/// An advisor on the run that begins so: its expectation and its loader's workers.
Advisor advisor_of(const StartRecord& start);

/// Bytes that this host has read back from swap since it started; 0 where the kernel does not say.
int64_t swapped_in_bytes();

}  // namespace isobar::records
