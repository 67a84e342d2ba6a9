// Numbers of steps as several sources of one output count them, some from 0 and some from 1.
//
//   StepNumbers numbers;
//   numbers.of("deepspeed", 1);   // 1
//   numbers.of("lines", 0);       // 1: counts from 0, beside one that counts what is done
//   numbers.done(60);             // steps done when the newest number is 60
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace isobar::logs {

class StepNumbers {
 public:
  StepNumbers() = default;
  /// `from_zero`: sources that are known to count from 0, since they did before a run was taken up.
  explicit StepNumbers(std::set<std::string> from_zero) : from_zero_(std::move(from_zero)) {}
  /// The number in the numbering of all: from 1 once any source counts so.
  int64_t of(const std::string& source, int64_t said);
  int64_t done(int64_t newest) const;
  const std::set<std::string>& from_zero() const { return from_zero_; }

 private:
  struct Source {
    int64_t first = 0, last = 0, stride = 0;  // stride: 0: none yet, -1: it changes
  };
  /// Every tenth step as 9, 19, ...: it counts from 0, and reports what is done.
  static bool ends_strides_from_zero(const Source& s) { return s.stride > 2 && s.first == s.stride - 1; }
  std::map<std::string, Source> sources_;
  std::set<std::string> from_zero_;
  bool counts_done_ = false;
};

}  // namespace isobar::logs
