// The lines of result.jsonl, which another process may be writing: a last line that a kill tore apart is
// nothing, and anything else that is no record is a problem, never a failure.
//
//   std::vector<std::string> problems;
//   for_each_record("run/result.jsonl", &problems, [&](const Record& r) { … });
//   for_each_from_end("run/result.jsonl", 1 << 20, [&](const Record& r) { return !ends(r); });
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "model/records/records.h"

namespace isobar {

/// The line of a record, without its end. Text in any encoding becomes UTF-8.
std::string line_of(const Record& r);

/// In order. `problems` may be null. Throws ConfigError for a file that cannot be read, and for none.
void for_each_record(const std::filesystem::path& file, std::vector<std::string>* problems,
                     const std::function<void(const Record&)>& use);

/// Those behind the first `from` bytes, in order, as far as lines are whole. Returns up to where: the next
/// call's `from`. None where there is no file.
int64_t for_each_new(const std::filesystem::path& file, int64_t from,
                     const std::function<void(const Record&)>& use);

/// Those of the file's last `bytes`, newest first, until `use` says false; none where there is no file.
void for_each_from_end(const std::filesystem::path& file, int64_t bytes,
                       const std::function<bool(const Record&)>& use);

}  // namespace isobar
