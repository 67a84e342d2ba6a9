// Choices that people make where a row does not say: engine, attention, schedule, sequence parallelism, ZeRO,
// and the layout of open rows. Learnt from other campaigns' rows that say it, by their likeness to the row.
//
//   Choices choices(samples_of_others);
//   std::vector<RunReading> all = choices.readings(run);          // likeliest first; chances sum to 1
//   OpenEstimate e = over_readings(all, [&](const PublishedRun& r) { return …; });
//   e.assumed["engine"]["nemo"]; e.narrows                     // saying that column would narrow it most
//
// Chance of a value: smoothed counts (every campaign has equal weight) over rows of like engine, chip, net
// and layout, as in a Nadaraya-Watson estimate.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "perfmodel/score/prices/prices.h"
#include "perfmodel/score/prices/sample.h"

namespace isobar::perf {

struct RunReading {
  PublishedRun run;
  double chance = 1;
  std::map<std::string, std::string> assumed{};  // column -> value
};

/// By column: chances of its values.
using Assumed = std::map<std::string, std::map<std::string, double>>;

struct OpenEstimate {
  Estimated of;  // relative to the measurement, since with a throughput the step's time depends on the batch
  Assumed assumed{};
  std::string narrows{};    // the column that explains most of the variance; "": nothing is open
  double share = 0;         // that it explains
  double constant_mfu = 0;  // a constant MFU's prediction, likewise relative; 0: none
};

class Choices {
 public:
  Choices() = default;
  explicit Choices(const Samples& others);
  /// All runs that a row with a layout may be, by what it leaves unsaid.
  std::vector<RunReading> readings(const PublishedRun& run) const;
  /// `policies`: unsaid ones are open, too, instead of being read as usual.
  std::vector<RunReading> readings(const OpenRun& open, bool policies) const;
  /// Chances of an open row's candidates, with unsaid policies as usual: likeness to other runs' layouts
  /// at like size and GPUs, and whether memory suffices.
  std::vector<double> layouts(const OpenRun& open) const;

 private:
  struct Other {
    PublishedRun run;
    double weight;  // 1 over the rows of its campaign
  };
  std::vector<RunReading> by_engine(const RunReading& reading) const;
  std::vector<RunReading> by_value(const RunReading& reading, const std::string& column) const;
  std::vector<RunReading> all_of(std::vector<RunReading> readings) const;
  std::vector<Other> others_;
};

/// Median and 80 % interval of the mixture. `predict`: an estimate relative to the measurement.
OpenEstimate over_readings(const std::vector<RunReading>& readings,
                           const std::function<Estimated(const PublishedRun&)>& predict);

}  // namespace isobar::perf
