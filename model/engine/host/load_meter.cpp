#include "model/engine/host/load_meter.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace isobar::engine {
namespace {

constexpr std::chrono::milliseconds kReadEvery{500};

}  // namespace

LoadMeter::LoadMeter(Read read) : read_(std::move(read)) {
  if (read_ && read_()) thread_ = std::thread([this] { follow(); });
}

LoadMeter::~LoadMeter() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void LoadMeter::follow() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!over_) {
    changed_.wait(lock, [this] { return over_ || running_; });
    fresh_ = false;
    lock.unlock();
    const std::optional<DeviceLoad> now = read_();
    lock.lock();
    if (now && running_ && !fresh_) {  // neither paused nor reset meanwhile
      ++readings_;
      sum_.busy += now->busy;
      sum_.celsius = std::max(sum_.celsius, now->celsius);
      sum_.pcie_in_bytes_s += now->pcie_in_bytes_s;
      sum_.pcie_out_bytes_s += now->pcie_out_bytes_s;
    }
    changed_.wait_for(lock, kReadEvery, [this] { return over_ || fresh_; });
  }
}

void LoadMeter::reset() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    sum_ = {};
    readings_ = 0;
    fresh_ = true;
  }
  changed_.notify_all();
}

void LoadMeter::run() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (running_) return;
    running_ = fresh_ = true;
  }
  changed_.notify_all();
}

void LoadMeter::pause() {
  const std::lock_guard<std::mutex> lock(mutex_);
  running_ = false;
}

std::optional<DeviceLoad> LoadMeter::mean() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (readings_ == 0) return std::nullopt;
  const auto n = static_cast<double>(readings_);
  return DeviceLoad{sum_.busy / n, sum_.celsius, sum_.pcie_in_bytes_s / n, sum_.pcie_out_bytes_s / n};
}

}  // namespace isobar::engine
