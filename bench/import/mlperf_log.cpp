// Logs of MLPerf's loggers: one event a line, ":::MLLOG {…}". Only training happens between block_start and
// block_stop, both of which have a count: samples (since 2023), tokens (NeMo's GPT-3 and Llama 3.1 405B), or
// in some logs of version 4.0 steps at the start and samples at the stop. Others print only the time of a
// step (version 5) or the throughput. None describes net or layout.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/import/training_log.h"
#include "bench/logs/forms/json_line.h"
#include "bench/logs/log_text.h"
#include "model/base/error.h"
#include "model/base/text/printed.h"
#include "perfmodel/fitting/statistics.h"

namespace isobar::foreign {
namespace {

using nlohmann::json;

constexpr double kShortestStep_s = 0.02;    // a shorter one comes from tokens taken for samples
constexpr double kThroughputFactor = 1.15;  // its timer omits parts of a block

struct Block {
  double seconds = 0;
  std::optional<double> begin, end;  // counts
  std::vector<double> throughputs;   // printed within the block
  bool samples = false;              // the count's name says samples
};

struct MlperfEvents {
  double batch = 0;
  std::vector<Block> blocks;
  std::vector<double> step_times, throughputs;
  std::vector<double> tracked_at;  // when they were printed, in seconds
  std::set<double> tracked;        // steps; other ranks may print them too
  double evaluated_s = 0;          // within blocks
};

std::string count_text(double v) {
  return printed("%.15g", v);
}

MlperfEvents events_in(const std::string& text, LoggedRun& r) {
  MlperfEvents out;
  std::optional<logs::MlperfEvent> begin;
  std::vector<double> throughputs;
  std::optional<double> evaluates;  // since
  double evaluated = 0;             // of this block
  bool stopped = false;
  for (const std::string& line : logs::log_lines(text)) {
    const std::optional<logs::MlperfEvent> e = logs::mlperf_event(line);
    if (!e) continue;
    const double value = e->value.is_number() ? e->value.get<double>() : 0;
    if (e->key == "global_batch_size" && value > 0) {
      if (out.batch > 0 && out.batch != value)
        throw ConfigError(r.file, "global_batch_size",
                          "is " + count_text(out.batch) + " and then " + count_text(value),
                          "give the log of one run");
      out.batch = value;
    }
    if (e->key == "max_sequence_length" && value > 0) r.set("seq_len", value);
    if (e->key == "run_start" && stopped)
      throw ConfigError(r.file, "run_start", "comes again behind a run_stop: the log holds several runs",
                        "give each run's part as a file of its own");
    stopped = stopped || e->key == "run_stop";
    const auto at_step = logs::number_in(e->metadata, "step");
    const bool again = at_step && !out.tracked.insert(*at_step).second && e->key == "tracked_stats";
    if (const auto v = logs::number_in(e->value, "train_step_time"); v && *v > 0 && !again) {
      out.step_times.push_back(*v);
      out.tracked_at.push_back(e->seconds);
    }
    if (const auto v = logs::number_in(e->value, "throughput"); v && *v > 0) {
      out.throughputs.push_back(*v);
      throughputs.push_back(*v);
    }
    if (e->key == "block_start") begin = e, throughputs.clear(), evaluated = 0, evaluates.reset();
    if (e->key == "eval_start") evaluates = e->seconds;
    if (e->key == "eval_stop" && evaluates) {
      evaluated += e->seconds - *evaluates;
      evaluates.reset();
    }
    if (e->key != "block_stop" || !begin) continue;
    out.evaluated_s += evaluated;
    out.blocks.push_back({e->seconds - begin->seconds - evaluated, logs::mlperf_count(*begin, false),
                          logs::mlperf_count(*e, true), throughputs,
                          logs::number_in(e->metadata, "samples_count").has_value()});
    begin.reset();
  }
  return out;
}

/// Converts starts and stops to one unit. A block starts where the previous one stopped, but some logs count
/// steps at one of them and samples at the other.
void one_unit(std::vector<Block>& blocks, double batch, LoggedRun& r) {
  double ratio = 0;  // of a block's stop to the next start
  for (size_t i = 1; i < blocks.size(); ++i) {
    const auto &before = blocks[i - 1].end, &begin = blocks[i].begin;
    if (!before || !begin || (*before == 0 && *begin == 0)) continue;
    double own = 0;
    for (const double known : {1.0, batch, 1 / batch})
      if (*before == *begin * known || *before / known == *begin) own = own == 0 ? known : own;
    if (own == 0 || (ratio != 0 && ratio != own))
      throw ConfigError(
          r.file, "block_start",
          "counts " + count_text(*begin) + ", and the block before it ended at " + count_text(*before),
          "give the whole log of one run: its counts are of no one unit");
    ratio = own;
  }
  if (ratio == 0 || ratio == 1) return;
  for (Block& b : blocks) {
    auto& steps = ratio > 1 ? b.begin : b.end;
    if (steps) *steps *= batch;
  }
  const char* both =
      ratio > 1 ? "begin in steps and end in samples: begins" : "begin in samples and end in steps: ends";
  r.notes.push_back(std::string("blocks ").append(both).append(" were multiplied by the batch"));
}

/// True when counts are tokens: whole batches of tokens, and too many to be samples even if the log calls
/// them so.
bool counts_tokens(const std::vector<Block>& blocks, double batch, double seq) {
  return seq > 1 && std::all_of(blocks.begin(), blocks.end(), [&](const Block& b) {
           const double counted = *b.end - *b.begin;
           return std::fmod(counted, batch * seq) == 0 &&
                  (!b.samples || b.seconds * batch / counted < kShortestStep_s);
         });
}

/// The printed throughput may be in samples or tokens a second.
void check_throughput(const LoggedRun& r, const Block& b, double samples) {
  if (b.throughputs.empty() || !(b.seconds > 0)) return;
  const double printed = quantile(b.throughputs, 0.5), rate = samples / b.seconds;
  const double seq = r.number("seq_len");
  const auto near = [&](double x) {
    return printed < kThroughputFactor * x && x < kThroughputFactor * printed;
  };
  if (near(rate) || (seq > 0 && near(rate * seq))) return;
  refuse_disagreement(r.file, "throughput", printed, rate,
                      count_text(samples) + " samples in " + count_text(b.seconds) + " s of a block",
                      kThroughputFactor);
}

void take_blocks(std::vector<Block> blocks, double batch, LoggedRun& r) {
  std::erase_if(
      blocks, [](const Block& b) { return !b.begin || !b.end || !(*b.end > *b.begin) || !(b.seconds > 0); });
  if (blocks.empty()) return;
  const double seq = r.number("seq_len");
  const bool tokens = counts_tokens(blocks, batch, seq);
  for (const Block& b : blocks) {
    const double counted = *b.end - *b.begin, samples = tokens ? counted / seq : counted;
    if (std::fmod(samples, batch) != 0)
      throw ConfigError(
          r.file, "block_stop",
          "counts " + count_text(counted) +
              " more than its block_start, which is no whole number of steps of the global batch, " +
              count_text(batch) + (seq > 0 ? ", in samples or tokens" : ", in samples"),
          seq > 0 ? "check that the log is of one run"
                  : "say the sequence's length, by which tokens are counted: --config RUN.yaml");
    if (b.seconds * batch / samples < kShortestStep_s)
      throw ConfigError(r.file, "block_stop",
                        "counts " + count_text(counted) + " in " + count_text(b.seconds) +
                            " s, too many for samples, and they are no whole batches of tokens",
                        "say the sequence's length, by which tokens are counted: --config RUN.yaml");
    check_throughput(r, b, samples);
    r.steps.push_back(b.seconds * batch / samples);
  }
  if (tokens) r.notes.push_back("blocks count tokens: " + count_text(batch * seq) + " are a step");
}

/// Steps of logs without counts in blocks: the printed step times, else times from the throughput.
void take_tracked(const MlperfEvents& e, LoggedRun& r) {
  if (!e.step_times.empty()) {
    r.steps = e.step_times;
    // Between two events is at least one step.
    r.second.wall_s = e.tracked_at.back() - e.tracked_at.front();
    for (size_t i = 1; i < r.steps.size(); ++i) r.second.claimed_s += r.steps[i];
    r.notes.emplace_back("no block counts: the steps' times are those of train_step_time");
    return;
  }
  if (e.throughputs.empty()) return;
  const double seq = r.number("seq_len");
  const bool samples = e.batch / quantile(e.throughputs, 0.5) >= kShortestStep_s;
  if (!samples && seq == 0)
    throw ConfigError(r.file, "throughput", "counts tokens, and no event says how long a sequence is",
                      "say it: --config RUN.yaml");
  for (const double t : e.throughputs) r.steps.push_back(e.batch * (samples ? 1 : seq) / t);
  r.notes.push_back(std::string("no block counts: the steps' times are those of the throughput in ") +
                    (samples ? "samples" : "tokens"));
}

}  // namespace

void read_mlperf_log(const std::string& text, LoggedRun& r) {
  MlperfEvents e = events_in(text, r);
  if (!(e.batch > 0))
    throw ConfigError(r.file, "global_batch_size", "is in no event", "give the whole log of the run");
  r.set("global_batch", e.batch);
  one_unit(e.blocks, e.batch, r);
  take_blocks(e.blocks, e.batch, r);
  if (e.evaluated_s > 0)
    r.notes.push_back("evaluations within blocks, " + count_text(e.evaluated_s) + " s, are left out");
  if (r.steps.empty()) take_tracked(e, r);
  if (r.steps.empty() && !e.blocks.empty())
    throw ConfigError(r.file, "block_start",
                      "has no count of samples or tokens in its metadata, nor has any event "
                      "train_step_time or throughput",
                      "write a row of configs/published by hand: this logger does not count");
  if (!r.steps.empty() && !e.step_times.empty() && e.step_times != r.steps)
    refuse_disagreement(r.file, "train_step_time", quantile(e.step_times, 0.5), quantile(r.steps, 0.5),
                        "the blocks' times and counts", kThroughputFactor);
}

}  // namespace isobar::foreign
