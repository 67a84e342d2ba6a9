// Logs of other engines' trainings: what was run and how long its steps took, as a row in the columns of
// configs/published. Megatron-LM says all of it, torchtitan nearly so, NeMo and MLPerf's loggers what is not
// in their own configuration, PyTorch's profiler the steps alone: a configuration of ours tells the rest.
//
//   LoggedRun r = read_training_log({"slurm.out"}, "");       // or "run.yaml"
//   r.cells.at("tp"); r.seconds();                            // "8", the median of the steps
//   write_atomically("mine.csv", table_of({r}));              // for isobar fit --engine, isobar score
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/import/log_checks.h"
#include "model/base/spec.h"

namespace isobar {

enum class LogKind { megatron, nemo, torchtitan, mlperf, kineto };
/// Whose log a text is; none: nobody's that is known.
std::optional<LogKind> log_kind(const std::string& text);
/// The words by which logs are known, for errors.
std::string log_kinds_looked_for();
const char* name_of(LogKind kind);

struct LoggedRun {
  LogKind kind = LogKind::megatron;
  std::string file;
  std::map<std::string, std::string> cells;  // column -> cell
  std::map<std::string, std::string> open;   // column -> why the log leaves it open: "is MemoryBudgetAC …"
  std::map<std::string, std::string> given;  // column -> cell, as the configuration says it
  std::vector<double> steps;                 // seconds, in order, the first one left out where there are more
  SecondNumbers second;
  std::vector<std::string> notes;  // what was left out or assumed
  double seconds() const;
  /// A cell of the log, or of the configuration; 0: neither says it.
  double number(const std::string& column) const;
  void set(const std::string& column, double value);
  void set(const std::string& column, const std::string& value);
};

/// One run. `files`: several are the traces of its ranks. `config`: what was trained, where the log does not
/// say it ("": it says all); what both say has to agree. Throws ConfigError.
LoggedRun read_training_log(const std::vector<std::string>& files, const std::string& config);
/// What a row of configs/published says of a run of this specification.
std::map<std::string, std::string> cells_of(const RunSpec& spec);
std::string table_of(const std::vector<LoggedRun>& runs);

/// The readers of one kind each: cells and steps that the text tells.
void read_megatron_log(const std::string& text, LoggedRun& run);
void read_nemo_log(const std::string& text, LoggedRun& run);
void read_torchtitan_log(const std::string& text, LoggedRun& run);
void read_mlperf_log(const std::string& text, LoggedRun& run);

}  // namespace isobar
