// Times launches on a GPU that is kept at the clock which it holds under their load.
//
//   const DeviceTimer timer;                                // the calling thread's device
//   const auto c = timer.prepare({launch_a, launch_b}, 1);  // captured as a graph, as the engine replays
//   steps DeviceTimer::Timing t = timer.time(*c);                 // t.seconds[0], of launch_a behind
//   launch_b …
//
// Times are device times between events inside the graph. The graph is replayed until the clock has settled
// (steady.h) and timed while it is replayed further. Samples taken while heat or a brake held the clock down
// are discarded and repeated.
//
// Keeps a chip under load until its clock has settled. At its power limit a card runs large products 7 to 10
// % slower than in the first second, so cold timings are not those of a training.
//
//   SteadyClock steady;
//   steady.settle(piece);     // piece(): runs some of the load that will be timed, and reads the clock
//   meanwhile
//
// Time is that of the pieces, so that it can be tested without a device.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/backend/cuda/runtime/clocks.h"
#include "model/backend/cuda/runtime/device.h"

namespace isobar::micro {

struct LoadPiece {
  double seconds = 0;                // that it ran
  std::optional<ClockState> during;  // nullopt: the clock cannot be read
};

class SteadyClock {
 public:
  using Piece = std::function<LoadPiece()>;
  /// Runs pieces until the clock's mean is that of the stretch before, for a second at most; two seconds the
  /// first time, in which a cold chip warms up. Returns whether it settled: false too if it cannot be read.
  bool settle(const Piece& piece);
  /// Seconds of load so far.
  double loaded() const { return loaded_; }

 private:
  double loaded_ = 0;
};

class DeviceTimer {
 public:
  DeviceTimer();

  using Launch = std::function<void(cudaStream_t)>;  // enqueues one op
  struct Case {                                      // sections of a graph, each between two events
    Case() = default;
    ~Case();
    Case(const Case&) = delete;
    Case& operator=(const Case&) = delete;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    int launches = 0;                 // of each section
    int replays = 0;                  // of the graph, behind each other, for a sample
    std::vector<cuda::Event> events;  // before each section and after the last
  };
  struct Timing {
    std::vector<double> seconds;  // of one launch of each section, median over samples
    double mhz = 0, watts = 0;    // medians; 0: cannot be read
    bool settled = false;
    int64_t discarded = 0;  // samples
  };
  /// Each launch is a section, launched this often; 0: as often as makes a replay long against the resolution
  /// of events.
  std::unique_ptr<Case> prepare(const std::vector<Launch>& sections, int launches) const;
  /// Throws cuda::Failure if the clock stays held down.
  Timing time(Case& c) const;

  const cuda::Device& device() const { return device_; }
  const cuda::Streams& streams() const { return streams_; }
  const Clocks& clocks() const { return clocks_; }

 private:
  LoadPiece replay(const Case& c) const;
  cuda::Device device_;
  cuda::Streams streams_;
  Clocks clocks_;
  mutable SteadyClock steady_;
};

}  // namespace isobar::micro
