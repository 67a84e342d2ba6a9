// Names of run directories: run.out may hold {name} and, in its last part, {n}, the next free number.
//
//   require_pattern(spec);                                  // refuses other braces
//   RunFolder folder(spec.run.out, "vit-tiny", false);      // runs/{name}-{n}: makes runs/vit-tiny-3
//   a.set.push_back("run.out=" + folder.path());
#pragma once
#include <filesystem>
#include <string>

#include "model/base/spec/spec.h"

namespace isobar::cli {

bool names_a_pattern(const std::string& out);
/// Throws ConfigError where run.out is a pattern that names no directory.
void require_pattern(const RunSpec& spec);

/// Makes the directory of a new run, which no other process then takes; removes it again if it stays empty.
class RunFolder {
 public:
  /// `beside`: out names no pattern, and if it exists, out-2, out-3, … is taken.
  RunFolder(const std::string& out, const std::string& name, bool beside);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The run directory that `--resume` means: itself, or that of a checkpoint.
std::string run_resumed(const std::string& resume);

}  // namespace isobar::cli
