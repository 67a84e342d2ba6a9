// TensorBoard curves of a running training (run.tensorboard) in RUN/tensorboard, by optimizer step. Tags are
// those of the NERSC example, so that its runs can be compared in one plot:
//
//   every step: Loss/train, RMSE(u10m)/train, Learning Rate, Avg iters per sec, Avg samples per sec,
//     Gradient norm
//   every validation: Loss/valid, RMSE(u10m)/valid of every channel; "Visualization, u10m": a sample
//     predicted, as it came, and the difference (field_picture.h)
//   with validations, checkpoints and the last step: Rank compute (ms)/least, …/most, Rank memory (MB)/most;
//     Power (W), Energy per sample (J) where they are metered
//
// MAE(name) for scalars, Accuracy for classes. A resumed run adds a file to the same curves.
#include <algorithm>
#include <chrono>

#include "model/base/error.h"
#include "model/engine/observers/observers.h"
#include "model/records/event_file.h"

namespace isobar {
namespace {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class Curves : public RunObserver {
 public:
  Curves(const TrainContext& run, const RankData& data)
      : batch_(run.spec.train.global_batch), targets_(data.channels().targets) {
    if (run.spec.run.tensorboard && run.log.on())
      events_ = std::make_unique<EventFile>(run.spec.run.out + "/tensorboard", seconds_since_1970());
  }

  void on_step(const StepResult& result) override {
    if (!events_) return;
    const StepRecord& s = result.record;
    put(s.step, "Loss/train", s.loss);
    put(s.step, of("RMSE", 0, "train"), s.rmse);
    put(s.step, of("MAE", 0, "train"), s.mae);
    put(s.step, "Accuracy/train", s.accuracy);
    put(s.step, "Learning Rate", s.lr);
    put(s.step, "Gradient norm", s.grad_norm);
    if (s.seconds > 0) put(s.step, "Avg iters per sec", 1 / s.seconds);
    put(s.step, "Avg samples per sec", s.samples_per_s);
  }

  void on_valid(const ValidRecord& v, Validation& pass) override {
    if (events_) {
      put(v.step, "Loss/valid", v.loss);
      for (size_t c = 0; c < v.rmse.size(); ++c) put(v.step, of("RMSE", c, "valid"), v.rmse[c]);
      for (size_t c = 0; c < v.mae.size(); ++c) put(v.step, of("MAE", c, "valid"), v.mae[c]);
      put(v.step, "Accuracy/valid", v.accuracy);
      put(v.step, "Perplexity/valid", v.perplexity);
    }
    const std::string png = pass.picture();  // collective: on ranks that draw nothing too
    if (events_ && !png.empty())
      events_->add_picture(seconds_since_1970(), v.step,
                           "Visualization, " + (targets_.empty() ? std::string("0") : targets_[0]), png);
  }

  void on_ranks(const RanksRecord& r) override {
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
    put(r.step, "Energy per sample (J)", *r.joules_per_step / static_cast<double>(batch_));
  }

 private:
  void put(int64_t step, const std::string& tag, const std::optional<double>& value) {
    if (value) events_->add(seconds_since_1970(), step, tag, *value);
  }
  std::string of(const char* what, size_t channel, const char* part) const {
    const std::string name = channel < targets_.size() ? targets_[channel] : std::to_string(channel);
    return std::string(what) + "(" + name + ")/" + part;
  }

  const int64_t batch_;
  const std::vector<std::string> targets_;  // channel names
  std::unique_ptr<EventFile> events_;       // null: draws nothing
};

}  // namespace

std::unique_ptr<RunObserver> curves(const TrainContext& run, const RankData& data) {
  return std::make_unique<Curves>(run, data);
}

}  // namespace isobar
