// isobar preflight: a short check of every node of an allocation before the first trial: matrix rate, copy
// bandwidth, and links between pairs of nodes (bench/cluster/preflight.h). One rank a node; rank 0 writes all
// results.
#include <mpi.h>
#include <omp.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/cli/commands.h"
#include "bench/cluster/preflight.h"
#include "bench/doctor/rates.h"
#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/json.h"
#include "model/comm/comm.h"

namespace isobar::cli {
namespace {

constexpr int64_t kRounds = 15;  // of pairs; enough to tell a slow node from its partners

// Bytes a second in both directions with each partner; 0 where this rank had none.
std::vector<double> link_rates(int rank, int size) {
  std::vector<double> rates(static_cast<size_t>(std::min(kRounds, cluster::rounds_of(size))));
  for (size_t round = 0; round < rates.size(); ++round) {
    const auto partner = static_cast<int>(cluster::partner_of(rank, static_cast<int64_t>(round), size));
    MPI_Barrier(MPI_COMM_WORLD);
    if (partner < 0) continue;
    rates[round] = doctor::link_rate(partner);
  }
  return rates;
}

void run_preflight(const std::string& file) {
  if (!comm::Mpi::started_by_launcher())
    throw ConfigError("isobar preflight", "", "measures a rank on each node",
                      "start it with mpiexec or srun");
  const comm::Mpi mpi;
  omp_set_num_threads(omp_get_num_procs());  // all of the node's, whatever the trials use
  char host[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  MPI_Get_processor_name(host, &length);
  std::vector<double> mine = {doctor::matrix_rate(), doctor::copy_rate()};
  const std::vector<double> links = link_rates(mpi.rank(), mpi.size());
  mine.insert(mine.end(), links.begin(), links.end());
  const auto n = static_cast<size_t>(mpi.size());
  const auto each = static_cast<int>(mine.size());
  std::vector<double> all(mine.size() * n);
  std::vector<char> hosts(n * sizeof host);
  MPI_Gather(mine.data(), each, MPI_DOUBLE, all.data(), each, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Gather(host, sizeof host, MPI_CHAR, hosts.data(), sizeof host, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (mpi.rank() != 0) return;
  nlohmann::json j = {{"schema", 1}, {"nodes", nlohmann::json::array()}};
  for (size_t i = 0; i < n; ++i) {
    const double* of = all.data() + i * mine.size();
    nlohmann::json with = nlohmann::json::array();
    std::vector<double> rates;
    for (size_t round = 0; round < links.size(); ++round)
      if (const int64_t other =
              cluster::partner_of(static_cast<int64_t>(i), static_cast<int64_t>(round), mpi.size());
          other >= 0) {
        rates.push_back(of[2 + round]);
        with.push_back({{"rank", other}, {"bytes_s", rates.back()}});
      }
    j["nodes"].push_back({{"rank", i},
                          {"host", std::string(hosts.data() + i * sizeof host)},
                          {"matrix_flops_s", of[0]},
                          {"copy_bytes_s", of[1]},
                          {"link_bytes_s", cluster::link_of(rates)},
                          {"links", with}});
  }
  write_atomically(file, json_text(j, 1) + "\n");
}

}  // namespace

void add_preflight_command(CLI::App& app) {
  auto file = std::make_shared<std::string>();
  CLI::App* c = app.add_subcommand("preflight", "Measure every node of an allocation, with one rank on each")
                    ->group("");
  c->add_option("-o", *file, "JSON file")->required();
  c->callback([file] { run_preflight(*file); });
}

}  // namespace isobar::cli
