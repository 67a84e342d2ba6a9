// Two ranks, started as runs start theirs, and a sum over both: an mpiexec may be there and start nothing.
#include <cstdio>

#include "bench/cluster/command.h"
#include "bench/doctor/check.h"
#include "model/comm/comm.h"

namespace isobar {
namespace {

constexpr const char* kSum = "two ranks add up to 3";
constexpr const char* kMend =
    "run it by hand to see more: mpiexec -n 2 hostname; apt-get install openmpi-bin, or load the module of "
    "the "
    "MPI that this program was built with";

std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

std::vector<Check> examine_ranks(const Examination& e) {
  if (!e.no_ranks.empty()) return {{"MPI", e.no_ranks, Health::failed, "", true}};
  if (e.two_ranks.empty())
    return {{"MPI", Mpi::version() + ", not tried: this is a rank itself", Health::ok, "", true}};
  const Said said = say(e.two_ranks, {.timeout_s = 60});
  const bool works = said.code == 0 && said.out.find(kSum) != std::string::npos;
  std::string why = said.code < 0 ? "does not end" : "ends with exit code " + std::to_string(said.code);
  if (said.code == 0) why = "starts ranks that do not find each other";
  const std::string told = last_line(said.err.empty() ? said.out : said.err);
  return {{"MPI",
           Mpi::version() + ", " + e.two_ranks[0] +
               (works ? ": two ranks start and add up" : " " + why + (told.empty() ? "" : " (" + told + ")")),
           works ? Health::ok : Health::failed, kMend, true}};
}

void two_ranks_part() {
  const Mpi mpi;
  const double sum = mpi.sum_of({mpi.rank() + 1.0})[0];
  if (mpi.rank() == 0 && mpi.size() == 2 && sum == 3) std::printf("%s\n", kSum);
}

}  // namespace isobar
