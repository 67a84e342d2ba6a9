// What a reader should look at first, in sentences: the fastest layout and how sure that is, what predictions
// are worth, what changed between sets of results, what failed.
#pragma once
#include <string>
#include <vector>

#include "reports/compare.h"
#include "reports/data.h"

namespace isobar {

struct Sentence {
  std::string head;  // few words
  std::string text;
  std::string anchor;        // figure or table that shows it
  std::string command = {};  // that does what the sentence advises; "": none
};

std::vector<Sentence> story(const ReportData& d, const std::vector<Comparison>& comparisons);

}  // namespace isobar
