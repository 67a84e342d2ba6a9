// Start of a training: acquires run.out and checks the checkpoint to resume from.
//
//   Start start = start_of(spec, {"runs/first"}, mpi);    // on every rank; --resume runs/first
//   if (start.over) return start.end;                     // it had come to its last step
//   open_resumed(start, spec, {"runs/first"}, mpi, all);  // start.resume->opened: every byte is right
#pragma once
#include <filesystem>
#include <optional>

#include "model/comm/comm.h"
#include "model/engine/liveness/resume.h"
#include "model/engine/liveness/run_dir.h"
#include "model/inference/meeting.h"

namespace isobar::engine {

struct Start {
  std::optional<RunDir> dir;     // on rank 0, held while the training lasts
  std::optional<Resume> resume;  // rank 0: complete; others: only the checkpoint's path
  bool over = false;             // training is already complete …
  records::EndRecord end;        // … and ended like this, on rank 0
};

/// The command's words on resuming. `sets_aside`: a damaged last checkpoint of run.out is renamed, and the
/// last whole one resumed, where otherwise the error names that one.
struct ResumeWish {
  std::filesystem::path from;  // a run or a checkpoint; "": starts anew
  bool sets_aside = false;
};

/// Collective. Rank 0 checks for all, so that an error is reported once (ConfigError); the other ranks touch
/// the directory only after it has passed.
Start start_of(const RunSpec& spec, const ResumeWish& wish, const comm::Mpi& mpi);
/// Collective: opens the checkpoint. All ranks verify its bytes, long enough to need the watchdog's
/// supervision.
void open_resumed(Start& start, const RunSpec& spec, const ResumeWish& wish, const comm::Mpi& mpi,
                  const inference::Meeting& all);
/// Throws the ConfigError of start_of(), for a process that only starts the ranks.
void check_start(const RunSpec& spec, const ResumeWish& wish);

}  // namespace isobar::engine
