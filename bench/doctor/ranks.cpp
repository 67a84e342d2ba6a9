// Two ranks, started as runs start theirs, and a sum over both: an installed mpiexec may still start nothing.
#include <cstdio>
#include <cstring>

#include "bench/cluster/command.h"
#include "bench/doctor/check.h"
#include "bench/doctor/rates.h"
#include "model/base/text/printed.h"
#include "model/comm/comm.h"

namespace isobar::doctor {
namespace {

constexpr const char* kSum = "two ranks add up to 3";
constexpr const char* kMend =
    "run it by hand for details: mpiexec -n 2 hostname; apt-get install openmpi-bin, or load the module of "
    "the "
    "MPI that this program was built with";

std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

// The first rank's measurement of the link between both.
Check link_of_line(const std::string& out, size_t sum) {
  constexpr double kLate = 3e-6,
                   kSlow = 0.5e9;  // between shared memory and TCP, which are far apart
  int one_host = 0;
  double latency = 0, rate = 0;
  if (std::sscanf(out.c_str() + sum + std::strlen(kSum), ", one_host %d, latency_s %lf, bytes_s %lf",
                  &one_host, &latency, &rate) != 3)
    return {"link", "the first rank did not report its speed", Health::look, kMend};
  const std::string text =
      printed("%s: %.1f us a message, %.2f GB/s each way", one_host ? "two ranks of this host" : "two hosts",
              1e6 * latency, rate / 1e9);
  const bool slow = one_host && (latency > kLate || rate < kSlow);
  return {"link", text, slow ? Health::look : Health::ok,
          "ranks of one host should use shared memory: check OMPI_MCA_btl or MPICH_NO_LOCAL, /dev/shm, and "
          "other load on the cores"};
}

}  // namespace

std::vector<Check> examine_ranks(const Examination& e) {
  if (!e.no_ranks.empty()) return {{"MPI", e.no_ranks, Health::failed, "", true}};
  if (e.two_ranks.empty())
    return {{"MPI", comm::Mpi::version() + ", not tried: this is a rank itself", Health::ok, "", true}};
  const cluster::Said said = cluster::say(e.two_ranks, {.timeout_s = 60});
  const size_t sum = said.out.find(kSum);
  const std::string who = comm::Mpi::version() + ", " + e.two_ranks[0];
  if (said.code == 0 && sum != std::string::npos)
    return {{"MPI", who + ": two ranks start and add up", Health::ok, "", true}, link_of_line(said.out, sum)};
  std::string why = said.code < 0 ? "does not end" : "ends with exit code " + std::to_string(said.code);
  if (said.code == 0) why = "starts ranks that do not find each other";
  const std::string last_words = last_line(said.err.empty() ? said.out : said.err);
  return {{"MPI", who + " " + why + (last_words.empty() ? "" : " (" + last_words + ")"), Health::failed,
           kMend, true}};
}

void two_ranks_part() {
  const comm::Mpi mpi;
  const double sum = mpi.sum_of({mpi.rank() + 1.0})[0];
  if (mpi.size() != 2 || sum != 3) return;
  const double latency = link_latency(1 - mpi.rank()), rate = link_rate(1 - mpi.rank());
  if (mpi.rank() == 0)
    std::printf("%s, one_host %d, latency_s %.3g, bytes_s %.4g\n", kSum, mpi.ranks_on_host() == 2, latency,
                rate);
}

}  // namespace isobar::doctor
