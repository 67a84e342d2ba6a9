#include "model/engine/train.h"

#include <algorithm>
#include <cstdio>
#include <new>
#include <optional>
#include <system_error>

#include "model/base/error.h"
#include "model/data/choice/sample_order.h"
#include "model/engine/host/host.h"
#include "model/engine/host/mpi_meeting.h"
#include "model/engine/liveness/start.h"
#include "model/engine/train_context.h"
#include "model/engine/trainer.h"
#include "model/inference/arena.h"
#include "model/nets/build.h"

namespace isobar::engine {
namespace {

void require_ranks(const RunSpec& spec, const comm::Mpi& mpi) {
  if (spec.layout.world() != mpi.size())
    throw ConfigError(spec.file, "layout",
                      "dp*tp*cp*pp = " + std::to_string(spec.layout.world()) + ", but the run has " +
                          std::to_string(mpi.size()) + " ranks",
                      "start it with --ranks " + std::to_string(spec.layout.world()));
}

/// Parts of a training, in the order in which they come to be. A failure is reported while all of it exists:
/// communicators are aborted and buffers freed afterwards, which may never return on a hanging device.
struct Held {
  RunSpec spec;
  Start start = {};
  std::optional<Background> background = {};
  std::optional<Starting> starting = {};
  std::optional<TrainContext> run = {};
  std::optional<Trainer> trainer = {};
};

/// Device, micro-batch and the opened checkpoint: what is chosen or checked before anything is planned.
/// False: nothing is left to train, as an earlier checkpoint says where the last one was damaged.
bool prepare(Held& h, const ResumeWish& wish, const TrainOptions& options, const comm::Mpi& mpi) {
  const int threads = threads_per_rank(h.spec, mpi);
  SlowWork& slow = h.background->slow();
  h.starting->stage("looking for the device");
  const ComputeDevice device = choose_device(h.spec, mpi.rank_on_host());
  h.starting->stage("planning");
  const nets::MicroBatchChoice micro_batch = choose_micro_batch(device, h.spec, mpi);
  h.spec.policy.micro_batch = micro_batch.spec.policy.micro_batch;
  open_resumed(h.start, h.spec, wish, mpi, meeting_of(mpi, threads, &slow));
  if (h.start.over) return false;
  Resume* const resume = h.start.resume ? &*h.start.resume : nullptr;
  if (resume && mpi.rank() == 0) compare_again(*resume, h.spec);
  if (mpi.rank() == 0) nets::check_world(h.spec, workspace_of(device, h.spec, threads));
  ResultLog log = mpi.rank() == 0 ? log_of(h.spec) : ResultLog();
  log.slow_by(&slow);
  h.run.emplace(TrainContext{h.spec, options, mpi, resume, device, micro_batch.text(), threads, log,
                             *h.background, *h.starting});
  return true;
}

/// Epochs become steps: rank 0 counts the samples for all.
void count_epochs(Held& h, const comm::Mpi& mpi) {
  if (h.spec.train.epochs == 0) return;
  const int64_t mine = mpi.rank() == 0 ? data::with_epochs(h.spec).train.steps : 0;
  h.spec.train.steps = std::stoll(mpi.from_first(std::to_string(mine)));
}

/// Takes run.out and starts what works in the background. False: the training has ended before.
bool start(Held& h, const TrainOptions& options, const comm::Mpi& mpi) {
  require_ranks(h.spec, mpi);
  count_epochs(h, mpi);
  // Before anything that writes into run.out, which may be another training's.
  const ResumeWish wish{options.resume, options.set_aside};
  h.start = start_of(h.spec, wish, mpi);
  if (h.start.over) return false;
  if (options.begins) options.begins();
  h.background.emplace(h.spec, mpi);
  h.starting.emplace(h.background->slow());
  return prepare(h, wish, options, mpi);
}

/// Reports a failure of this rank, in result.jsonl unless another rank did before or run.out may be another
/// training's.
void report(Held& h, const TrainOptions& options, const comm::Mpi& mpi, const std::exception& e) {
  if (options.failed) options.failed(e);
  if (!h.run) return;
  const auto writing = h.background->slow().begin("writing why it failed");
  log_of(h.spec).end({.status = "failed", .failure = class_of(e), .message = e.what(), .rank = mpi.rank()});
}

/// The end that all ranks reach together: the last step, or the one after which a signal stopped them.
records::EndRecord end_together(Held& h, records::EndRecord end) {
  h.trainer.reset();
  const bool stopped = end.failure == "interrupted";
  if (stopped) h.run->log.end(end);
  h.background->leave();
  if (stopped) throw Interrupted(h.background->watchdog().stop_signal(), *end.message);
  return end;
}

/// The end of a training that was complete before: its record.
records::EndRecord known_end(Held& h, bool says) {
  if (h.background) h.background->leave();
  const records::EndRecord& end = h.start.end;
  const std::string why = end.stopped
                              ? "the training has ended: " + *end.stopped
                              : "the training has come to step " + std::to_string(h.spec.train.steps) +
                                    ", its last; to go on, raise train.steps";
  if (says) std::printf("%s: %s\n", h.spec.run.out.c_str(), why.c_str());
  return end;
}

}  // namespace

records::EndRecord train(const RunSpec& given, const TrainOptions& options, const comm::Mpi& mpi) {
  Held held{.spec = given};
  try {
    if (!start(held, options, mpi)) return known_end(held, mpi.rank() == 0 && !options.quiet);
    held.trainer.emplace(*held.run);
    return end_together(held, held.trainer->run());
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& e) {
    report(held, options, mpi, e);
    throw;
  }
}

std::string class_of(const std::exception& e) {
  if (dynamic_cast<const ConfigError*>(&e)) return "bad_config";
  if (const auto* path = dynamic_cast<const std::filesystem::filesystem_error*>(&e))
    if (path->code() == std::errc::filename_too_long) return "bad_config";
  if (dynamic_cast<const NumericFailure*>(&e)) return "numeric";
  if (dynamic_cast<const Interrupted*>(&e)) return "interrupted";
  if (dynamic_cast<const inference::DeviceOutOfMemory*>(&e)) return "oom_device";
  if (dynamic_cast<const inference::OutOfMemory*>(&e) || dynamic_cast<const std::bad_alloc*>(&e))
    return "oom_host";
  if (const auto* system = dynamic_cast<const std::system_error*>(&e))  // as a thread that cannot start
    if (system->code() == std::errc::resource_unavailable_try_again ||
        system->code() == std::errc::not_enough_memory)
      return "oom_host";
  return "crash";
}

int threads_per_rank(const RunSpec& spec, const comm::Mpi& mpi) {
  if (spec.run.threads > 0) return static_cast<int>(spec.run.threads);
  return std::max(1, cores_of(mpi) / mpi.ranks_on_host());
}

}  // namespace isobar::engine
