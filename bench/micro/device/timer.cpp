#include "bench/micro/device/timer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "model/base/step_stats.h"

namespace isobar::micro {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kReplaySeconds =
    2e-3;  // work in a replay of one launch, long against the resolution of events
constexpr double kSampleSeconds = 20e-3;  // of replays, long against reading the clock between them
constexpr int kMostLaunches = 200, kMostReplays = 100;
constexpr int kSamples = 5;
constexpr int kTries = 20;  // most discarded samples, with pauses

cuda::Device this_device() {
  int index = 0;
  ISOBAR_CUDA(cudaGetDevice(&index));
  return cuda::find_devices().all.at(static_cast<size_t>(index));
}

double between(const cuda::Event& begin, const cuda::Event& end) {
  float ms = 0;
  ISOBAR_CUDA(cudaEventElapsedTime(&ms, begin.get(), end.get()));
  return static_cast<double>(ms) * 1e-3;
}

double since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

int times(double most, double seconds, int least, int limit) {
  return static_cast<int>(std::clamp(std::ceil(most / std::max(seconds, 1e-6)), 1.0 * least, 1.0 * limit));
}

}  // namespace

DeviceTimer::Case::~Case() {
  if (exec) cudaGraphExecDestroy(exec);
  if (graph) cudaGraphDestroy(graph);
}

DeviceTimer::DeviceTimer() : device_(this_device()), clocks_(bus_of(device_.index)) {}

std::unique_ptr<DeviceTimer::Case> DeviceTimer::prepare(const std::vector<Launch>& sections,
                                                        int launches) const {
  const cudaStream_t stream = streams_[plan::Lane::compute];
  for (const Launch& launch : sections) launch(stream);  // loads kernels
  ISOBAR_CUDA(cudaStreamSynchronize(stream));
  const auto begun = Clock::now();
  for (const Launch& launch : sections) launch(stream);
  ISOBAR_CUDA(cudaStreamSynchronize(stream));
  const double once = since(begun);

  auto c = std::make_unique<Case>();
  c->launches = launches > 0 ? launches : times(kReplaySeconds, once, 4, kMostLaunches);
  c->replays = times(kSampleSeconds, once * c->launches, 1, kMostReplays);
  for (size_t i = 0; i <= sections.size(); ++i) c->events.emplace_back(true);
  const auto mark = [&](size_t i) {
    ISOBAR_CUDA(cudaEventRecordWithFlags(c->events[i].get(), stream, cudaEventRecordExternal));
  };
  ISOBAR_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  mark(0);
  for (size_t i = 0; i < sections.size(); ++i) {
    for (int n = 0; n < c->launches; ++n) sections[i](stream);
    mark(i + 1);
  }
  ISOBAR_CUDA(cudaStreamEndCapture(stream, &c->graph));
  ISOBAR_CUDA(cudaGraphInstantiate(&c->exec, c->graph, 0));
  return c;
}

LoadPiece DeviceTimer::replay(const Case& c) const {
  const cudaStream_t stream = streams_[plan::Lane::compute];
  const auto begun = Clock::now();
  for (int i = 0; i < c.replays; ++i) ISOBAR_CUDA(cudaGraphLaunch(c.exec, stream));
  LoadPiece p;
  p.during = clocks_.read();  // the host runs ahead, so this reads during the replays
  ISOBAR_CUDA(cudaStreamSynchronize(stream));
  p.seconds = since(begun);
  return p;
}

DeviceTimer::Timing DeviceTimer::time(Case& c) const {
  const auto piece = [&] { return replay(c); };
  Timing t;
  t.settled = steady_.settle(piece);
  std::vector<std::vector<double>> seconds(c.events.size() - 1);
  std::vector<double> mhz, watts;
  while (seconds[0].size() < kSamples) {
    const LoadPiece p = replay(c);
    if (throttled(p.during)) {
      if (++t.discarded == kTries)
        throw cuda::Failure("the GPU's clock is held down by heat or a brake: nothing can be measured");
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      t.settled = steady_.settle(piece);
      continue;
    }
    for (size_t i = 0; i < seconds.size(); ++i)
      seconds[i].push_back(between(c.events[i], c.events[i + 1]) / c.launches);
    if (p.during) mhz.push_back(p.during->mhz), watts.push_back(p.during->watts);
  }
  for (const std::vector<double>& all : seconds) t.seconds.push_back(quantile(all, 0.5));
  if (!mhz.empty()) t.mhz = quantile(mhz, 0.5), t.watts = quantile(watts, 0.5);
  return t;
}

namespace {

constexpr double kStretch = 0.2;       // seconds over which the clock is averaged
constexpr double kWithin = 0.015;      // of the clock, whose steps are 15 MHz
constexpr double kWarmUp = 2;          // seconds of load before the first result
constexpr double kLongest = 1;         // seconds of one settling after that
constexpr double kWithoutClock = 0.4;  // seconds of load where the clock cannot be read

struct Stretch {
  double seconds = 0, mhz_seconds = 0;
  double mhz() const { return mhz_seconds / seconds; }
};

}  // namespace

bool SteadyClock::settle(const Piece& piece) {
  Stretch before, now;
  bool same = false;  // the clock of the last two stretches
  for (double ran = 0; ran < kLongest || loaded_ < kWarmUp;) {
    const LoadPiece p = piece();
    ran += p.seconds;
    loaded_ += p.seconds;
    if (!p.during) {
      if (ran >= kWithoutClock && loaded_ >= kWarmUp) return false;
      continue;
    }
    now.seconds += p.seconds;
    now.mhz_seconds += p.seconds * p.during->mhz;
    if (now.seconds < kStretch) continue;
    same = before.seconds > 0 && std::abs(now.mhz() / before.mhz() - 1) < kWithin;
    if (same && loaded_ >= kWarmUp) return true;
    before = now;
    now = {};
  }
  return same;
}

}  // namespace isobar::micro
