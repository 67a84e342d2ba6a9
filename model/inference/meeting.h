// How the ranks of a run wait for each other where files are concerned; one process alone is a world of one.
//
//   save_checkpoint(dir, ..., meeting_of(mpi, threads));          // model/engine/mpi_meeting.h
//   digest_of(file, Meeting{.threads = 2});
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

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

}  // namespace isobar
