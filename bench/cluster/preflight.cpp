#include "bench/cluster/preflight.h"

#include <algorithm>
#include <set>

#include "model/base/error.h"
#include "model/base/system/shared_files.h"
#include "model/base/text/printed.h"

namespace isobar::cluster {

// The circle method: the last rank stays, the others rotate.
int64_t partner_of(int64_t rank, int64_t round, int64_t size) {
  const int64_t even = size + size % 2, turning = even - 1;  // with an odd number of ranks one rests
  if (turning < 1) return -1;
  int64_t partner = 0;
  if (rank == turning) {
    partner = round * ((turning + 1) / 2) % turning;  // 2 * partner = round modulo an odd number
  } else {
    partner = ((round - rank) % turning + turning) % turning;
    if (partner == rank) partner = turning;
  }
  return partner < size ? partner : -1;
}

int64_t rounds_of(int64_t size) {
  return size < 2 ? 0 : size + size % 2 - 1;
}

double link_of(std::vector<double> rates) {
  if (rates.empty()) return 0;
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

std::vector<SlowNode> slow_nodes(const nlohmann::json& measured, const std::vector<std::string>& nodes,
                                 double share) {
  const nlohmann::json& all = measured.at("nodes");
  std::vector<SlowNode> slow;
  std::set<size_t> named;
  for (const char* what : {"matrix_flops_s", "copy_bytes_s", "link_bytes_s"}) {
    if (std::string(what) == "link_bytes_s" && all.size() < 3) continue;
    std::vector<double> rates;
    for (const auto& one : all) rates.push_back(one.at(what).get<double>());
    std::vector<double> sorted = rates;
    std::sort(sorted.begin(), sorted.end());
    const double median =
        sorted[sorted.size() / 2];  // of two the faster: a healthy node shares its partner's slow link
    for (size_t i = 0; i < rates.size() && i < nodes.size(); ++i)
      if (rates[i] < share * median && named.insert(i).second) {
        const std::string text = printed("%s %.3g, and the median %.3g", what, rates[i], median);
        slow.push_back({nodes[i], text});
      }
  }
  return slow;
}

std::vector<SlowNode> slow_nodes_in(const std::filesystem::path& file,
                                    const std::vector<std::string>& nodes) {
  const char* const again = "run isobar preflight again";
  const nlohmann::json j = read_json(file);
  require_shape(j, file, {{"/nodes", "array"}}, again);
  for (const auto& one : j["nodes"])
    require_shape(one, file,
                  {{"/matrix_flops_s", "number"}, {"/copy_bytes_s", "number"}, {"/link_bytes_s", "number"}},
                  again);
  if (j["nodes"].empty()) throw ConfigError(file, "nodes", "is empty", again);
  return slow_nodes(j, nodes);
}

}  // namespace isobar::cluster
