#include <cstdio>

#include "model/engine/executor.h"
#include "model/engine/observers/observers.h"
#include "model/engine/run_text.h"

namespace isobar {
namespace {

class StepTable : public RunObserver {
 public:
  explicit StepTable(const Observed& o) : o_(o) {}

  void on_step_begin(int64_t, bool) override {
    if (begun_ns_ == 0) begun_ns_ = now_ns();
  }
  void on_step(const StepResult& r) override {
    const TrainSpec& t = o_.run.spec.train;
    const StepRecord& s = r.record;
    if (s.step % t.log_every != 0 && s.step != t.steps) return;
    const double spent =
        static_cast<double>(r.end_ns - begun_ns_) * 1e-9 / static_cast<double>(s.step - o_.progress.first);
    const bool words = of_words(o_.plan);
    char line[192];
    std::snprintf(line, sizeof line,
                  "step %6ld/%ld  loss %.5f  %s %.5f  lr %.3e  |g| %.3f  %8.2f ms  %8.2f %s/s  %5.0f s left",
                  s.step, t.steps, *s.loss, error_name(o_.plan).c_str(), r.error, *s.lr, *s.grad_norm,
                  s.seconds * 1e3,
                  words ? s.samples_per_s * static_cast<double>(o_.run.spec.net.tokens()) : s.samples_per_s,
                  words ? "tokens" : "samples", spent * static_cast<double>(t.steps - s.step));
    o_.run.say(line);
  }
  void on_valid(const ValidRecord&, Validation& pass) override { o_.run.say(pass.text()); }
  void on_ranks(const RanksRecord& record) override {
    if (const std::string text = record.text(); !text.empty())
      o_.run.say("ranks after step " + std::to_string(record.step) + ": " + text);
  }
  void on_end(EndRecord& end) override { o_.run.say("\n" + summary_text(o_.run.spec, end)); }

 private:
  const Observed o_;
  int64_t begun_ns_ = 0;  // of the first step
};

}  // namespace

std::unique_ptr<RunObserver> step_table(const Observed& o) {
  return std::make_unique<StepTable>(o);
}

}  // namespace isobar
