// Start of a training: acquires run.out and checks the checkpoint to resume from.
//
//   const Start start = start_of(spec, "runs/first", mpi);    // on every rank; --resume runs/first
//   if (start.over) return start.end;                         // it had come to its last step
#pragma once
#include <filesystem>
#include <optional>

#include "model/comm/comm.h"
#include "model/engine/resume.h"
#include "model/engine/run_dir.h"

namespace isobar {

struct Start {
  std::optional<RunDir> dir;     // on rank 0, held while the training lasts
  std::optional<Resume> resume;  // rank 0: complete; others: only the checkpoint's path
  bool over = false;             // training is already complete …
  EndRecord end;                 // … and ended like this, on rank 0
};

/// Collective. Rank 0 checks everything and raises one error (ConfigError); other ranks touch the directory
/// only afterwards. `resume`: argument of --resume; "": start anew.
Start start_of(const RunSpec& spec, const std::filesystem::path& resume, const Mpi& mpi);
/// The checks of start_of(), for a process that only launches the ranks. Throws ConfigError.
void check_start(const RunSpec& spec, const std::filesystem::path& resume);

}  // namespace isobar
