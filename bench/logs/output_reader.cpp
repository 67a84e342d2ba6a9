#include "bench/logs/output_reader.h"

#include <algorithm>
#include <cmath>

#include "bench/logs/followed_files.h"
#include "bench/logs/log_text.h"
#include "model/base/step_stats.h"
#include "model/base/text/printed.h"

namespace isobar::logs {
namespace {

constexpr double kLongestWait = 0.5;   // seconds for further lines of the newest step
constexpr double kMoment = 0.005;      // seconds in which steps are written that were printed at once
constexpr double kBatchFactor = 1.15;  // of rates and times of a line: both are rounded
constexpr double kClockFactor = 1.5;   // of a rate and our clock, which also counts what lies between steps
constexpr double kWallShare = 0.8;     // of the claimed times the clock has to show, ...
constexpr double kWallSlack_s = 2;     // ... but for lines that come late
constexpr double kOutsideShare = 0.5;  // of the clock's time that goes without saying
constexpr size_t kFewest = 3;          // numbers that make a contradiction
constexpr size_t kFewGrow = 5;         // times that grow, likewise
constexpr double kADate = 1e8;         // seconds since 1970 that a log's clock shows; it may have none

std::string in_short(double v) {
  return printed("%.4g", v);
}

/// True for what is only known once a step is done; the number 0 alone may be that of no step.
bool shows_training(const Quantities& q) {
  using enum LogQuantity;
  return q[loss] || q[seconds] || q[samples_per_s] || q[tokens_per_s] || q[tokens_per_gpu_s] ||
         q[steps_per_s] || q[computed_samples_per_s];
}

std::optional<int64_t> whole(const std::optional<double>& x) {
  return x ? std::optional(static_cast<int64_t>(std::llround(*x))) : std::nullopt;
}

}  // namespace

OutputReader::OutputReader(const OutputOptions& options) : options_(options), numbers_(options.from_zero) {
  for (size_t at = 0; at < options.reads.size();) {
    const size_t end = std::min(options.reads.find('\n', at), options.reads.size());
    const std::string one = options.reads.substr(at, end - at);
    at = end + 1;
    if (one.find_first_not_of(" \t") == std::string::npos || is_file_to_follow(one)) continue;
    for (auto& reader : readers_named(one, options)) readers_.push_back(std::move(reader));
  }
}

bool OutputReader::line(const std::string& text, double now) {
  const std::string whole_line = without_colours(text);
  const std::string_view plain = without_labels(whole_line, Times::taken_off);
  const auto taken = [&](std::string_view one) {
    for (const auto& [name, reader] : readers_)
      if (const auto q = reader(one)) {
        ++read_by_[name];
        numbers(*q, now, name);
        return true;
      }
    return false;
  };
  // "[12] " may be a launcher's label, and the step of a line of one's own.
  return taken(plain) || (plain.size() < whole_line.size() && taken(whole_line));
}

/// The step of a line that counts iterations as well ("iter 16 step 4"): batches whose gradients a step adds
/// up, so that a line's time is that of a part of a step.
std::optional<int64_t> OutputReader::step_beside_iterations(Quantities& q) {
  using enum LogQuantity;
  const double said = *q[step], iteration = *q[micro_step];
  if (last_step_said_ && said < *last_step_said_) steps_of_epochs_ = true;
  if (steps_of_epochs_) return whole(iteration);
  if (last_step_said_ && said > *last_step_said_) {
    if (stepped_) iterations_ = std::round((iteration - stepped_->first) / (said - stepped_->second));
    stepped_ = {iteration, said};
  }
  last_step_said_ = said;
  if (iterations_ > 1 && q[seconds]) *q[seconds] *= iterations_;
  if (iterations_ > 1 && q[steps_per_s]) *q[steps_per_s] /= iterations_;
  if (iterations_ == 0) q[seconds].reset(), q[steps_per_s].reset();
  return said > 0 ? whole(said) : std::nullopt;
}

/// The step, counted on where it begins anew in a further epoch: "Epoch [2/10], Step [100/600]".
double OutputReader::counted_on(const Quantities& q, const std::string& source) {
  using enum LogQuantity;
  const double said = *q[step], epoch_said = q[epoch].value_or(0), all = q[steps_in_all].value_or(-1);
  const auto [at, first] = epochs_of_.try_emplace(source, Epochs{epoch_said, said, said, 0});
  Epochs& e = at->second;
  // A program that prints its first or last step of each epoch alone says it again.
  const bool again = said == e.last && (said == all || (said == 0 && all > 0));
  if (!first && epoch_said > e.epoch && (said < e.last || again)) {
    e.before += all >= e.last ? all : e.last + (e.first == 0 ? 1 : 0);
    anew_ = true;
  }
  if (q[epoch]) e.epoch = std::max(e.epoch, epoch_said);
  e.last = said;
  return e.before + said;
}

std::optional<int64_t> OutputReader::step_of(Quantities& q, const std::string& source) {
  using enum LogQuantity;
  const auto of_step = static_cast<double>(options_.batch);  // samples
  if (q[step] && q[micro_step]) return step_beside_iterations(q);
  if (q[step]) q[step] = counted_on(q, source);
  if (q[step]) return whole(q[step]);
  if (q[consumed_samples] && of_step > 0) return whole(*q[consumed_samples] / of_step);
  if (q[epoch_s] && *q[epoch_s] > 0) {
    const double all = q[samples_per_s].value_or(0) * *q[epoch_s];
    const double steps = q[steps_per_s] ? *q[steps_per_s] * *q[epoch_s] : of_step > 0 ? all / of_step : 0;
    if (steps < 0.5) return std::nullopt;
    q[seconds] = *q[epoch_s] / std::round(steps);
    return std::max<int64_t>(0, newest_) + std::llround(steps);
  }
  epochs_ = epochs_ || (newest_ < 0 && q[epoch] && q[loss] && q[valid_loss]);
  return epochs_ ? whole(q[epoch]) : std::nullopt;
}

void OutputReader::take_valid(const Quantities& q) {
  using enum LogQuantity;
  if (!q[valid_loss] && !q[valid_accuracy]) return;
  if (q[valid_loss] == valid_loss_ && !q[valid_s] && !q[valid_accuracy]) return;  // repeated in each line
  valid_loss_ = q[valid_loss];
  const int64_t at = whole(q[step]).value_or(std::max<int64_t>(0, newest_));
  valid_ =
      records::LastValid{.step = at, .loss = records::or_nan(q[valid_loss]), .accuracy = q[valid_accuracy]};
  out_.emplace_back(records::ValidRecord{
      .step = at, .loss = q[valid_loss], .seconds = q[valid_s].value_or(0), .accuracy = q[valid_accuracy]});
}

void OutputReader::numbers(Quantities q, double now, const std::string& source) {
  using enum LogQuantity;
  if (q[memory_bytes]) peak_bytes_ = std::max(peak_bytes_, *q[memory_bytes]);
  if (q[train_steps_per_s]) run_ = q;
  if (q[loss]) loss_ = q[loss];
  if (q[valid_loss] && !shows_training(q)) {
    // Steps may begin anew in each epoch, or be those of the validation.
    if (q[step] && *q[step] < static_cast<double>(newest_)) q[step].reset();
    return take_valid(q);
  }
  std::optional<int64_t> at = step_of(q, source);
  if (!at) {
    if (q[loss]) pending_loss_ = q[loss];
    if (q[lr]) pending_lr_ = q[lr];
    if (q[grad_norm]) pending_grad_ = q[grad_norm];
    return take_valid(q);
  }
  if (*at > 0 || shows_training(q)) at = numbers_.of(source, *at);
  if (*at < newest_) {
    ++back_;
    return;
  }
  const bool again = *at == newest_;
  if (!again || !waiting_.empty()) {
    if (!q[loss]) q[loss] = std::exchange(pending_loss_, std::nullopt);
    if (!q[lr]) q[lr] = std::exchange(pending_lr_, std::nullopt);
    if (!q[grad_norm]) q[grad_norm] = std::exchange(pending_grad_, std::nullopt);
  }
  if (again) {
    if (!waiting_.empty()) waiting_.back().q.fill_from(q);
  } else {
    newest_ = *at;
    last_at_ = now;
    waiting_.push_back({*at, now, q});
  }
  take_valid(q);
}

std::vector<records::Record> OutputReader::take(double now) {
  while (!waiting_.empty()) {
    // Steps of one moment share the time since the step before.
    size_t n = 1;
    while (n < waiting_.size() && waiting_[n].now - waiting_[0].now < kMoment) ++n;
    if (n == waiting_.size() && !ended_ && now - waiting_[0].now < kLongestWait) break;
    const Waiting& last = waiting_[n - 1];
    const double since = last.now - written_at_;
    const auto steps = static_cast<double>(last.step - written_);
    const std::optional<double> each =
        written_at_ >= 0 && since > 0 ? std::optional(since / steps) : std::nullopt;
    written_at_ = last.now;
    for (; n > 0; --n) {
      write(waiting_.front(), each, out_);
      written_ = waiting_.front().step;
      waiting_.pop_front();
    }
  }
  return std::exchange(out_, {});
}

std::optional<double> OutputReader::seconds_in(const Quantities& q) const {
  using enum LogQuantity;
  const auto of_step = static_cast<double>(options_.batch), tokens = static_cast<double>(options_.tokens);
  if (q[seconds] && *q[seconds] > 0) return q[seconds];
  if (q[steps_per_s] && *q[steps_per_s] > 0) return 1 / *q[steps_per_s];
  if (q[samples_per_s] && *q[samples_per_s] > 0 && of_step > 0) return of_step / *q[samples_per_s];
  if (q[tokens_per_s] && *q[tokens_per_s] > 0 && of_step * tokens > 0)
    return of_step * tokens / *q[tokens_per_s];
  return std::nullopt;
}

/// Collects the samples of a step that two numbers make.
void OutputReader::check(const Quantities& q, std::optional<double> clock_seconds) {
  using enum LogQuantity;
  if (q[batch]) batches_.push_back(*q[batch]);
  if (q[samples_per_s] && q[seconds] && !q[epoch_s]) batches_.push_back(*q[samples_per_s] * *q[seconds]);
  if (q[computed_samples_per_s] && clock_seconds)
    least_batches_.push_back(*q[computed_samples_per_s] * *clock_seconds);
  if (q[tokens_per_gpu_s] && options_.tokens > 0 && (q[seconds] || clock_seconds))
    clock_batches_.push_back(*q[tokens_per_gpu_s] * static_cast<double>(options_.ranks) *
                             q[seconds].value_or(clock_seconds.value_or(0)) /
                             static_cast<double>(options_.tokens));
}

void OutputReader::write(const Waiting& w, std::optional<double> clock_seconds,
                         std::vector<records::Record>& to) {
  using enum LogQuantity;
  const Quantities& q = w.q;
  check(q, clock_seconds);
  const std::optional<double> said = seconds_in(q), took = said ? said : clock_seconds;
  if (!took && !options_.untimed) return;  // the first step of a program that prints no times
  if (written_ < 0) first_at_ = w.now;
  if (said && written_ >= 0) claimed_s_ += *said * static_cast<double>(w.step - written_);
  grown_ += said && !seconds_.empty() && *said > seconds_.back();
  if (took) seconds_.push_back(*took);
  bool skips = q[skipped].value_or(0) > 0;
  if (q[skipped_so_far]) skips = *q[skipped_so_far] > skipped_so_far_, skipped_so_far_ = *q[skipped_so_far];
  to.emplace_back(records::StepRecord{.step = w.step,
                                      .seconds = took.value_or(0),
                                      .samples_per_s = took ? static_cast<double>(options_.batch) / *took : 0,
                                      .epoch = whole(q[epoch]),
                                      .loss = q[loss],
                                      .lr = q[lr],
                                      .grad_norm = q[grad_norm],
                                      .skipped = skips ? std::optional(true) : std::nullopt});
}

namespace {

double middle(const std::vector<double>& v) {
  return quantile(v, 0.5);
}

}  // namespace

std::optional<std::string> OutputReader::contradiction() const {
  using enum LogQuantity;
  const auto batch_of_spec = static_cast<double>(options_.batch);
  const auto wrong = [&](double samples, const std::string& which) {
    return which + " make " + in_short(samples) + " samples a step, and train.global_batch is " +
           in_short(batch_of_spec) + ": set it to what the program trains";
  };
  const auto differs = [&](double samples, double factor) {
    return batch_of_spec > 0 && (samples > factor * batch_of_spec || batch_of_spec > factor * samples);
  };
  if (batches_.size() >= kFewest && differs(middle(batches_), kBatchFactor))
    return wrong(middle(batches_), "its own numbers");
  if (run_ && (*run_)[train_samples_per_s] && *(*run_)[train_steps_per_s] > 0)
    if (const double n = *(*run_)[train_samples_per_s] / *(*run_)[train_steps_per_s];
        differs(n, kBatchFactor))
      return wrong(n, "train_samples_per_second and train_steps_per_second");
  if (clock_batches_.size() >= kFewest && differs(middle(clock_batches_), kClockFactor))
    return wrong(middle(clock_batches_), "its tokens a second and the clock");
  if (least_batches_.size() >= kFewest && batch_of_spec > kClockFactor * middle(least_batches_))
    return wrong(middle(least_batches_), "its samples a second and the clock");
  const bool dated = options_.begun > 0 || first_at_ > kADate;
  if (const double wall = last_at_ - (options_.begun > 0 ? options_.begun : first_at_);
      dated && kWallShare * claimed_s_ > wall + kWallSlack_s)
    return "the steps' times make " + in_short(claimed_s_) + " s together, and " + in_short(wall) +
           " s went by: check their unit in run.reads";
  if (grown_ >= kFewGrow && grown_ + 1 == seconds_.size() && seconds_.back() > 2 * seconds_.front())
    return "the steps' times grow from each to the next, from " + in_short(seconds_.front()) + " to " +
           in_short(seconds_.back()) + " s: they are of the time since the beginning, and none of a step";
  return std::nullopt;
}

OutputSummary OutputReader::summary() const {
  OutputSummary out{.last_step = numbers_.done(newest_),
                    .seconds = seconds_,
                    .loss = loss_,
                    .valid = valid_,
                    .contradiction = contradiction(),
                    .notes = {warm_up(seconds_).text}};
  if (peak_bytes_ > 0) out.peak_bytes = std::llround(peak_bytes_);
  if (anew_)
    out.notes.emplace_back(
        "its steps begin anew with each epoch, and are counted on from the last of the one before, where its "
        "number is said, else from its last line");
  if (iterations_ > 1)
    out.notes.push_back("a step is " + in_short(iterations_) +
                        " of its iterations, and their times are multiplied by it");
  if (epochs_) out.notes.emplace_back("its output names no steps: a step is an epoch here");
  if (const double went_by = last_at_ - first_at_;
      options_.begun > 0 && claimed_s_ > 0 && kOutsideShare * went_by > claimed_s_ + kWallSlack_s)
    out.notes.push_back("from its first step to the last " + in_short(went_by) +
                        " s went by, of which its steps' times make " + in_short(claimed_s_) +
                        " s: the rest, as loading, validation or checkpoints, is in no step here");
  if (back_ > 0)
    out.notes.push_back("left out: " + std::to_string(back_) +
                        " of its lines, whose step is before the newest");
  if (!run_) return out;
  const double steps =
      (*run_)[LogQuantity::train_s].value_or(0) * (*run_)[LogQuantity::train_steps_per_s].value_or(0);
  if (std::abs(steps - static_cast<double>(newest_)) > std::max(2.0, 0.02 * steps))
    out.notes.push_back("train_runtime and train_steps_per_second make " + in_short(steps) +
                        " steps, and the newest read is " + std::to_string(newest_));
  return out;
}

int64_t StepNumbers::of(const std::string& source, int64_t said) {
  const auto [at, first] = sources_.try_emplace(source, Source{said, said, 0});
  Source& s = at->second;
  if (first) {
    if (said == 0) from_zero_.insert(source);
    counts_done_ = counts_done_ || !from_zero_.contains(source);
  } else if (said > s.last) {
    s.stride = s.stride == 0 || s.stride == said - s.last ? said - s.last : -1;
    s.last = said;
  }
  return said + (counts_done_ && from_zero_.contains(source) ? 1 : 0);
}

int64_t StepNumbers::done(int64_t newest) const {
  if (newest < 0 || sources_.empty()) return newest;
  const bool from_zero = std::all_of(sources_.begin(), sources_.end(), [&](const auto& s) {
    return from_zero_.contains(s.first) || ends_strides_from_zero(s.second);
  });
  return newest + (from_zero ? 1 : 0);
}

namespace {

constexpr double kWarmUpFactor = 1.5;

}  // namespace

WarmUp warm_up(const std::vector<double>& seconds) {
  if (seconds.size() < 2) return {0, "no step time is left out as warm-up: there are fewer than 2"};
  const double usual = quantile(seconds, 0.5);
  size_t n = 1;
  while (n + 1 < seconds.size() && seconds[n] > kWarmUpFactor * usual) ++n;
  const std::string all = std::to_string(seconds.size()) + " step times ";
  return {n,
          (n == 1 ? "the first of " + all + "is" : "the first " + std::to_string(n) + " of " + all + "are") +
              " left out as warm-up: the first, and those right behind it above 1.5 medians"};
}

}  // namespace isobar::logs
