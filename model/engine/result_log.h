// result.jsonl of one run: the truth that sweeps, fits and reports read. One JSON object a line; rank 0
// writes, the others hold a log without a path that writes nothing.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>

namespace isobar {

class ResultLog {
 public:
  ResultLog() = default;                                     // writes nothing
  explicit ResultLog(const std::filesystem::path& run_dir);  // throws ConfigError when it cannot be written
  void write(const nlohmann::json& event);                   // on disk before it returns
  void write_step(
      const nlohmann::json& event);  // handed to the kernel: survives a kill of the process, costs no sync
  void heartbeat();                  // touches a file, for whoever watches a long silence
  bool on() const { return !dir_.empty(); }

 private:
  std::filesystem::path dir_;
};

}  // namespace isobar
