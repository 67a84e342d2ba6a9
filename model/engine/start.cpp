#include "model/engine/start.h"

#include "model/base/error.h"
#include "model/engine/result_log.h"

namespace isobar {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// End record of a completed training. If it was killed before it wrote one, the record is made here.
EndRecord end_of(const RunDir& dir, const Resume& resume, const RunSpec& spec) {
  if (const auto ended = dir.ended()) return *ended;
  EndRecord end{.status = "ok",
                .steps = resume.state.train.step,
                .trained_steps = 0,
                .checkpoint = resume.from.string()};
  if (const std::string& why = resume.state.train.early.reason; !why.empty()) end.stopped = why;
  ResultLog(spec.run.out).write(end);
  return end;
}

Start of_first_rank(const RunSpec& spec, const fs::path& resume) {
  Start s;
  s.dir.emplace(spec.run.out);
  if (!resume.empty()) s.resume = check_resume(resume, spec);
  s.dir->claim(s.resume ? s.resume->from : "");
  if (!s.resume) return s;
  const int64_t step = s.resume->state.train.step;
  const bool ended_early = !s.resume->state.train.early.reason.empty() && may_stop_early(spec.train);
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
  return s;
}

}  // namespace

Start start_of(const RunSpec& spec, const fs::path& resume, const Mpi& mpi) {
  Start s;
  if (mpi.rank() == 0) s = of_first_rank(spec, resume);
  const json answer = json::parse(
      mpi.from_first(json{{"over", s.over}, {"from", s.resume ? s.resume->from.string() : ""}}.dump()));
  s.over = answer["over"];
  if (const std::string from = answer["from"]; mpi.rank() != 0 && !from.empty())
    s.resume = Resume{from, {}, {}};
  return s;
}

void check_start(const RunSpec& spec, const fs::path& resume) {
  RunDir dir(spec.run.out);
  dir.claim(resume.empty() ? "" : check_resume(resume, spec).from);
}

}  // namespace isobar
