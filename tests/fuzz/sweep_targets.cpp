// Files that a sweep and its cluster jobs leave in a results directory, and that `watch` reads.
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/cluster/cluster.h"
#include "bench/cluster/grouping.h"
#include "bench/cluster/preflight.h"
#include "bench/cluster/schedulers/accounting.h"
#include "bench/sweep/run/jobs.h"
#include "model/base/error.h"
#include "model/engine/liveness/run_dir.h"
#include "reports/live/watch.h"
#include "tests/fuzz/fuzz.h"

namespace isobar::fuzz {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string job_text() {
  sweep::Trial t;
  t.id = "a1";
  t.axes = {{"layout.dp", 2}};
  t.spec =
      run_spec_from_json({{"net", {{"embed_dim", 64}, {"depth", 1}}}, {"train", {{"global_batch", 8}}}}, "");
  t.forecast = sweep::Forecast{.step_s = 0.1, .upper_s = 0.2, .ceiling_s = 0.3};
  sweep::SweepSpec sweep;
  sweep::SweepOptions options;
  options.self = options.trainer = "/bin/isobar";
  const cluster::ClusterSpec cluster = cluster::cluster_from_json(
      {{"scheduler", "pbs"}, {"start", "pals"}, {"ranks_per_node", 2}, {"queue", "debug"}}, "");
  return cluster::description_of({.nodes = 1, .time_s = 600, .trials = {&t}}, "j", sweep, options, cluster)
      .dump(1);
}

// Reads a job as its pilot and its followers do.
void read_job(const std::string& file) {
  const fs::path dir = fs::path(file).parent_path();
  const sweep::JobDir job(dir.parent_path().parent_path(), dir.filename());
  const json about = job.description();
  cluster::cluster_from_json(about.at("cluster"), file);
  for (const json& one : about.at("trials")) sweep::trial_from_json(one, file);
}

class NoBooks : public cluster::Scheduler {
 public:
  std::string script(const cluster::ClusterSpec&, const cluster::JobRequest&) const override { return ""; }
  std::string submit(const cluster::ClusterSpec&, const fs::path&, const std::string&) override { return ""; }
  std::optional<std::vector<cluster::JobWord>> ask(const std::vector<cluster::JobKey>&) override {
    return std::nullopt;
  }
  void cancel(const std::string&) override {}
  std::optional<std::map<std::string, std::vector<cluster::JobLife>>> accounts(
      const std::vector<std::string>&) override {
    return std::nullopt;
  }
  std::string own_id() const override { return ""; }
  std::vector<std::string> own_nodes() const override { return {}; }
  void clear(const std::string&) override {}
};

// Reads the results directory three levels above the file.
void read_results(const std::string& file) {
  const fs::path results = fs::path(file).parent_path().parent_path().parent_path();
  NoBooks none;
  cluster::read_back(results, none);
  sweep::open_jobs(results);
  sweep::claimed_by(results / "trials" / "a1");
  sweep::trial_state(results, "a1");
}

void watch(const fs::path& results) {
  report::SweepWatch w(results);
  report::frame(w.state(), {.width = 80});
  w.refresh();
  report::frame(w.state(), {.width = 80});
}

}  // namespace

std::vector<Target> sweep_targets(const fs::path& folder) {
  const std::string job = job_text();
  const std::string matrix =
      R"({"schema":1,"trials":[{"id":"a1","axes":{"layout.dp":2},"ranks":2,"repetition":0},{"id":"a2","axes":{"layout.dp":1},"ranks":1,"repetition":1}]})";
  const std::string status =
      R"({"schema":1,"id":"a1","class":"ok","final":true,"message":"","wall_s":3.5,"job":"7"})";
  const std::string results = R"({"event":"run_start","ranks":2}
{"event":"step","step":3,"samples_per_s":80.5}
{"event":"run_end","status":"ok","samples_per_s":81,"step_s":{"median":0.1,"p10":0.1,"p90":0.2,"min":0.1}}
)";
  const std::string books =
      R"({"schema":1,"id":"7","lives":[{"state":"COMPLETED","elapsed_s":61.5,"nodes":2,"where":"n1"}]})";
  const std::string measured =
      R"({"nodes":[{"matrix_flops_s":1e12,"copy_bytes_s":1e10,"link_bytes_s":1e9},{"matrix_flops_s":2e12,"copy_bytes_s":1e10,"link_bytes_s":1e9}]})";
  for (const char* name : {"w1", "w2", "w3", "j1", "j2", "j3"}) {
    const fs::path at = folder / name;
    put(at / "sweep.json", matrix);
    put(at / "trials/a1/status.json", status);
    put(at / "trials/a1/result.jsonl", results);
    put(at / "trials/a1/claim", "isobar-1\n");
    put(at / "jobs/isobar-1/job.json", job);
    put(at / "jobs/isobar-1/id", "7\n");
    put(at / "jobs/isobar-1/owner", "closed\n");
  }
  put(folder / "j3/jobs/isobar-1/accounting.json", books);
  const auto three_up = [](const std::string& f) {
    return fs::path(f).parent_path().parent_path().parent_path();
  };
  return {{"job.json", "j1/jobs/isobar-1/job.json", {job}, true, read_job, true},
          {"owner", "j2/jobs/isobar-1/owner", {"1\n", "closed\n"}, true, read_results},
          {"accounting", "j3/jobs/isobar-1/accounting.json", {books}, true, read_results},
          {"preflight",
           "preflight.json",
           {measured},
           true,
           [](const auto& f) {
             cluster::slow_nodes_in(f, {"a", "b"});
           },
           true},
          {"sweep.json",
           "w1/sweep.json",
           {matrix},
           true,
           [](const auto& f) { watch(fs::path(f).parent_path()); }},
          {"watch status",
           "w2/trials/a1/status.json",
           {status},
           true,
           [=](const auto& f) { watch(three_up(f)), read_results(f); }},
          {"watch result", "w3/trials/a1/result.jsonl", {results}, true, [=](const auto& f) {
             watch(three_up(f));
             const engine::RunDir dir(fs::path(f).parent_path());
             dir.ended();
           }}};
}

}  // namespace isobar::fuzz
