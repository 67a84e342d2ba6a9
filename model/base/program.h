// Other programs that a command runs, and the files that it brings along for them.
//
//   const fs::path script = file_of_program("reports/render.py", __FILE__);
//   std::string output;
//   if (run_program({"python3", script.string(), "a.ckpt"}, &output) != 0) …
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace isobar {

/// Runs a program without a shell. Returns its exit code, 127 when it does not start, 128 + the signal that
/// ended it; what it printed goes to `output`.
int run_program(const std::vector<std::string>& argv, std::string* output);

/// A file of the source tree by its place there: beside the program's build directory, for a tree that was
/// moved after the build, or where it was installed; else in the folder of `source`, a file of the same
/// folder. "": nowhere.
std::filesystem::path file_of_program(const std::filesystem::path& file, const std::filesystem::path& source);

}  // namespace isobar
