// A progress bar with time left on stderr: redrawn in place on a terminal, a line every 10 s elsewhere.
//
//   Progress bar("sweep", trials.size());
//   bar.update(done, "tp2 bf16");   bar.finish();
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace isobar {

class Progress {
 public:
  /// Nothing is drawn of what ends within `silent`.
  Progress(std::string title, int64_t total, bool enabled = true, std::chrono::milliseconds silent = {});
  ~Progress();
  void update(int64_t done, const std::string& note = "");
  void finish();

 private:
  void draw(int64_t done, const std::string& note);
  std::string title_;
  int64_t total_, done_ = 0;
  bool enabled_, tty_, open_ = true;
  std::chrono::milliseconds silent_;
  std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace isobar
