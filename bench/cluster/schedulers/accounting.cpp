#include "bench/cluster/schedulers/accounting.h"

#include <algorithm>

#include "bench/sweep/run/jobs.h"
#include "model/base/system/shared_files.h"
#include "model/base/text/json.h"

namespace isobar::cluster {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// True for a file that to_json wrote; others are replaced by a new query.
bool is_accounting(const json& j) {
  const json lives = j.is_object() ? j.value("lives", json()) : json();
  return lives.is_array() && std::all_of(lives.begin(), lives.end(), [](const json& l) {
           return l.is_object() && l.value("elapsed_s", json()).is_number() &&
                  l.value("nodes", json()).is_number();
         });
}

json to_json(const std::string& id, const std::vector<JobLife>& lives) {
  json j = {{"schema", 1}, {"id", id}, {"lives", json::array()}};
  for (const JobLife& l : lives)
    j["lives"].push_back(
        {{"state", l.state}, {"elapsed_s", l.elapsed_s}, {"nodes", l.nodes}, {"where", l.where}});
  return j;
}

/// Part that a job had of its shared nodes; 1 where its description is of an earlier version.
double share_of(const sweep::JobDir& job) {
  const json about = json_if_there(job.path() / "job.json");
  const json share = about.is_object() ? about.value("share", json()) : json();
  return share.is_number() ? share.get<double>() : 1;
}

void add(sweep::ClusterUse& sum, const json& job, double share) {
  ++sum.jobs;
  for (const json& l : job.at("lives")) {
    ++sum.lives;
    sum.node_s += share * l.at("elapsed_s").get<double>() * l.at("nodes").get<double>();
  }
}

}  // namespace

std::optional<sweep::ClusterUse> read_back(const fs::path& results, Scheduler& scheduler) {
  sweep::ClusterUse sum;
  std::vector<sweep::JobDir> unread;
  std::vector<std::string> ids;
  if (!fs::is_directory(results / "jobs")) return std::nullopt;
  for (const auto& entry : fs::directory_iterator(results / "jobs")) {
    const sweep::JobDir job(results, entry.path().filename().string());
    if (!fs::exists(job.path() / "job.json") || !job.closed() || job.id().empty()) continue;
    if (const fs::path file = job.path() / "accounting.json"; fs::exists(file)) {
      const json known = json_if_there(file);
      if (is_accounting(known)) {
        add(sum, known, share_of(job));
        continue;
      }
    }
    unread.push_back(job);
    ids.push_back(job.id());
  }
  if (!ids.empty())
    if (const auto books = scheduler.accounts(ids))
      for (size_t i = 0; i < ids.size(); ++i) {
        const auto it = books->find(ids[i]);
        if (it == books->end() || it->second.empty()) continue;
        const json j = to_json(ids[i], it->second);
        add(sum, j, share_of(unread[i]));
        // Jobs that are still being accounted are read again next time.
        if (std::all_of(it->second.begin(), it->second.end(), [](const JobLife& l) { return l.over; }))
          write_atomically(unread[i].path() / "accounting.json", json_text(j, 1) + "\n");
      }
  if (sum.jobs == 0) return std::nullopt;
  return sum;
}

}  // namespace isobar::cluster
