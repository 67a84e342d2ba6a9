#include "model/engine/result_log.h"

#include <fstream>

#include "model/base/error.h"
#include "model/base/files.h"

namespace isobar {

ResultLog::ResultLog(const std::filesystem::path& run_dir) : dir_(run_dir) {
  std::error_code error;
  std::filesystem::create_directories(dir_, error);
  if (error)
    throw ConfigError(dir_.string(), "run.out", "cannot be made: " + error.message(),
                      "name another directory");
}

void ResultLog::write(const nlohmann::json& event) {
  if (on()) append_line(dir_ / "result.jsonl", event.dump());
}

void ResultLog::write_step(const nlohmann::json& event) {
  if (!on()) return;
  std::ofstream out(dir_ / "result.jsonl", std::ios::app);
  out << event.dump() + "\n" << std::flush;
  if (!out) throw std::runtime_error("cannot write " + (dir_ / "result.jsonl").string());
}

void ResultLog::heartbeat() {
  if (on()) std::ofstream(dir_ / "heartbeat") << "\n";
}

}  // namespace isobar
