// Step times by settings alone, where no net is described (run.by_settings): a regression of the log step
// time on the settings that vary among the measured runs.
//
//   const SettingsFit fit(runs);
//   const StepRange r = fit(spec);          // r.seconds, 80 % interval r.lower … r.upper
//
// Numbers enter by their log, names as one feature each. The log time is a plane over these features plus a
// smooth deviation, a Gaussian process whose size, reach and noise maximise the likelihood of the runs;
// errors of runs left out, each in turn, scale the interval. A value far from all runs, or a name that none
// has, widens it.
#pragma once
#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "perfmodel/fitting/fit.h"

namespace isobar::perf {

struct StepRange {
  double seconds = 0, lower = 0, upper = 0;  // 80 % interval
};

/// How the step time goes with a setting, others as they are.
struct SettingEffect {
  std::string key, value;  // value: a name; "": a number, whose factor is that of twice the value
  double factor = 1, lower = 1, upper = 1;
};

class SettingsFit {
 public:
  /// Deterministic. Without runs every prediction is equally wide.
  explicit SettingsFit(const std::vector<MeasuredRun>& runs);

  StepRange operator()(const RunSpec& spec) const;
  /// Means and covariance of the logs of the step times.
  std::pair<Eigen::VectorXd, Eigen::MatrixXd> logs(const std::vector<RunSpec>& specs) const;
  std::vector<SettingEffect> effects() const;
  double noise() const { return noise_; }  // log sigma of a run around its settings' time
  const std::vector<std::string>& ids() const { return ids_; }

  /// The runs behind it, from which it is the same again.
  nlohmann::json to_json() const;
  /// Throws ConfigError(file, …).
  static SettingsFit from_json(const nlohmann::json& j, const std::string& file);

 private:
  using Flat = std::map<std::string, nlohmann::json>;  // key -> value
  struct Row {
    std::string id;
    Flat settings;
    double log_s = 0, error = 0;
  };
  explicit SettingsFit(std::vector<Row> rows);
  struct Feature {
    std::string key, name;  // name: 1 where the value is this; "": log2 of a number
    double center = 0;
    bool from_zero = false;  // some run has 0: log2 of one more
  };
  static Flat flat_of(const RunSpec& spec);
  Eigen::VectorXd features_of(const Flat& settings) const;
  Eigen::MatrixXd kernel(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b) const;
  void list_features();
  void learn();

  std::vector<Row> rows_;
  std::vector<std::string> ids_;
  std::vector<Feature> features_;
  Eigen::MatrixXd x_;
  Eigen::VectorXd errors_, alpha_;
  double mean_ = -2, size_ = 0.1, reach_ = 2, noise_ = 0.03, scale_ = 1;
  Eigen::LLT<Eigen::MatrixXd> llt_;
};

}  // namespace isobar::perf
