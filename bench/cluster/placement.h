// Placement of a trial's ranks inside an allocation, and the command that starts them so.
//
//   const auto map = launch_map(cluster, {"n1", "n2"}, 6);        // ranks 0-3 on n1, 4 and 5 on n2
//   const auto argv = start_command(cluster, nodes, 6, {isobar, "train", …}, id, dir / "rankfile");
//
// Ranks fill one node after the other, so layout.order decides which axes stay inside a node. The start
// command itself binds them (srun's masks, PALS' lists, Open MPI's rankfile); the program needs no code for
// it.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/cluster/cluster.h"

namespace isobar::cluster {

struct RankPlace {
  int64_t rank = 0;
  std::string node;
  int64_t local = 0;  // rank on its node, also the number of its accelerator
  std::string cores;  // "4-7"; "" = not bound
};

std::vector<RankPlace> launch_map(const ClusterSpec& c, const std::vector<std::string>& nodes, int64_t ranks);
nlohmann::json to_json(const std::vector<RankPlace>& map);

/// argv of the command, without a PATH lookup of its program. Open MPI's binding needs `rankfile`, which
/// rankfile_text() fills.
std::vector<std::string> start_command(const ClusterSpec& c, const std::vector<std::string>& nodes,
                                       int64_t ranks, const std::vector<std::string>& program,
                                       const std::string& name, const std::filesystem::path& rankfile);
std::string rankfile_text(const std::vector<RankPlace>& map);

/// "0xf0" for "4-7".
std::string core_mask(const std::string& cores);

}  // namespace isobar::cluster
