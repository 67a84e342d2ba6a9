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
#include <set>
#include <string>
#include <vector>

#include "bench/logs/quantities.h"
#include "model/base/spec/spec.h"

namespace isobar::foreign {

enum class LogKind { megatron, nemo, torchtitan, mlperf, kineto };
/// The program that wrote a log; none: unknown.
std::optional<LogKind> log_kind(const std::string& text);
/// The words that identify each kind of log, for errors.
std::string log_kinds_looked_for();
const char* name_of(LogKind kind);

/// Second numbers of a log: rates, batches and clock times in its lines, which must agree with the step
/// times. A disagreement is an error with both numbers.
struct SecondNumbers {
  std::vector<double> samples_s, tokens_gpu_s, tflops_gpu;  // one for each step line that has them
  std::vector<double> batches;                              // samples a step between two lines
  double wall_s = 0, claimed_s = 0;                         // from the second timed line to the last
  std::optional<double> least_wall;  // least clock time between two lines, per claimed second
  size_t intervals = 0;              // that a clock measured
  bool by_the_clock = false;         // rates that contain all time but that of validations
};

struct LoggedRun {
  LogKind kind = LogKind::megatron;
  std::string file;
  std::map<std::string, std::string> cells;  // column -> cell
  std::map<std::string, std::string> open;   // column -> why the log leaves it open: "is MemoryBudgetAC …"
  std::map<std::string, std::string> given;  // column -> cell from the configuration
  std::vector<double> steps;                 // seconds, in order, without warm-up (warm_up)
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

/// Filters step lines: a line that is redrawn, or printed by another rank too, counts once.
class StepLines {
 public:
  /// `late`: lines that ranks and progress bars may be behind the newest.
  explicit StepLines(std::string file, double late = 2) : file_(std::move(file)), late_(late) {}
  /// Throws ConfigError when the step numbers start again.
  bool take(std::optional<double> number);

 private:
  std::string file_;
  double late_;
  std::set<double> seen_;
  double most_ = 0, before_ = 0;  // the two largest numbers
};

/// Measures clock time and samples between step lines.
class StepPace {
 public:
  /// `seconds`: time of each step since the previous line.
  void add(const std::string& line, std::optional<double> number, std::optional<double> consumed,
           double seconds, SecondNumbers& to);

 private:
  std::optional<double> number_, clock_, consumed_;
};

/// Adds the rates of a step's line.
void add_rates(const logs::Quantities& q, SecondNumbers& to);

/// Throws ConfigError when the step times contradict one of these numbers; notes what may be none of a
/// step's.
void check_second_numbers(LoggedRun& r);

/// Throws ConfigError(file, key, …) with both numbers unless `printed` is within `factor` of `computed`.
void refuse_disagreement(const std::string& file, const std::string& key, double printed, double computed,
                         const std::string& of, double factor);

}  // namespace isobar::foreign
