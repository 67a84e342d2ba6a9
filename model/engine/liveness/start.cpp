#include "model/engine/liveness/start.h"

#include "model/base/error.h"
#include "model/engine/liveness/result_log.h"

namespace isobar::engine {
namespace {

namespace fs = std::filesystem;

/// End record of a completed training. If it was killed before it wrote one, the record is made here.
records::EndRecord end_of(const RunDir& dir, const Resume& resume, const RunSpec& spec) {
  if (const auto ended = dir.ended()) return *ended;
  records::EndRecord end{.status = "ok",
                         .steps = resume.state.train.step,
                         .trained_steps = 0,
                         .checkpoint = resume.from.string()};
  if (const std::string& why = resume.state.train.early.reason; !why.empty()) end.stopped = why;
  ResultLog(spec.run.out).write(end);
  return end;
}

bool may_set_aside(const inference::DamagedCheckpoint& e, const RunSpec& spec, const ResumeWish& wish) {
  std::error_code none;
  return wish.sets_aside && !e.checkpoint.empty() && fs::equivalent(wish.from, spec.run.out, none);
}

/// The checkpoint to resume is checked; a damaged one is set aside first where that is wished for and where
/// the directory that it is in is this run's, which is locked.
std::optional<Resume> checked(const RunSpec& spec, const ResumeWish& wish) {
  if (wish.from.empty()) return std::nullopt;
  for (;;) try {
      return check_resume(wish.from, spec);
    } catch (const inference::DamagedCheckpoint& e) {
      if (!may_set_aside(e, spec, wish)) throw;
      inference::set_aside(e.checkpoint, e.what());
    }
}

void find_start(Start& s, const RunSpec& spec, const ResumeWish& wish) {
  if (!s.dir) s.dir.emplace(spec.run.out);
  s.resume = checked(spec, wish);
  s.dir->claim(s.resume ? s.resume->from : "");
  if (!s.resume) return;
  const int64_t step = s.resume->state.train.step;
  const bool ended_early =
      !s.resume->state.train.early.reason.empty() && inference::may_stop_early(spec.train);
  s.over = step == spec.train.steps || ended_early;
  if (ended_early && !s.dir->goes_on())
    throw ConfigError(s.resume->from.string(), "train",
                      "the run ended with it: " + s.resume->state.train.early.reason,
                      "go on without train.early_stopping_patience and train.jacobian_window");
  if (s.over && !s.dir->goes_on())
    throw ConfigError(
        s.resume->from.string(), "train.steps",
        "is " + std::to_string(step) + ", which the checkpoint has come to: nothing is left to train",
        "raise train.steps");
  if (s.over) s.end = end_of(*s.dir, *s.resume, spec);
  if (!s.over && s.dir->goes_on()) s.dir->keep_trace(step);
}

/// Tells every rank what rank 0 has found.
void share(Start& s, const comm::Mpi& mpi) {
  // Not JSON: a path may hold bytes that are no UTF-8.
  const std::string found = mpi.from_first((s.over ? "+" : "-") + (s.resume ? s.resume->from.string() : ""));
  if (mpi.rank() == 0) return;
  s.over = found[0] == '+';
  const std::string from = found.substr(1);
  s.resume = from.empty() ? std::nullopt : std::optional<Resume>(Resume{from, {}, {}});
}

}  // namespace

Start start_of(const RunSpec& spec, const ResumeWish& wish, const comm::Mpi& mpi) {
  Start s;
  if (mpi.rank() == 0) find_start(s, spec, wish);
  share(s, mpi);
  return s;
}

void open_resumed(Start& s, const RunSpec& spec, const ResumeWish& wish, const comm::Mpi& mpi,
                  const inference::Meeting& all) {
  while (s.resume && !s.over) {
    std::optional<inference::DamagedCheckpoint> why;
    s.resume->opened =
        inference::OpenCheckpoint::if_whole(s.resume->from, inference::CheckpointPart::all, all, why);
    if (s.resume->opened) return;
    if (mpi.rank() == 0) {
      if (!may_set_aside(*why, spec, wish)) throw inference::DamagedCheckpoint(*why);
      inference::set_aside(why->checkpoint, why->what());
      find_start(s, spec, wish);
    }
    share(s, mpi);
  }
}

void check_start(const RunSpec& spec, const ResumeWish& wish) {
  RunDir dir(spec.run.out);
  const std::optional<Resume> resume = checked(spec, wish);
  dir.claim(resume ? resume->from : "");
}

}  // namespace isobar::engine
