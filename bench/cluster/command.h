// Runs a short external command (sbatch, squeue, qstat) without a shell, and returns its output.
//
//   const Said s = say({"squeue", "-h", "-o", "%i"}, {.timeout_s = 30});
//   if (s.code != 0) throw std::runtime_error(s.err);
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace isobar::cluster {

struct Said {
  int code = -1;  // exit code; -1: not started, stopped by the time limit, or ended by a signal
  std::string out, err;
};

struct SayOptions {
  std::filesystem::path cwd = {};  // "" = here
  double timeout_s = 60;
  bool outside_job = false;  // without the variables of the Slurm job that this process may be in
};

Said say(const std::vector<std::string>& argv, const SayOptions& options = {});

inline std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// The line by which a command says why it failed: the first with "error" of its errors, else their first,
/// else the last of its output.
std::string reason_in(const Said& said);

/// The last word of the last line with text, where it begins with a digit: the id of a submitted job. Sites
/// greet above it (TACC), and their own sbatch may say "Submitted batch job 12" whatever is asked for.
std::string submitted_id(const std::string& text);

}  // namespace isobar::cluster
