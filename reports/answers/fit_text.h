// A fit to measured runs, and how well it predicts those that were held out, in text and JSON.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "perfmodel/fitting/measured_run.h"
#include "perfmodel/referee/holdout.h"
#include "perfmodel/referee/memory_fit.h"

namespace isobar {

struct FitReport {
  const Machine& before;
  const Machine& after;
  const std::vector<MeasuredRun>& runs;
  const RunToRun& between;  // their scatter
  Holdout fitted, held_out;
  MemoryFit memory;
  RepeatedHoldout repeated;  // over several random parts; without runs: none
};
/// A fit by settings: no net is described.
struct SettingsReport {
  const SettingsFit& fit;
  Statistic statistic;
  const std::vector<MeasuredRun>& runs;
  const RunToRun& between;
  Holdout fitted, held_out;
  RepeatedHoldout repeated;
};
std::string text_of(const SettingsReport& r);
nlohmann::json json_of(const SettingsReport& r);
std::string text_of(const FitReport& r);
/// holdout.json's members (perfmodel/referee/holdout.h), and those of the fit.
nlohmann::json json_of(const FitReport& r);

}  // namespace isobar
