// Other programs that a command runs, and the files installed with this one. Neither is ever taken from the
// working directory: it may hold foreign data, with programs among them.
//
//   const fs::path script = file_of_program("reports/render.py");
//   const ProgramRun run = run_program({"python3", script.string(), "a.ckpt"});
//   if (run.code != 0) throw std::runtime_error(run.err);
#pragma once
#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

namespace isobar {

struct ProgramRun {
  int code = 127;  // 127: it did not start; 128 + the signal that ended it
  std::string out, err;
};

/// Runs a program without a shell, found as program_in_path finds it. It is killed within a tenth of a second
/// once `unwanted` is true, which another thread may make so.
ProgramRun run_program(const std::vector<std::string>& argv, const std::atomic<bool>* unwanted = nullptr);

/// The absolute path of an executable in PATH, whose empty, relative and world-writable parts are skipped;
/// "": not found. A name with a slash is returned as it is.
std::filesystem::path program_in_path(const std::string& name);

/// The file that starts this program, for children. A wheel's launcher may have started it by a dynamic
/// loader of the wheel's, TREE/lib/glibc/ld-linux…, which the kernel then takes for the program: the launcher
/// is TREE/bin/isobar (bench/site/launcher.sh).
std::filesystem::path own_program();

/// A file or folder of the program's own tree: beside the program, or beside the folder that holds it, each
/// also under share/isobar. "": not found, or `refused` says why it is not trusted (written or owned by
/// others); where `refused` is null, ConfigError is thrown instead.
std::filesystem::path file_of_program(const std::filesystem::path& file, std::string* refused = nullptr);

/// The Python that draws: $ISOBAR_REPORT_PYTHON, else .venv-reports of the program's tree, else python3 of
/// PATH. "": none, and `refused` names the variable or tree that points to nothing.
std::filesystem::path drawing_python(std::string* refused);

}  // namespace isobar
