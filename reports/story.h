// The report's first words: three figures, and sentences on the fastest layout and its certainty, quality of
// predictions, changes between sets, failures.
#pragma once
#include <string>
#include <vector>

#include "reports/comparison/compare.h"
#include "reports/data.h"

namespace isobar::report {

struct Sentence {
  std::string head;  // a few words
  std::string text;
  std::string anchor;        // figure or table with the evidence
  std::string command = {};  // command that follows the advice; "": none
  std::string brief =
      {};  // sentences of at most 20 words for the first screen, which say no more than `text`
};

/// A figure in large type: "390.8 samples/s", "80 % interval 380.9 to 401.1".
struct Fact {
  std::string value, what;
};
/// The best layout, its samples/s and the predictor's error; of sets, what changed. Empty without a finished
/// run.
std::vector<Fact> facts_of(const ReportData& d, const std::vector<Comparison>& comparisons);  // facts.cpp

std::vector<Sentence> story(const ReportData& d, const std::vector<Comparison>& comparisons);

}  // namespace isobar::report
