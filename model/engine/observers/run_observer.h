// The moments of a training that others watch: what logs, traces, saves, validates, stops early and prints
// are observers, so that the loop itself only computes (Trainer::run).
//
//   class StepTable : public RunObserver { void on_step(const StepResult& r) override { … } };
//   RunObservers all;
//   all.add(step_table(observed));            // observers.h: all of them, in their order
//   all.on_step(result);                      // each in turn
#pragma once
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "model/engine/validation/validation.h"
#include "model/records/records.h"

namespace isobar::engine {

struct StepResult {
  records::StepRecord record;        // its step counts from 1
  double error = 0;                  // of the net's metric (errors_of), first channel
  int64_t begin_ns = 0, end_ns = 0;  // by now_ns()
  bool ops_timed = false;            // the runner or a trace of the device timed its ops
};

class RunObserver {
 public:
  virtual ~RunObserver() = default;
  /// The net has its first values; no step has begun.
  virtual void on_start() {}
  /// `step` counts from 0; `restarts`: RunProgress::restarts_statistics().
  virtual void on_step_begin(int64_t /*step*/, bool /*restarts*/) {}
  /// The step's numbers are read and finite, and it counts as done.
  virtual void on_step(const StepResult&) {}
  /// A validation or a checkpoint begins: what follows until the next step is no training.
  virtual void on_pause() {}
  /// `pass` has the text and the picture of this validation.
  virtual void on_valid(const records::ValidRecord&, Validation& /*pass*/) {}
  /// An epoch has ended; after the validation of its last step.
  virtual void on_epoch(const records::EpochRecord&) {}
  virtual void on_checkpoint(const records::CheckpointRecord&) {}
  virtual void on_ranks(const records::RanksRecord&) {}
  /// A signal ends the run after the steps done; on_end is not called.
  virtual void on_stop() {}
  /// The last step is done; observers complete the record.
  virtual void on_end(records::EndRecord&) {}
};

/// Calls all observers, in the order in which they were added.
class RunObservers : public RunObserver {
 public:
  void add(std::unique_ptr<RunObserver> observer) { all_.push_back(std::move(observer)); }

  void on_start() override {
    for (const auto& o : all_) o->on_start();
  }
  void on_step_begin(int64_t step, bool restarts) override {
    for (const auto& o : all_) o->on_step_begin(step, restarts);
  }
  void on_step(const StepResult& result) override {
    for (const auto& o : all_) o->on_step(result);
  }
  void on_pause() override {
    for (const auto& o : all_) o->on_pause();
  }
  void on_valid(const records::ValidRecord& record, Validation& pass) override {
    for (const auto& o : all_) o->on_valid(record, pass);
  }
  void on_epoch(const records::EpochRecord& record) override {
    for (const auto& o : all_) o->on_epoch(record);
  }
  void on_checkpoint(const records::CheckpointRecord& record) override {
    for (const auto& o : all_) o->on_checkpoint(record);
  }
  void on_ranks(const records::RanksRecord& record) override {
    for (const auto& o : all_) o->on_ranks(record);
  }
  void on_stop() override {
    for (const auto& o : all_) o->on_stop();
  }
  void on_end(records::EndRecord& end) override {
    for (const auto& o : all_) o->on_end(end);
  }

 private:
  std::vector<std::unique_ptr<RunObserver>> all_;
};

}  // namespace isobar::engine
