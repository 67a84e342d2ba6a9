// Answers of searches in text and JSON (perfmodel/ask/choose/answers.h).
//
//   std::fputs(text_of(answer, machine, 64, question).c_str(), stdout);
//   std::fputs(scaling_text(points).c_str(), stdout);             // of several numbers of accelerators
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "perfmodel/ask/choose/answers.h"

namespace isobar::report {

std::string text_of(const perf::SearchAnswer& a, const perf::Machine& machine, int64_t gpus,
                    const perf::LayoutQuestion& q);
nlohmann::json json_of(const perf::SearchAnswer& a, const perf::Machine& machine, int64_t gpus,
                       const perf::LayoutQuestion& q);

struct ScalingPoint {
  int64_t gpus;
  double step_s;
  std::string layout;
};
std::string scaling_text(const std::vector<ScalingPoint>& points);

}  // namespace isobar::report
