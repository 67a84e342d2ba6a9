// TensorBoard files of a running training (run.tensorboard) in RUN/tensorboard: the curves of its records
// (records/curves.h); "Visualization, t2m", a validation sample predicted, as it came, and the difference
// (field_picture.h); its hyperparameters. A resumed run adds a file to the same curves.
#include "model/records/curves.h"

#include <chrono>

#include "model/base/error.h"
#include "model/engine/observers/observers.h"
#include "model/records/files/event_file.h"

namespace isobar::engine {
namespace {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class CurveWriter : public RunObserver {
 public:
  CurveWriter(const TrainContext& run, const std::vector<std::string>& channels)
      : curves_(run.spec, channels),
        picture_("Visualization, " + curves_.channel(records::pictured_channel(channels))) {
    if (!run.spec.run.tensorboard) return;
    if (run.spec.run.out.empty())
      throw ConfigError(run.spec.file, "run.tensorboard", "writes into run.out, which is not set",
                        "set run.out, or leave it out");
    if (run.log.on())
      events_ = std::make_unique<records::EventFile>(run.spec.run.out + "/tensorboard", seconds_since_1970(),
                                                     records::hyperparameters(run.spec));
  }

  void on_step(const StepResult& result) override { put(result.record); }

  void on_valid(const records::ValidRecord& v, Validation& pass) override {
    put(v);
    const std::string png = pass.picture();  // collective: on ranks that draw nothing too
    if (events_ && !png.empty()) events_->add_picture(seconds_since_1970(), v.step, picture_, png);
  }

  void on_ranks(const records::RanksRecord& r) override { put(r); }

 private:
  void put(const auto& record) {
    if (!events_) return;
    for (const records::CurvePoint& p : curves_.of(record))
      events_->add(seconds_since_1970(), record.step, p.tag, p.value);
  }

  const records::RunCurves curves_;
  const std::string picture_;                   // its tag
  std::unique_ptr<records::EventFile> events_;  // null: draws nothing
};

}  // namespace

std::unique_ptr<RunObserver> curves(const TrainContext& run, const RankData& data) {
  return std::make_unique<CurveWriter>(run, data.channels().targets);
}

}  // namespace isobar::engine
