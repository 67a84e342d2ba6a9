// Synchronisation of ranks around files; the default is a world of one process.
//
//   save_checkpoint(dir, ..., meeting_of(mpi, threads));          // model/engine/host/mpi_meeting.h
//   digest_of(file, Meeting{.threads = 2});
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace isobar::inference {

struct Meeting {  // by default a world of one
  int rank = 0, size = 1;
  int threads = 1;  // threads that this rank may use
  std::function<void()> barrier = [] {};
  /// Broadcast: returns rank 0's string on every rank.
  std::function<std::string(std::string)> from_first = [](std::string s) { return s; };
  /// Gather: returns all ranks' strings in order on rank 0; empty elsewhere.
  std::function<std::vector<std::string>(std::string)> to_first = [](std::string s) {
    return std::vector<std::string>{std::move(s)};
  };
};

}  // namespace isobar::inference
