// Output of each rank of a training, with every line marked by rank and host.
//
//   begin_rank_output("all", 3, "");          // before MPI and threads: "[rank 3 node7] step 1/6 …"
//   begin_rank_output("files", 3, "runs/x");  // runs/x/ranks/rank-0003.log, after keep_rank_output()
//   return end_rank_output(code);             // all output has arrived
//
// Lines go through a pipe to a separate process, which outlives the rank: a crash or an abort loses no line
// that was written. Lines of libraries are tagged like ours.
#pragma once
#include <filesystem>
#include <string>

namespace isobar::ranks {

/// Tags and forwards all output of this process from now on; to be called once. `how` is "all": every rank
/// prints its steps, every line is tagged. "files": every rank prints its steps into a file below the run's
/// folder; rank 0's lines also appear on the console, others' errors tagged. "first": nothing is done.
void begin_rank_output(const std::string& how, int rank, const std::filesystem::path& run_dir);
/// With `files`: allows the file, once the folder is known to be this training's. Throws ConfigError when it
/// cannot be made.
void keep_rank_output();
/// Waits (some seconds at most) until the output so far has been taken; for use before an abort.
void settle_rank_output();
/// Closes standard output and error and waits for their last lines. Returns `code`, or 1 where that is 0 and
/// lines could not be written.
int end_rank_output(int code);

}  // namespace isobar::ranks
