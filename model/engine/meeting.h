// How the ranks of a run wait for each other where files are concerned.
//
//   save_checkpoint(dir, ..., meeting_of(mpi, threads));
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/comm/comm.h"
#include "model/engine/slow_work.h"

namespace isobar {

struct Meeting {  // as it stands, a world of one
  int rank = 0, size = 1;
  int threads = 1;  // of this rank's, for what it computes meanwhile
  std::function<void()> barrier = [] {};
  /// Rank 0's, everywhere.
  std::function<std::string(std::string)> from_first = [](std::string s) { return s; };
  /// Every rank's in order, on rank 0; empty elsewhere.
  std::function<std::vector<std::string>(std::string)> to_first = [](std::string s) {
    return std::vector<std::string>{std::move(s)};
  };
};

/// `slow`: of the rank, whose waiting for others is no slow work; both stay while the meeting lasts.
inline Meeting meeting_of(const Mpi& mpi, int threads = 1, SlowWork* slow = nullptr) {
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

}  // namespace isobar
