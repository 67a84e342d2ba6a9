// A command line with options of other software, as isobar would be given it
// (model/base/names/other_names.h).
//
//   isobar train vit-384 --amp_mode=fp16 --devices 2 --batch_size 8
//   → isobar train vit-384 --set policy.amp=fp16 --set train.global_batch=16 --ranks 2
#pragma once
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace isobar::cli {

struct TranslatedLine {
  std::string line;                // "isobar train …"
  std::vector<std::string> names;  // options that are not ours
  std::vector<std::string> notes;  // "--enable_jit: nothing to set: …"
};

/// `words`: those behind the command's name. Unset where the command takes no keys, has no unknown option, or
/// one that no table knows.
std::optional<TranslatedLine> translated(const std::string& name, const CLI::App& command,
                                         const std::vector<std::string>& words);

}  // namespace isobar::cli
