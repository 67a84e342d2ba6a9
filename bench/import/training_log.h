// Training logs of other engines as a row in the columns of configs/published: the specification and the step
// times. Megatron-LM prints all of it and torchtitan nearly all; for NeMo, MLPerf's loggers and PyTorch's
// profiler, which print less, an Isobar configuration supplies the rest.
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
#include "model/base/spec/spec.h"

namespace isobar::foreign {

enum class LogKind { megatron, nemo, torchtitan, mlperf, kineto };
/// The program that wrote a log; none: unknown.
std::optional<LogKind> log_kind(const std::string& text);
/// The words that identify each kind of log, for errors.
std::string log_kinds_looked_for();
const char* name_of(LogKind kind);

struct LoggedRun {
  LogKind kind = LogKind::megatron;
  std::string file;
  std::map<std::string, std::string> cells;  // column -> cell
  std::map<std::string, std::string> open;   // column -> why the log leaves it open: "is MemoryBudgetAC …"
  std::map<std::string, std::string> given;  // column -> cell from the configuration
  std::vector<double> steps;                 // seconds, in order, without warm-up (warm_up.h)
  SecondNumbers second;
  std::vector<std::string> notes;  // omissions and assumptions
  double seconds() const;
  /// A cell of the log, else of the configuration; 0: in neither.
  double number(const std::string& column) const;
  void set(const std::string& column, double value);
  void set(const std::string& column, const std::string& value);
};

/// Reads one run; several `files` are traces of its ranks. `config` supplies what the log lacks ("":
/// nothing), and must agree with it.
LoggedRun read_training_log(const std::vector<std::string>& files, const std::string& config);
/// The cells that a row of configs/published would have for this specification.
std::map<std::string, std::string> cells_of(const RunSpec& spec);
std::string table_of(const std::vector<LoggedRun>& runs);
/// The text of one table (.csv), or a table made from logs: a run each, but several traces are one run's.
/// `notes` gets what the logs' runs leave out. Throws ConfigError for a table among logs, and for a table
/// with a configuration.
std::string own_table(const std::vector<std::string>& files, const std::string& config,
                      std::vector<std::string>& notes);

/// Readers of each kind of log, which fill cells and steps.
void read_megatron_log(const std::string& text, LoggedRun& run);
void read_nemo_log(const std::string& text, LoggedRun& run);
void read_torchtitan_log(const std::string& text, LoggedRun& run);
void read_mlperf_log(const std::string& text, LoggedRun& run);

}  // namespace isobar::foreign
