#include "model/engine/result_log.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "model/base/error.h"
#include "model/base/shared_files.h"

namespace isobar {
namespace {

constexpr const char* kWriting = "writing result.jsonl";

std::string class_in(const nlohmann::json& end) {
  const auto own = end.find("class");
  return own != end.end() && own->is_string() ? own->get<std::string>() : "ok";
}

// The class of the run_end that stands in the file since the last run_start; "": none does.
std::string ended_as(const std::filesystem::path& file) {
  constexpr int64_t kTail = 4 << 20;  // a run_end is the last line, or one of the last
  std::istringstream in(read_end(file, kTail));
  std::string found;
  for (std::string line; std::getline(in, line);) {
    if (line.find("\"run_start\"") == std::string::npos && line.find("\"run_end\"") == std::string::npos)
      continue;
    const nlohmann::json j = parse_json(line);
    if (!j.is_object() || !j.contains("event")) continue;
    if (j["event"] == "run_start") found.clear();
    if (j["event"] == "run_end") found = class_in(j);
  }
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

void ResultLog::write(const nlohmann::json& event) {
  const SlowWork::Part part(slow_, kWriting);
  if (on()) append_line(dir_ / "result.jsonl", event.dump());
}

void ResultLog::end(const nlohmann::json& event, bool better) {
  if (!on()) return;
  const std::string standing = ended_as(dir_ / "result.jsonl");
  if (standing.empty() || (better && standing == "interrupted")) write(event);
}

void ResultLog::write_step(const nlohmann::json& event) {
  if (!on()) return;
  const SlowWork::Part part(slow_, kWriting);
  std::ofstream out(dir_ / "result.jsonl", std::ios::app);
  out << event.dump() + "\n" << std::flush;
  if (!out) throw std::runtime_error("cannot write " + (dir_ / "result.jsonl").string());
}

void ResultLog::heartbeat() {
  // Its time alone, where it is there already: that waits for no data on their way to a slow disk.
  if (on() && ::utimensat(AT_FDCWD, (dir_ / "heartbeat").c_str(), nullptr, 0) != 0)
    std::ofstream(dir_ / "heartbeat") << "\n";
}

}  // namespace isobar
