// The report's summary sentences: the fastest layout and its certainty, quality of predictions, changes
// between sets, failures.
#pragma once
#include <string>
#include <vector>

#include "reports/comparison/compare.h"
#include "reports/data.h"

namespace isobar {

struct Sentence {
  std::string head;  // a few words
  std::string text;
  std::string anchor;        // figure or table with the evidence
  std::string command = {};  // command that follows the advice; "": none
};

std::vector<Sentence> story(const ReportData& d, const std::vector<Comparison>& comparisons);

}  // namespace isobar
