#include "model/engine/observers/curves.h"

#include <algorithm>
#include <chrono>

namespace isobar {
namespace {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Curves::Curves(const std::string& run_dir)
    : events_(std::make_unique<EventFile>(run_dir + "/tensorboard", seconds_since_1970())) {}

void Curves::put(int64_t step, const std::string& tag, const std::optional<double>& value) {
  if (value) events_->add(seconds_since_1970(), step, tag, *value);
}

std::string Curves::of(const char* what, size_t channel, const char* part) const {
  const std::string name = channel < targets_.size() ? targets_[channel] : std::to_string(channel);
  return std::string(what) + "(" + name + ")/" + part;
}

void Curves::add(const StepRecord& s) {
  if (!events_) return;
  put(s.step, "Loss/train", s.loss);
  put(s.step, of("RMSE", 0, "train"), s.rmse);
  put(s.step, of("MAE", 0, "train"), s.mae);
  put(s.step, "Accuracy/train", s.accuracy);
  put(s.step, "Learning Rate", s.lr);
  put(s.step, "Gradient norm", s.grad_norm);
  if (s.seconds > 0) put(s.step, "Avg iters per sec", 1 / s.seconds);
  put(s.step, "Avg samples per sec", s.samples_per_s);
}

void Curves::add(const ValidRecord& v) {
  if (!events_) return;
  put(v.step, "Loss/valid", v.loss);
  for (size_t c = 0; c < v.rmse.size(); ++c) put(v.step, of("RMSE", c, "valid"), v.rmse[c]);
  for (size_t c = 0; c < v.mae.size(); ++c) put(v.step, of("MAE", c, "valid"), v.mae[c]);
  put(v.step, "Accuracy/valid", v.accuracy);
}

void Curves::add(const RanksRecord& r, int64_t global_batch) {
  if (!events_ || r.ranks.empty()) return;
  std::optional<double> least, most;
  int64_t bytes = 0;
  for (const RankRecord& rank : r.ranks) {
    bytes = std::max(bytes, rank.rss_bytes);
    if (!rank.compute_s) continue;
    least = std::min(least.value_or(*rank.compute_s), *rank.compute_s);
    most = std::max(most.value_or(0), *rank.compute_s);
  }
  if (least) put(r.step, "Rank compute (ms)/least", 1e3 * *least);
  if (most) put(r.step, "Rank compute (ms)/most", 1e3 * *most);
  put(r.step, "Rank memory (MB)/most", 1e-6 * static_cast<double>(bytes));
  if (!r.joules_per_step) return;
  put(r.step, "Power (W)", *r.joules_per_step / r.ranks[0].step_s);
  put(r.step, "Energy per sample (J)", *r.joules_per_step / static_cast<double>(global_batch));
}

void Curves::add_picture(int64_t step, const std::string& png) {
  if (events_)
    events_->add_picture(seconds_since_1970(), step,
                         "Visualization, " + (targets_.empty() ? std::string("0") : targets_[0]), png);
}

}  // namespace isobar
