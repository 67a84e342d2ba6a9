#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/import/training_log.h"
#include "bench/logs/log_text.h"
#include "model/base/error.h"
#include "model/base/text/printed.h"
#include "perfmodel/fitting/statistics.h"

namespace isobar::foreign {
namespace {

constexpr double kRateFactor = 1.15;  // of rates: rounding, and time outside the timer
constexpr double kFlopsFactor = 3;    // programs count attention, heads and recomputation differently
constexpr double kClockShare = 0.8;   // steps may not take longer than the clock shows, ...
constexpr double kClockFactor = 20;   // ... nor 20 times less in every interval; some contain evaluations
constexpr double kOutside = 1.5;      // of the clock's time in every interval that goes without saying
constexpr size_t kFewIntervals = 3;
constexpr double kClockSlack_s = 2;  // resolution of whole seconds

std::string short_number(double v) {
  return printed("%.4g", v);
}

/// The median without the first line, which includes compilation and allocation.
double typical(std::vector<double> v) {
  if (v.size() > 1) v.erase(v.begin());
  return v.empty() ? 0 : quantile(v, 0.5);
}

/// Floating-point operations of a step of a dense transformer, forward and backward; 0: unknown.
double flops_of(const LoggedRun& r) {
  const auto cell = [&](const char* column) {
    const auto at = r.cells.find(column);
    return at == r.cells.end() ? std::string() : at->second;
  };
  const bool gated = cell("arch") == "llama";
  if (!gated && cell("arch") != "gpt") return 0;
  const auto or_else = [&](const char* column, double otherwise) {
    const double v = r.number(column);
    return v > 0 ? v : otherwise;
  };
  const double h = r.number("hidden"), heads = r.number("heads"), s = r.number("seq_len");
  const double head = or_else("head_dim", h / heads), kv = or_else("kv_heads", heads);
  const double ffn = or_else("ffn_hidden", gated ? 8 * h / 3 : 4 * h);
  const double layer = h * head * (2 * heads + 2 * kv) + (gated ? 3 : 2) * h * ffn + s * head * heads;
  const double token = r.number("layers") * layer + h * r.number("vocab");
  return 6 * token * s * r.number("global_batch");
}

void check_clock(LoggedRun& r) {
  const SecondNumbers& n = r.second;
  if (!(n.wall_s > 0 && n.claimed_s > 0)) return;
  const std::string both = "of all lines but the first is " + short_number(n.claimed_s) +
                           " s together, and " + short_number(n.wall_s) + " s went by on the log's clock";
  const double least = n.wall_s > n.claimed_s + kClockSlack_s ? n.least_wall.value_or(0) : 0;
  const bool outside = n.intervals >= kFewIntervals && least > kOutside;
  if (n.wall_s + kClockSlack_s < kClockShare * n.claimed_s || least > kClockFactor ||
      (outside && n.by_the_clock))
    throw ConfigError(r.file, "step time", both,
                      "check the unit of its times, the batch, and that it is the log of one run");
  if (outside)
    r.notes.push_back("the step time " + both + ", at least " + short_number(least) +
                      " times as much between any two lines");
}

}  // namespace

bool StepLines::take(std::optional<double> number) {
  if (!number) return true;
  const double distance = std::max(1.0, most_ - before_);
  if (!seen_.empty() && *number < most_ - late_ * distance)
    throw ConfigError(file_, "step",
                      "goes back from " + short_number(most_) + " to " + short_number(*number) +
                          ": the log holds several runs",
                      "give each run's part as a file of its own");
  if (!seen_.insert(*number).second) return false;
  if (seen_.size() == 1)
    most_ = before_ = *number;
  else if (*number > most_)
    before_ = std::exchange(most_, *number);
  return true;
}

void StepPace::add(const std::string& line, std::optional<double> number, std::optional<double> consumed,
                   double seconds, SecondNumbers& to) {
  const std::optional<double> clock = logs::clock_in(line);
  const double steps = number && number_ ? *number - *number_ : 0;
  if (steps > 0 && clock && clock_ && *clock >= *clock_) {
    const double wall = *clock - *clock_, claimed = steps * seconds;
    to.least_wall = std::min(to.least_wall.value_or(wall / claimed), wall / claimed);
    if (wall > 0) to.wall_s += wall, to.claimed_s += claimed;
    ++to.intervals;
  }
  if (steps > 0 && consumed && consumed_ && *consumed > *consumed_)
    to.batches.push_back((*consumed - *consumed_) / steps);
  number_ = number, clock_ = clock, consumed_ = consumed;
}

void add_rates(const logs::Quantities& q, SecondNumbers& to) {
  const auto take = [](std::vector<double>& into, const std::optional<double>& v) {
    if (v && *v > 0) into.push_back(*v);
  };
  take(to.samples_s, q[logs::LogQuantity::samples_per_s]);
  take(to.tokens_gpu_s, q[logs::LogQuantity::tokens_per_gpu_s]);
  take(to.tflops_gpu, q[logs::LogQuantity::tflops_per_gpu]);
}

void refuse_disagreement(const std::string& file, const std::string& key, double printed, double computed,
                         const std::string& of, double factor) {
  if (!(printed > 0 && computed > 0 && std::isfinite(computed))) return;
  if (printed <= factor * computed && computed <= factor * printed) return;
  throw ConfigError(
      file, key, "is " + short_number(printed) + " in the log, and " + of + " make " + short_number(computed),
      "check the log's units, and that a configuration is of this run");
}

void check_second_numbers(LoggedRun& r) {
  const double s = r.seconds(), batch = r.number("global_batch"), seq = r.number("seq_len");
  const double gpus = r.number("gpus");
  const std::string time = " s a step";
  const std::string samples = short_number(batch) + " samples in " + short_number(s) + time;
  refuse_disagreement(r.file, "samples per second", typical(r.second.samples_s), batch / s, samples,
                      kRateFactor);
  refuse_disagreement(
      r.file, "tokens per second of a GPU", typical(r.second.tokens_gpu_s), batch * seq / (gpus * s),
      samples + " of " + short_number(seq) + " tokens on " + short_number(gpus) + " GPUs", kRateFactor);
  refuse_disagreement(r.file, "TFLOP/s of a GPU", typical(r.second.tflops_gpu),
                      1e-12 * flops_of(r) / (gpus * s),
                      samples + " of this net on " + short_number(gpus) + " GPUs", kFlopsFactor);
  refuse_disagreement(r.file, "consumed samples", typical(r.second.batches), batch,
                      "the steps' global batches", 1.01);
  check_clock(r);
}

}  // namespace isobar::foreign
