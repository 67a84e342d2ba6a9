// A made-up results directory as a sweep leaves it: 1 and 2 ranks, two precisions, 0 to 2 loader workers, one
// failed run and one long enough to validate.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/base/system/files.h"
#include "model/nets/build.h"
#include "model/plan/ops/work.h"
#include "model/records/advice.h"
#include "model/records/files/result_file.h"

namespace isobar::report {

class MadeUpResults {
 public:
  using json = nlohmann::json;

  explicit MadeUpResults(const std::filesystem::path& dir, uint64_t seed = std::random_device{}())
      : dir_(dir), rng_(seed) {}

  static RunSpec spec(int64_t ranks, const std::string& amp, int64_t workers) {
    RunSpec s;
    s.net.vit().embed_dim = 64;
    s.net.vit().depth = 3;
    s.net.vit().num_heads = 4;
    s.net.vit().img_height = 32;
    s.net.vit().img_width = 64;
    s.net.vit().in_channels = s.net.vit().out_channels = 2;
    s.train.global_batch = 8;
    s.train.steps = 12;
    s.layout.dp = ranks;
    s.policy.amp = *value_named<Amp>(amp);
    s.data.workers = workers;
    return s;
  }

  /// The whole sweep, with a holdout.json in which every second run is held out.
  void write_sweep() {
    json holdout = {{"machine", "made-up"}, {"runs", json::array()}};
    int n = 0;
    for (int64_t ranks : {1, 2})
      for (const char* amp : {"none", "bf16"})
        for (int64_t workers : {0, 1, 2}) {
          const std::string id = "run" + std::to_string(100 + n);
          const double ms = write_run(id, spec(ranks, amp, workers),
                                      {{"gpus", ranks}, {"policy.amp", amp}, {"data.workers", workers}});
          const double guess = ms * std::exp(normal(0.06));
          holdout["runs"].push_back({{"id", id},
                                     {"measured_s", ms * 1e-3},
                                     {"predicted_s", guess * 1e-3},
                                     {"lo_s", guess * 0.92e-3},
                                     {"hi_s", guess * 1.09e-3},
                                     {"in_fit", n % 2 == 0},
                                     {"terms",
                                      {{"matrix products", guess * 0.5e-3},
                                       {"attention", guess * 0.2e-3},
                                       {"row kernels", guess * 0.2e-3},
                                       {"reading data", guess * 0.1e-3}}}});
          ++n;
        }
    write_failure("run900", spec(2, "none", 4), {{"gpus", 2}, {"policy.amp", "none"}, {"data.workers", 4}},
                  "oom_host", "the trial's memory limit of 100 MB was exceeded");
    write_atomically(dir_ / "holdout.json", holdout.dump(1));
  }

  /// Returns the median step time in milliseconds.
  double write_run(const std::string& id, const RunSpec& s, const json& axes, int valid_every = 0,
                   int steps = 12) {
    const std::filesystem::path run = dir_ / "trials" / id;
    const plan::Plan plan = nets::build_plan(s, 0, {});
    std::map<std::string, json> ops;
    double step_s = 0;
    for (const plan::Invocation& i : plan.train)
      for (int32_t o = plan.routines[i.routine].first;
           o < plan.routines[i.routine].first + plan.routines[i.routine].count; ++o) {
        const plan::Op& op = plan.ops[o];
        const plan::Work w = plan::work(op, plan);
        const double seconds =
            (w.flops / (s.policy.amp == Amp::bf16 ? 9e10 : 5e10) + w.bytes() / 1.2e10 + 2e-6) *
            std::exp(normal(0.1));
        step_s += seconds;
        json& j = ops[op.path];
        if (j.is_null())
          j = {{"path", op.path},
               {"kind", plan::name_of(op.kind)},
               {"lane", plan::name_of(op.lane)},
               {"count", 0},
               {"seconds", 0.0},
               {"flops", 0.0},
               {"bytes", 0.0}};
        if (op.part >= 0)
          j["part"] = {{"kind", plan.parts[op.part].kind}, {"path", plan.parts[op.part].path}};
        j["count"] = j["count"].get<int64_t>() + steps;
        j["seconds"] = j["seconds"].get<double>() + seconds * steps;
        j["flops"] = j["flops"].get<double>() + w.flops * steps;
        j["bytes"] = j["bytes"].get<double>() + w.bytes() * steps;
      }
    step_s *= s.data.workers == 0 ? 1.2 : 1.02;
    std::string lines;
    const auto line = [&](const json& j) {
      lines += j.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    };
    json memory = json::object();
    for (int k = 0; k < plan::kBufferKinds; ++k)
      memory[plan::name_of(static_cast<plan::BufferKind>(k))] = plan.memory.by_kind[k];
    line({{"event", "run_start"},
          {"schema", 1},
          {"time_utc", "2026-01-02T03:04:05Z"},
          {"spec", to_json(s)},
          {"ranks", s.layout.world()},
          {"threads", 1},
          {"plan_hash", "ab12"},
          {"parameters", plan.parameter_count()},
          {"flops_forward_per_sample", 1e9},
          {"memory", {{"arena", plan.memory.arena}, {"by_category", memory}}},
          {"provenance", provenance}});
    for (int i = 1; i <= steps; ++i) {
      line({{"event", "step"},
            {"step", i},
            {"epoch", 0},
            {"loss", 1.2 * std::exp(-0.02 * i) + 0.2},
            {"rmse", 1.0},
            {"lr", 1e-3},
            {"grad_norm", 1.0},
            {"seconds", step_s * std::exp(normal(0.02))},
            {"samples_per_s", 1.0},
            {"data_wait_s", 0.001},
            {"rss_bytes", plan.memory.arena + 60'000'000}});
      if (valid_every && i % valid_every == 0)
        line({{"event", "valid"},
              {"step", i},
              {"loss", 1.3 * std::exp(-0.02 * i) + 0.22},
              {"rmse", {2.5 * std::exp(-0.02 * i) + 0.8}},
              {"persistence_rmse", {1.4}},
              {"seconds", 0.1}});
    }
    json ranks = json::array();
    for (int64_t rank = 0; rank < s.layout.world(); ++rank)
      ranks.push_back({{"rank", rank},
                       {"host", "node" + std::to_string(rank)},
                       {"step_s", step_s},
                       {"compute_s", (0.7 + 0.1 * static_cast<double>(rank)) * step_s},
                       {"data_wait_s", 0.001},
                       {"peak_rss_bytes", plan.memory.arena + 60'000'000},
                       {"mhz", 2500},
                       {"watts", 150}});
    line({{"event", "ranks"},
          {"step", steps},
          {"steps", steps - 2},
          {"ranks", ranks},
          {"joules_per_step", 150 * step_s * static_cast<double>(s.layout.world())},
          {"energy", "package-0"}});
    json op_list = json::array();
    for (const auto& [path, j] : ops) op_list.push_back(j);
    line({{"event", "run_end"},
          {"status", "ok"},
          {"steps", steps},
          {"step_s",
           {{"median", step_s}, {"p10", step_s * 0.97}, {"p90", step_s * 1.05}, {"min", step_s * 0.96}}},
          {"samples_per_s", static_cast<double>(s.train.global_batch) / step_s},
          {"peak_rss_bytes", plan.memory.arena + 60'000'000},
          {"unattributed_share", 0.01},
          {"ops", op_list}});
    write_atomically(run / "result.jsonl", lines);
    write_trial(run, id, s, axes, {{"class", "ok"}, {"message", ""}, {"attempt", 1}, {"wall_s", 2.0}});
    return step_s * 1e3;
  }

  /// A run of `steps` steps with this median and log scatter `sigma`, on two cores of which others had the
  /// share `taken`; no ops.
  void write_timed(const std::string& id, const RunSpec& s, double step_s, double sigma, int steps = 26,
                   double taken = 0) {
    const std::filesystem::path run = dir_ / "trials" / id;
    std::string lines;
    const auto line = [&](const json& j) { lines += j.dump() + "\n"; };
    line({{"event", "run_start"},
          {"schema", 1},
          {"spec", to_json(s)},
          {"ranks", s.layout.world()},
          {"threads", 1},
          {"provenance", provenance}});
    std::vector<double> seconds;
    for (int i = 1; i <= steps; ++i) {
      seconds.push_back(step_s * std::exp(normal(sigma)));
      line({{"event", "step"}, {"step", i}, {"seconds", seconds.back()}, {"samples_per_s", 1.0}});
    }
    if (taken > 0)
      line({{"event", "ranks"},
            {"step", steps},
            {"steps", steps - 2},
            {"ranks", {{{"rank", 0}, {"used_cores", 2 * (1 - taken)}, {"cores", 2}, {"busy_cores", 2}}}}});
    std::sort(seconds.begin() + 2, seconds.end());
    const auto at = [&](double q) {
      return seconds[2 + static_cast<size_t>(q * static_cast<double>(steps - 3))];
    };
    line({{"event", "run_end"},
          {"status", "ok"},
          {"steps", steps},
          {"step_s", {{"median", at(0.5)}, {"p10", at(0.1)}, {"p90", at(0.9)}, {"min", at(0)}}},
          {"samples_per_s", static_cast<double>(s.train.global_batch) / at(0.5)}});
    std::filesystem::create_directories(run);
    std::ofstream(run / "result.jsonl") << lines;  // no fsync: there are many files
    std::ofstream(run / "trial.json") << json{{"id", id},
                                              {"repetition", 0},
                                              {"axes", {{"data.workers", s.data.workers}}},
                                              {"warmup", 2},
                                              {"spec", to_json(s)}};
    std::ofstream(run / "status.json")
        << json{{"class", "ok"}, {"message", ""}, {"attempt", 1}, {"wall_s", 2.0}};
  }

  void write_failure(const std::string& id, const RunSpec& s, const json& axes, const std::string& cls,
                     const std::string& message) {
    write_trial(dir_ / "trials" / id, id, s, axes,
                {{"class", cls}, {"message", message}, {"attempt", 1}, {"wall_s", 1.5}});
  }

  json provenance = {{"commit", "0123abc"}, {"host", "made-up"}, {"cpu", "Some CPU"}, {"isa", "avx512"}};

 private:
  double normal(double sigma) { return sigma * std::normal_distribution<double>()(rng_); }
  static void write_trial(const std::filesystem::path& run, const std::string& id, const RunSpec& s,
                          const json& axes, const json& status) {
    const auto dump = [](const json& j) { return j.dump(1, ' ', false, json::error_handler_t::replace); };
    write_atomically(
        run / "trial.json",
        dump({{"id", id}, {"repetition", 0}, {"axes", axes}, {"warmup", 2}, {"spec", to_json(s)}}));
    write_atomically(run / "status.json", dump(status));
  }
  std::filesystem::path dir_;
  std::mt19937_64 rng_;
};

/// A directory that is removed with its owner.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "isobar-report-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary directory");
    path = name;
  }
  ~TempDir() { std::filesystem::remove_all(path); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::filesystem::path path;
};

/// The records of a run that takes twice as long as was predicted, half of it waiting for its loader.
class SlowForItsLoader {
 public:
  static constexpr const char* kAdvice =
      "200 ms a step, 100 expected (predicted): the loader, 100 ms of waiting (4 workers would keep up, 2 "
      "are)";
  explicit SlowForItsLoader(const std::filesystem::path& run) : file_(run / "result.jsonl") {
    records::StartRecord start;
    start.spec = to_json(MadeUpResults::spec(1, "none", 2));
    start.ranks = 1;
    start.provenance = {{"expected", records::to_json(records::ExpectedStep{0.1, 0.09, 0.11, "predicted"})}};
    append_line(file_, records::line_of(start));
  }
  void steps(int n) {
    for (; n > 0; --n)
      append_line(file_, records::line_of(records::StepRecord{
                             .step = ++done_, .seconds = 0.2, .samples_per_s = 40, .data_wait_s = 0.1}));
  }

 private:
  std::filesystem::path file_;
  int64_t done_ = 0;
};

}  // namespace isobar::report
