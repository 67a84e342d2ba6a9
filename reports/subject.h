// What a report is about, before any number: which net of what size was trained on which data, where, when
// and how often. Said of all runs together: what differs among them is a range, or named as such.
#pragma once
#include <string>
#include <vector>

#include "reports/data.h"

namespace isobar {

struct Subject {
  std::string title;               // "vit-tiny on AMD EPYC 7763, 1 to 4 ranks"
  std::vector<std::string> lines;  // sentences under it
};

Subject subject_of(const ReportData& d);

}  // namespace isobar
