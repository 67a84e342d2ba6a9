// Other programs that a command runs, and the files that come with this one. Neither is ever taken from the
// working directory: data that somebody else made may lie there, with programs among them.
//
//   const fs::path script = file_of_program("reports/render.py");
//   const ProgramRun run = run_program({"python3", script.string(), "a.ckpt"});
//   if (run.code != 0) throw std::runtime_error(run.err);
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace isobar {

struct ProgramRun {
  int code = 127;  // 127: it did not start; 128 + the signal that ended it
  std::string out, err;
};

/// Runs a program without a shell, found as program_in_path finds it.
ProgramRun run_program(const std::vector<std::string>& argv);

/// The executable of that name in PATH, by its whole path; a name with a slash stands for itself. Empty and
/// relative parts of PATH are passed over, and what everybody may write. "": nowhere.
std::filesystem::path program_in_path(const std::string& name);

/// A file or folder of the program's own tree: beside the program, or beside the folder that it lies in, each
/// of them also under share/isobar. "": nowhere, or `refused` says why what is there is not to be trusted
/// (written or owned by others). ConfigError then, where `refused` is null.
std::filesystem::path file_of_program(const std::filesystem::path& file, std::string* refused = nullptr);

/// The Python that draws: $ISOBAR_REPORT_PYTHON, else .venv-reports of the program's tree, else python3 of
/// PATH. "": none, and `refused` says what the variable or the tree names in vain.
std::filesystem::path drawing_python(std::string* refused);

}  // namespace isobar
