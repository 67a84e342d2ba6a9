// A fit to measured runs, and how well it predicts those that were held out, in text and JSON.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "perfmodel/fitting/measured_run.h"
#include "perfmodel/referee/holdout.h"

namespace isobar::report {

struct FitReport {
  const perf::Machine& before;
  const perf::Machine& after;
  const std::vector<perf::MeasuredRun>& runs;
  const RunToRun& between;  // their scatter
  perf::Holdout fitted, held_out;
  perf::MemoryFit memory;
  perf::RepeatedHoldout repeated;  // over several random parts; without runs: none
};
/// A fit by settings: no net is described.
struct SettingsReport {
  const perf::SettingsFit& fit;
  Statistic statistic;
  const std::vector<perf::MeasuredRun>& runs;
  const RunToRun& between;
  perf::Holdout fitted, held_out;
  perf::RepeatedHoldout repeated;
};
std::string text_of(const SettingsReport& r);
nlohmann::json json_of(const SettingsReport& r);
std::string text_of(const FitReport& r);
/// holdout.json's members (perfmodel/referee/holdout.h), and those of the fit.
nlohmann::json json_of(const FitReport& r);

}  // namespace isobar::report
