#include "bench/guest/guest_log.h"

#include <algorithm>
#include <cmath>

#include "bench/logs/output_reader.h"
#include "model/base/error.h"
#include "model/base/step_stats.h"
#include "model/base/system/files.h"
#include "model/engine/host/host.h"

namespace isobar::guest {
namespace {

const RunSpec& with_folder(const RunSpec& spec) {
  if (spec.run.out.empty())
    throw ConfigError(spec.file, "run.out", "is empty, and the records of another program need a folder",
                      "add --set run.out=runs/first");
  return spec;
}

}  // namespace

GuestLog::GuestLog(const RunSpec& spec, bool resume) : spec_(with_folder(spec)), dir_(spec.run.out) {
  if (!resume) dir_.claim("");
  log_ = engine::ResultLog(spec.run.out);
  write_atomically(std::filesystem::path(spec.run.out) / "spec.json", to_json(spec).dump(1) + "\n");
}

records::StartRecord GuestLog::begin(const nlohmann::json& about, int64_t ranks_on_host, bool resumed) {
  nlohmann::json all = engine::provenance();
  all.update(about);
  const records::StartRecord start{.time_utc = engine::utc_now(),
                                   .resumed = resumed,
                                   .spec = to_json(spec_),
                                   .ranks = spec_.layout.world(),
                                   .ranks_on_host = ranks_on_host,
                                   .threads = std::max<int64_t>(1, spec_.run.threads),
                                   .provenance = all};
  log_.write(start);
  return start;
}

void GuestLog::step(const records::StepRecord& step) {
  if (step.loss) loss_ = step.loss;
  seconds_.push_back(step.seconds);
  log_.write_step(step);
}

records::EndRecord GuestLog::failed(records::RunClass c, const std::string& message) const {
  return {.status = "failed", .failure = records::name_of(c), .message = message};
}

records::EndRecord GuestLog::complete(int64_t last_step) const {
  if (loss_ && !std::isfinite(*loss_))
    return failed(records::RunClass::numeric,
                  "the loss is not a number after step " + std::to_string(last_step));
  const auto begin = seconds_.begin() + static_cast<std::ptrdiff_t>(logs::warm_up(seconds_).steps);
  const StepStats stats = step_stats({begin, seconds_.end()});
  return {.status = "ok",
          .steps = last_step,
          .step_s = stats,
          .samples_per_s = static_cast<double>(spec_.train.global_batch) / stats.of(kStatistic),
          .final_loss = loss_};
}

}  // namespace isobar::guest
