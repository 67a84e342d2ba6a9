// isobar preflight: a few seconds on every node of an allocation, before the first trial: matrix rate, copy
// bandwidth, and the link from each rank to the next. One rank a node; rank 0 writes what all measured.
#include <dnnl.hpp>

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/cli/commands.h"
#include "model/base/error.h"
#include "model/base/files.h"
#include "model/comm/comm.h"

namespace isobar {
namespace {

using Clock = std::chrono::steady_clock;

// The best of several, because the first one warms up and others may be disturbed.
template <typename Work>
double best_seconds(int times, Work work) {
  double best = 1e30;
  for (int i = 0; i < times; ++i) {
    const auto begin = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

double matrix_rate() {
  constexpr int64_t n = 1024;
  std::vector<float> a(n * n, 0.5f), b(n * n, 0.25f), c(n * n);
  const double s = best_seconds(
      6, [&] { dnnl_sgemm('N', 'N', n, n, n, 1.0f, a.data(), n, b.data(), n, 0.0f, c.data(), n); });
  return 2.0 * n * n * n / s;
}

double copy_rate() {
  const size_t bytes = size_t{128} << 20;
  std::vector<char> from(bytes, 1), to(bytes, 2);
  return 2.0 * static_cast<double>(bytes) /
         best_seconds(4, [&] { std::memcpy(to.data(), from.data(), bytes); });
}

// To the next rank and from the one before, all at a time, as a ring does it.
double link_rate(int rank, int size) {
  if (size == 1) return 0;
  const int bytes = 8 << 20, next = (rank + 1) % size, last = (rank + size - 1) % size;
  std::vector<char> out(static_cast<size_t>(bytes), 1), in(static_cast<size_t>(bytes));
  return static_cast<double>(bytes) / best_seconds(5, [&] {
           MPI_Barrier(MPI_COMM_WORLD);
           MPI_Sendrecv(out.data(), bytes, MPI_BYTE, next, 0, in.data(), bytes, MPI_BYTE, last, 0,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE);
         });
}

void run(const std::string& file) {
  if (!Mpi::started_by_launcher())
    throw ConfigError("isobar preflight", "", "measures a rank on each node",
                      "start it with mpiexec or srun");
  const Mpi mpi;
  char host[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  MPI_Get_processor_name(host, &length);
  const double mine[3] = {matrix_rate(), copy_rate(), link_rate(mpi.rank(), mpi.size())};
  const auto n = static_cast<size_t>(mpi.size());
  std::vector<double> all(3 * n);
  std::vector<char> hosts(n * sizeof host);
  MPI_Gather(mine, 3, MPI_DOUBLE, all.data(), 3, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Gather(host, sizeof host, MPI_CHAR, hosts.data(), sizeof host, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (mpi.rank() != 0) return;
  nlohmann::json j = {{"schema", 1}, {"nodes", nlohmann::json::array()}};
  for (size_t i = 0; i < n; ++i)
    j["nodes"].push_back({{"rank", i},
                          {"host", std::string(hosts.data() + i * sizeof host)},
                          {"matrix_flops_s", all[3 * i]},
                          {"copy_bytes_s", all[3 * i + 1]},
                          {"link_bytes_s", all[3 * i + 2]}});
  write_atomically(file, j.dump(1) + "\n");
}

}  // namespace

void add_preflight_command(CLI::App& app) {
  auto file = std::make_shared<std::string>();
  CLI::App* c =
      app.add_subcommand("preflight", "Measures every node of an allocation, a rank on each")->group("");
  c->add_option("-o", *file, "JSON file")->required();
  c->callback([file] { run(*file); });
}

}  // namespace isobar
