// What each rank of a training writes, and where it goes: a program or a person tells by every line which
// rank said it, on which host.
//
//   begin_rank_output("all", 3, "");          // before MPI and threads: "[rank 3 node7] step 1/6 …"
//   begin_rank_output("files", 3, "runs/x");  // runs/x/ranks/rank-0003.log, once keep_rank_output() was
//   called … return end_rank_output(code);             // what is under way has arrived
//
// Lines go through a pipe to a process of their own, which outlives the rank: a crash or an abort loses none
// that was written. Libraries' lines are tagged like ours.
#pragma once
#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

namespace isobar {

/// `first`: only rank 0 talks, and others when they fail; nothing is tagged. `all`: every rank tells its
/// steps, every line is tagged. `files`: every rank tells its steps into a file of its own below the run's
/// folder; rank 0's lines appear as ever, others' errors tagged.
/// `folder`: how help names the place of the files.
void add_rank_output_option(CLI::App& command, std::string& how, const std::string& folder);

/// Tags and sends on all that this process writes from now on. Not with `first`. Call it once.
void begin_rank_output(const std::string& how, int rank, const std::filesystem::path& run_dir);
/// With `files`: the folder is this training's, and the file may be made. Throws ConfigError when it cannot.
void keep_rank_output();
/// Waits (some seconds at the most) until what was written so far has been taken: before an abort.
void settle_rank_output();
/// Closes standard output and error and waits for their last lines. Returns `code`, or 1 where that is 0 and
/// lines could not be written.
int end_rank_output(int code);

}  // namespace isobar
