#include "model/engine/observers/starting.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "model/engine/observers/observers.h"

namespace isobar::engine {
namespace {

constexpr double kWorthALine_s = 1, kWorthNaming = 0.1;

std::string tenths(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", seconds);
  return text;
}

class StartTimes : public RunObserver {
 public:
  explicit StartTimes(const Observed& o) : run_(o.run), data_(o.data) {}
  void on_start() override {
    if (const std::string text = run_.starting.done(); !text.empty()) run_.say(text);
    if (!run_.log.on()) return;
    records::SetUpRecord record;
    for (const auto& [stage, seconds] : run_.starting.seconds()) record.seconds[stage] = seconds;
    if (auto channels = data_.channels().targets; !channels.empty()) record.channels = std::move(channels);
    run_.log.write(record);
  }

 private:
  const TrainContext& run_;
  const RankData& data_;
};

}  // namespace

void Starting::stage(const char* what) {
  end_stage();
  current_ = what;
}

void Starting::end_stage() {
  const Clock::time_point now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - since_).count();
  since_ = now;
  const auto known = std::find_if(seconds_.begin(), seconds_.end(),
                                  [&](const auto& s) { return std::strcmp(s.first, current_) == 0; });
  if (known == seconds_.end())
    seconds_.emplace_back(current_, seconds);
  else
    known->second += seconds;
}

std::string Starting::done() {
  end_stage();
  part_.reset();
  const double all = std::chrono::duration<double>(since_ - begin_).count();
  if (all < kWorthALine_s) return "";
  std::stable_sort(seconds_.begin(), seconds_.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text = "started in " + tenths(all);
  for (size_t i = 0; i < seconds_.size() && seconds_[i].second >= kWorthNaming * all; ++i)
    text += (i == 0 ? ": " : ", ") + std::string(seconds_[i].first) + " " + tenths(seconds_[i].second);
  return text;
}

std::unique_ptr<RunObserver> start_times(const Observed& o) {
  return std::make_unique<StartTimes>(o);
}

}  // namespace isobar::engine
