// What a training starts from: run.out, owned and free for it, and the checkpoint that it resumes, checked.
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
  std::optional<RunDir> dir;     // on rank 0, for as long as the training lasts
  std::optional<Resume> resume;  // on rank 0 all of it, elsewhere the checkpoint's path
  bool over = false;             // nothing is left to train …
  EndRecord end;                 // … and this is how it ended, on rank 0
};

/// Collective. Rank 0 looks for all: what it finds wrong is one error (ConfigError), and no other rank
/// touches the directory before it is found right. `resume`: as --resume names it; "": starts anew.
Start start_of(const RunSpec& spec, const std::filesystem::path& resume, const Mpi& mpi);
/// What start_of() would refuse, for a process that only starts the ranks. Throws ConfigError.
void check_start(const RunSpec& spec, const std::filesystem::path& resume);

}  // namespace isobar
