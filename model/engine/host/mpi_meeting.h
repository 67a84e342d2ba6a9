// The ranks of a run under MPI, in the form that code which reads and writes their files expects.
//
//   save_checkpoint(dir, ..., meeting_of(mpi, threads));
#pragma once
#include <optional>
#include <string>
#include <utility>

#include "model/comm/comm.h"
#include "model/engine/liveness/slow_work.h"
#include "model/inference/meeting.h"

namespace isobar::engine {

/// `slow`: the rank's slow work, suspended while it waits for others; it must outlive the meeting.
inline inference::Meeting meeting_of(const comm::Mpi& mpi, int threads = 1, SlowWork* slow = nullptr) {
  const auto waiting = [slow](auto talk) {
    std::optional<SlowWork::Wait> wait;
    if (slow) wait.emplace(*slow);
    return talk();
  };
  return {mpi.rank(),
          mpi.size(),
          threads,
          [&mpi, waiting] { waiting([&] { mpi.barrier(); }); },
          [&mpi, waiting](std::string s) { return waiting([&] { return mpi.from_first(std::move(s)); }); },
          [&mpi, waiting](std::string s) { return waiting([&] { return mpi.to_first(std::move(s)); }); }};
}

}  // namespace isobar::engine
