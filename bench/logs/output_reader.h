// Records of a training in the output of its program, as it comes: run.reads names its readers (readers.cpp).
//
//   OutputReader read({.reads = "auto", .batch = 32});
//   read.line(text, seconds_since_1970);                  // any number of lines
//   for (const Record& r : read.take(now)) log.write(r);  // steps and validations that are complete
//   read.end();                                           // then take() once more
//
// A step's seconds are what its lines say, else a rate of theirs, else the time since the step before; steps
// of one moment (`now`: when the lines were written) share that time. Lines of one step are one record. A
// loss on a line without a step belongs to the step that is read next.
//
// Numbers of steps as several sources of one output count them, some from 0 and some from 1.
//
//   StepNumbers numbers;
//   numbers.of("deepspeed", 1);   // 1
//   numbers.of("lines", 0);       // 1: counts from 0, beside one that counts what is done
//   numbers.done(60);             // steps done when the newest number is 60
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/logs/forms/forms.h"
#include "model/records/records.h"

namespace isobar::logs {

class StepNumbers {
 public:
  StepNumbers() = default;
  /// `from_zero`: sources that are known to count from 0, since they did before a run was taken up.
  explicit StepNumbers(std::set<std::string> from_zero) : from_zero_(std::move(from_zero)) {}
  /// The number in the numbering of all: from 1 once any source counts so.
  int64_t of(const std::string& source, int64_t said);
  int64_t done(int64_t newest) const;
  const std::set<std::string>& from_zero() const { return from_zero_; }

 private:
  struct Source {
    int64_t first = 0, last = 0, stride = 0;  // stride: 0: none yet, -1: it changes
  };
  /// Every tenth step as 9, 19, ...: it counts from 0, and reports what is done.
  static bool ends_strides_from_zero(const Source& s) { return s.stride > 2 && s.first == s.stride - 1; }
  std::map<std::string, Source> sources_;
  std::set<std::string> from_zero_;
  bool counts_done_ = false;
};

struct OutputOptions {
  std::string reads = "auto";
  int64_t batch = 0;   // train.global_batch
  int64_t tokens = 0;  // of a sample; 0: not a net of tokens
  int64_t ranks = 1;
  double begun = 0;                 // seconds since 1970, when the program began; 0: not known
  bool untimed = false;             // also records of steps whose time is not known, with 0 s
  std::string file;                 // of the specification, for errors
  std::set<std::string> from_zero;  // sources that count steps from 0 (StepNumbers)
};

/// The readers of one line of run.reads, with their names (readers.cpp). Throws ConfigError for words that
/// are none.
std::vector<std::pair<std::string, LineReader>> readers_named(const std::string& reads,
                                                              const OutputOptions& options);

struct OutputSummary {
  int64_t last_step = -1;       // -1: none
  std::vector<double> seconds;  // of the recorded steps
  std::optional<double> loss;   // the last
  std::optional<records::LastValid> valid;
  std::optional<int64_t> peak_bytes;
  std::optional<std::string> contradiction;  // of two numbers of the output; none: they agree
  std::vector<std::string> notes;            // what was assumed or left out
};

class OutputReader {
 public:
  /// Throws ConfigError(file, "run.reads", …) for words that name no reader.
  explicit OutputReader(const OutputOptions& options);
  /// True if a reader took it.
  bool line(const std::string& text, double now);
  /// Numbers of a reader, or from elsewhere, such as a file of TensorBoard.
  void numbers(Quantities q, double now, const std::string& source);
  std::vector<records::Record> take(double now);
  void end() { ended_ = true; }
  OutputSummary summary() const;
  /// Lines that each reader took.
  const std::map<std::string, int64_t>& read_by() const { return read_by_; }
  const std::set<std::string>& from_zero() const { return numbers_.from_zero(); }

 private:
  struct Waiting {
    int64_t step = 0;
    double now = 0;
    Quantities q;
  };
  std::optional<int64_t> step_of(Quantities& q, const std::string& source);
  double counted_on(const Quantities& q, const std::string& source);
  std::optional<int64_t> step_beside_iterations(Quantities& q);
  std::optional<std::string> contradiction() const;
  void take_valid(const Quantities& q);
  void check(const Quantities& q, std::optional<double> clock_seconds);
  std::optional<double> seconds_in(const Quantities& q) const;
  void write(const Waiting& w, std::optional<double> clock_seconds, std::vector<records::Record>& to);

  OutputOptions options_;
  std::vector<std::pair<std::string, LineReader>> readers_;
  std::map<std::string, int64_t> read_by_;
  std::deque<Waiting> waiting_;
  std::vector<records::Record> out_;
  bool ended_ = false, epochs_ = false;
  StepNumbers numbers_;
  std::optional<double> last_step_said_;
  std::optional<std::pair<double, double>> stepped_;  // iteration and step when the step last grew
  double iterations_ = 0;                             // of a step; 0: not known
  /// Steps that begin anew with each epoch, of one source
  struct Epochs {
    double epoch = 0, first = 0, last = 0;  // numbers as they are said
    double before = 0;                      // steps of the epochs before
  };
  std::map<std::string, Epochs> epochs_of_;
  bool anew_ = false;
  bool steps_of_epochs_ = false;    // its steps begin anew, its iterations do not
  int64_t newest_ = -1, back_ = 0;  // newest: step; back: lines that go back
  int64_t written_ = -1;            // step, and when
  double written_at_ = -1;
  double skipped_so_far_ = 0;
  std::optional<double> pending_loss_, pending_lr_, pending_grad_;  // of lines without a step
  std::optional<double> loss_, valid_loss_;
  std::optional<records::LastValid> valid_;
  double peak_bytes_ = 0;
  std::vector<double> seconds_;
  size_t grown_ = 0;  // of them, those that a line says and that are larger than the one before
  std::vector<double> batches_, clock_batches_, least_batches_;  // samples of a step, by two numbers each
  double claimed_s_ = 0, first_at_ = -1, last_at_ = -1;  // of steps after the first that was written; when
  std::optional<Quantities> run_;
};

// Which of the first steps are warm-up: they compile, allocate, connect and fill caches.

struct WarmUp {
  size_t steps = 0;
  std::string text;  // the rule and its result, for the reader of a result
};

/// The first step, and those right behind it that take more than kWarmUpFactor medians; of one step, none.
WarmUp warm_up(const std::vector<double>& seconds);

// Shows how run.reads would read a file that a training has written: which readers know it, the first steps,
// what looks like a step and was not read, and the warm-up.

/// `file`: text, also gzipped; a table (.csv); an event file of TensorBoard, or a folder of such. Throws
/// ConfigError if nothing in it is recognised.
std::string tried_log(const std::string& file, OutputOptions options);

}  // namespace isobar::logs
