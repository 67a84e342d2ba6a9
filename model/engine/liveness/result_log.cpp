#include "model/engine/liveness/result_log.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/records/files/result_file.h"

namespace isobar::engine {
namespace {

constexpr const char* kWriting = "writing result.jsonl";

// Failure class of the run_end after the last run_start in the file; "": there is none.
std::string ended_as(const std::filesystem::path& file) {
  constexpr int64_t kTail = 4 << 20;  // run_end is among the last lines
  std::string found;
  records::for_each_from_end(file, kTail, [&](const records::Record& r) {
    const auto* end = std::get_if<records::EndRecord>(&r);
    if (end) found = end->failure.value_or("ok");
    return !end && !std::holds_alternative<records::StartRecord>(r);
  });
  return found;
}

}  // namespace

ResultLog::ResultLog(const std::filesystem::path& run_dir) : dir_(run_dir) {
  std::error_code error;
  std::filesystem::create_directories(dir_, error);
  if (error)
    throw ConfigError(dir_.string(), "run.out", "cannot be made: " + error.message(),
                      "name another directory");
}

void ResultLog::write(const records::Record& record) const {
  const SlowWork::Part part(slow_, kWriting);
  if (on()) append_line(dir_ / "result.jsonl", records::line_of(record));
}

void ResultLog::end(const records::EndRecord& end, bool better) const {
  if (!on()) return;
  const std::string standing = ended_as(dir_ / "result.jsonl");
  if (standing.empty() || (better && standing == "interrupted")) write(end);
}

void ResultLog::write_step(const records::StepRecord& step) const {
  if (!on()) return;
  const SlowWork::Part part(slow_, kWriting);
  std::ofstream out(dir_ / "result.jsonl", std::ios::app);
  out << records::line_of(step) + "\n" << std::flush;
  if (!out) throw std::runtime_error("cannot write " + (dir_ / "result.jsonl").string());
}

void ResultLog::heartbeat() const {
  // Updates only the timestamp of an existing file, which does not wait for data on a slow disk.
  if (on() && ::utimensat(AT_FDCWD, (dir_ / "heartbeat").c_str(), nullptr, 0) != 0)
    std::ofstream(dir_ / "heartbeat") << "\n";
}

}  // namespace isobar::engine
