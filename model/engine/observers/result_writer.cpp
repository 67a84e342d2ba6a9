#include "model/engine/host/host.h"
#include "model/engine/observers/observers.h"

namespace isobar::engine {
namespace {

class ResultWriter : public RunObserver {
 public:
  explicit ResultWriter(const Observed& o) : log_(o.run.log), processor_(o.processor) {}

  void on_step(const StepResult& r) override {
    if (!log_.on()) return;
    records::StepRecord record = r.record;
    record.rss_bytes = resident_bytes();
    log_.write_step(record);
  }
  void on_valid(const records::ValidRecord& record, Validation&) override { log_.write(record); }
  void on_epoch(const records::EpochRecord& record) override { log_.write(record); }
  void on_checkpoint(const records::CheckpointRecord& record) override { log_.write(record); }
  void on_ranks(const records::RanksRecord& record) override { log_.write(record); }
  void on_end(records::EndRecord& end) override {
    // Again, with memory allocated since the start
    if (const auto about = processor_.describe(); !about.is_null()) log_.write(records::DeviceRecord{about});
    log_.write(end);
  }

 private:
  ResultLog log_;
  const Processor& processor_;
};

}  // namespace

std::unique_ptr<RunObserver> result_writer(const Observed& o) {
  return std::make_unique<ResultWriter>(o);
}

}  // namespace isobar::engine
