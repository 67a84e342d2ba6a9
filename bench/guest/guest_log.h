// The records of a training by another program, written as the engine writes its own: by run_guest.h for
// run.command, by record_loop.h for a loop that reports its steps.
//
//   GuestLog log(spec);                                   // claims run.out
//   log.begin({{"command", "torchrun train.py"}}, 2);
//   log.step({.step = 1, .seconds = 0.12, .samples_per_s = 66});
//   log.end(log.complete());
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/engine/liveness/result_log.h"
#include "model/engine/liveness/run_dir.h"
#include "model/records/records.h"
#include "model/records/run_class.h"

namespace isobar::guest {

class GuestLog {
 public:
  /// Throws ConfigError where run.out is empty or holds another training. `resume`: takes up what it holds.
  explicit GuestLog(const RunSpec& spec, bool resume = false);
  /// `about`: joins the provenance.
  records::StartRecord begin(const nlohmann::json& about, int64_t ranks_on_host, bool resumed = false);
  void step(const records::StepRecord& step);
  void write(const records::Record& record) const { log_.write(record); }
  void heartbeat() const { log_.heartbeat(); }
  void end(const records::EndRecord& end) const { log_.end(end); }

  bool timed() const { return !seconds_.empty(); }
  records::EndRecord failed(records::RunClass c, const std::string& message) const;
  /// The end of a training that said nothing of a failure: of class numeric where its loss is not a number.
  records::EndRecord complete(int64_t last_step) const;

 private:
  const RunSpec& spec_;
  engine::RunDir dir_;
  engine::ResultLog log_;
  std::vector<double> seconds_;
  std::optional<double> loss_;
};

}  // namespace isobar::guest
