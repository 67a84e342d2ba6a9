#include "model/base/text/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace isobar {
namespace {

std::string duration(double seconds) {
  const auto s = std::lround(seconds);
  char text[32];
  if (s >= 3600)
    std::snprintf(text, sizeof text, "%ldh%02ldm", s / 3600, s / 60 % 60);
  else
    std::snprintf(text, sizeof text, "%ldm%02lds", s / 60, s % 60);
  return text;
}

}  // namespace

Progress::Progress(std::string title, int64_t total, bool enabled, std::chrono::milliseconds silent)
    : title_(std::move(title)),
      total_(total),
      enabled_(enabled),
      tty_(::isatty(STDERR_FILENO) == 1),
      silent_(silent),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

Progress::~Progress() {
  finish();
}

void Progress::update(int64_t done, const std::string& note) {
  done_ = done;
  const auto now = std::chrono::steady_clock::now();
  const auto pause = tty_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10000);
  if (!enabled_ || !open_ || now - last_ < pause || now - start_ < silent_) return;
  last_ = now;
  draw(done, note);
}

void Progress::draw(int64_t done, const std::string& note) {
  const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const double share =
      total_ > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total_), 0.0, 1.0) : 0;
  const std::string left = share > 0 ? duration(spent * (1 - share) / share) + " left" : "estimating";
  const int width = 28, full = static_cast<int>(share * width);
  const std::string bar = std::string(full, '#') + std::string(width - full, '.');
  std::fprintf(stderr, "%s%s [%s] %ld/%ld  %s  %s%s", tty_ ? "\r\033[K" : "", title_.c_str(), bar.c_str(),
               done, total_, left.c_str(), note.c_str(), tty_ ? "" : "\n");
  std::fflush(stderr);
}

void Progress::finish() {
  if (!open_) return;
  open_ = false;
  if (!enabled_ || std::chrono::steady_clock::now() - start_ < silent_) return;
  const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  std::fprintf(stderr, "%s%s: %ld/%ld in %s\n", tty_ ? "\r\033[K" : "", title_.c_str(), done_, total_,
               duration(spent).c_str());
}

}  // namespace isobar
