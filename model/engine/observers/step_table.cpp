#include <cstdio>

#include "model/engine/executor.h"
#include "model/engine/observers/observers.h"
#include "model/engine/output/run_text.h"
#include "model/nets/build.h"

namespace isobar::engine {
namespace {

class StepTable : public RunObserver {
 public:
  explicit StepTable(const Observed& o)
      : o_(o),
        words_(of_words(o.plan)),
        flops_of_rank_(words_ || o.run.options.peak_flops > 0
                           ? nets::model_flops(o.run.spec) / static_cast<double>(o.run.spec.layout.world())
                           : 0) {}

  void on_step_begin(int64_t, bool) override {
    if (begun_ns_ == 0) begun_ns_ = now_ns();
  }
  void on_step(const StepResult& r) override {
    const TrainSpec& t = o_.run.spec.train;
    const records::StepRecord& s = r.record;
    if (s.step % t.log_every != 0 && s.step != t.steps) return;
    const double spent =
        static_cast<double>(r.end_ns - begun_ns_) * 1e-9 / static_cast<double>(s.step - o_.progress.first);
    char line[256];
    std::snprintf(
        line, sizeof line,
        "step %6ld/%ld  loss %.5f  %s %.5f  lr %.3e  |g| %.3f  %8.2f ms  %8.2f %s/s%s  %5.0f s left", s.step,
        t.steps, *s.loss, error_name(o_.plan).c_str(), r.error, *s.lr, *s.grad_norm, s.seconds * 1e3,
        words_ ? s.samples_per_s * static_cast<double>(o_.run.spec.net.tokens()) : s.samples_per_s,
        words_ ? "tokens" : "samples", flops_text(s.seconds).c_str(),
        spent * static_cast<double>(t.steps - s.step));
    o_.run.say(line);
  }
  void on_valid(const records::ValidRecord&, Validation& pass) override { o_.run.say(pass.text()); }
  void on_epoch(const records::EpochRecord& e) override {
    const TrainSpec& t = o_.run.spec.train;
    char line[256];
    int n = std::snprintf(line, sizeof line, "epoch %5ld%s  %ld steps  %.4g s  %.2f samples/s  loss %.5f",
                          e.epoch, t.epochs > 0 ? ("/" + std::to_string(t.epochs)).c_str() : "", e.steps,
                          e.seconds, e.samples_per_s, *e.loss);
    if (e.valid_loss)
      std::snprintf(line + n, sizeof line - static_cast<size_t>(n), "  valid loss %.5f in %.4g s",
                    *e.valid_loss, *e.valid_seconds);
    o_.run.say(line);
  }
  void on_ranks(const records::RanksRecord& record) override {
    if (const std::string text = record.text(); !text.empty())
      o_.run.say("ranks after step " + std::to_string(record.step) + ": " + text);
  }
  void on_end(records::EndRecord& end) override { o_.run.say("\n" + summary_text(o_.run.spec, end)); }

 private:
  // "  0.152 TFLOP/s  MFU 43.1 %": model FLOPs of a rank, and their share of its peak where that is known
  std::string flops_text(double seconds) const {
    if (flops_of_rank_ == 0) return "";
    const double rate = flops_of_rank_ / seconds, peak = o_.run.options.peak_flops;
    char text[64];
    const int n = std::snprintf(text, sizeof text, "  %.4g TFLOP/s", 1e-12 * rate);
    if (peak > 0)
      std::snprintf(text + n, sizeof text - static_cast<size_t>(n), "  MFU %.1f %%", 100 * rate / peak);
    return text;
  }

  const Observed o_;
  const bool words_;
  const double flops_of_rank_;  // model FLOPs of a step; 0: not printed
  int64_t begun_ns_ = 0;        // of the first step
};

}  // namespace

std::unique_ptr<RunObserver> step_table(const Observed& o) {
  return std::make_unique<StepTable>(o);
}

}  // namespace isobar::engine
