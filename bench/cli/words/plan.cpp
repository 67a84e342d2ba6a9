#include <array>
#include <cstdio>
#include <iostream>
#include <memory>

#include "bench/cli/commands.h"
#include "bench/cli/words/options.h"
#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/hash.h"
#include "model/base/text/json.h"
#include "model/base/text/printed.h"
#include "model/engine/host/host.h"
#include "model/engine/output/summary.h"
#include "model/engine/processor.h"
#include "model/nets/build.h"
#include "model/nets/graph/graph_cut.h"
#include "model/nets/layout/plan_size.h"
#include "model/nets/parts.h"
#include "model/nets/traced/eager_memory.h"
#include "model/plan/layout.h"
#include "model/plan/ops/work.h"
#include "reports/figures/graph_picture.h"

namespace isobar::cli {
namespace {

struct PlanArguments {
  std::string config;
  std::vector<std::string> set;
  int rank = 0;
  bool json = false, totals = false, groups = false;
  std::string picture;  // SVG
};

nlohmann::json ops_json(const plan::Plan& plan) {
  nlohmann::json out = nlohmann::json::array();
  for (const plan::Routine& r : plan.routines)
    for (int i = r.first; i < r.first + r.count; ++i) {
      const plan::Op& op = plan.ops[i];
      const plan::Work w = plan::work(op, plan);
      out.push_back({{"routine", r.name},
                     {"path", op.path},
                     {"kind", plan::name_of(op.kind)},
                     {"lane", plan::name_of(op.lane)},
                     {"flops", w.flops},
                     {"bytes_read", w.bytes_read},
                     {"bytes_written", w.bytes_written},
                     {"wire_bytes", w.wire_bytes}});
    }
  return out;
}

void print(const plan::Plan& plan, const plan::Totals& t, double forward_flops, int64_t idle,
           bool totals_only) {
  const plan::Memory& m = plan.memory;
  if (!totals_only) std::fputs(plan::to_text(plan).c_str(), stdout);
  std::printf("\nparameters                %15ld\n", plan.parameter_count());
  if (idle > 0) std::printf("  of them for a token     %15ld\n", plan.parameter_count() - idle);
  std::printf("forward                   %15.1f GFLOP a sample\n", forward_flops / 1e9);
  std::printf(
      "step of this rank         %15.1f GFLOP, %.2f GB memory traffic, %.3f GB communication, %ld ops\n",
      t.step.flops / 1e9, t.step.bytes() / 1e9, t.step.wire_bytes / 1e9, t.ops);
  std::printf("\nmemory of this rank\n");
  for (int k = 0; k < plan::kBufferKinds; ++k)
    if (m.by_kind[k] > 0)
      std::printf("  %-22s  %15ld bytes\n", plan::name_of(static_cast<plan::BufferKind>(k)), m.by_kind[k]);
  std::printf("  %-22s  %15ld bytes (sum of the above without host)\n", "arena", m.arena);
  std::printf("  %-22s  %15ld bytes (host memory, outside the arena)\n", "loader", m.loader);
  if (m.replay > 0)
    std::printf("  %-22s  %15ld bytes (host memory, outside the arena)\n", "replay", m.replay);
}

/// The parts that were checked against one another, if not all ranks were.
std::string checked_text(const RunSpec& all, const RunSpec& part) {
  if (part.layout.world() == all.layout.world() && part.micro_batches() == all.micro_batches()) return "";
  return "all " + std::to_string(all.layout.world()) +
         " ranks' plans do not fit in memory at once; checked against " + "one another: dp " +
         std::to_string(part.layout.dp) + " of " + std::to_string(all.layout.dp) + ", " +
         std::to_string(part.micro_batches()) + " of " + std::to_string(all.micro_batches()) +
         " micro-batches";
}

void print_cut(const RunSpec& spec) {
  const std::vector<nets::GraphCut> cuts = nets::graph_cuts(spec.net, spec.layout.cp);
  if (cuts.empty()) return;
  std::printf("\ngraph cut over cp %-12s %12s %12s %12s %25s\n", std::to_string(spec.layout.cp).c_str(),
              "edges", "cut", "halo rows", "edges of a rank");
  for (const nets::GraphCut& cut : cuts) {
    std::printf("by %s%s\n", name_of(cut.partition).c_str(), cut.used ? "" : ", for comparison");
    for (const nets::CutOfEdges& c : cut.edges)
      std::printf("  %-27s %12ld %12ld %12ld %12ld to %9ld\n", c.edges.c_str(), c.all, c.cut, c.halo, c.least,
                  c.most);
  }
}

nlohmann::json cut_json(const RunSpec& spec) {
  nlohmann::json all = nlohmann::json::array();
  for (const nets::GraphCut& cut : nets::graph_cuts(spec.net, spec.layout.cp))
    for (const nets::CutOfEdges& c : cut.edges)
      all.push_back({{"partition", name_of(cut.partition)},
                     {"used", cut.used},
                     {"edges", c.edges},
                     {"count", c.all},
                     {"cut", c.cut},
                     {"halo_rows", c.halo},
                     {"least_of_a_rank", c.least},
                     {"most_of_a_rank", c.most}});
  return all;
}

void draw(const RunSpec& spec, const std::string& file) {
  if (!spec.net.has_edges())
    throw ConfigError("--picture", file, "is of a net's graph, and a " + spec.net.kind() + " has none",
                      "leave it out");
  std::string title = spec.net.kind() + ", " + spec.file;
  if (spec.layout.cp > 1) {
    title += ", over cp " + std::to_string(spec.layout.cp);
    for (const nets::GraphCut& cut : nets::graph_cuts(spec.net, spec.layout.cp))
      if (cut.used) title += " by " + name_of(cut.partition);
  }
  write_atomically(file, report::graph_svg(nets::graph_picture(spec.net, spec.layout.cp), title));
}

/// Axes in the order in which NERSC's check prints them; the last two are those of sums over shared weights.
constexpr std::array<const char*, 6> kAxes = {"dp", "tp", "cp", "pp", "tp-cp", "dp-cp"};

nlohmann::json groups_json(const LayoutSpec& l) {
  nlohmann::json j = nlohmann::json::object();
  for (const char* axes : kAxes) j[axes] = plan::layout_groups(l, axes);
  return j;
}

/// "tp     [0, 1], [2, 3]", and where each rank stands.
std::string groups_text(const LayoutSpec& l) {
  const auto listed = [](const std::vector<int>& ranks) {
    std::string out;
    for (const int r : ranks) out += (out.empty() ? "[" : ", ") + std::to_string(r);
    return out + "]";
  };
  std::string text =
      printed("world size %lld, order %s\n", static_cast<long long>(l.world()), l.order.c_str());
  for (const char* axes : kAxes) {
    const auto groups = plan::layout_groups(l, axes);
    std::string line;
    for (const std::vector<int>& g : groups) line += (line.empty() ? "" : ", ") + listed(g);
    if (groups.front().size() == 1) line = "each rank alone";
    text += printed("%-6s %s\n", axes, line.c_str());
  }
  text += "rank   dp  tp  cp  pp\n";
  for (int rank = 0; rank < l.world(); ++rank) {
    const plan::Coords c = plan::coords_of(l, rank);
    text += printed("%-5d %3d %3d %3d %3d\n", rank, c.dp, c.tp, c.cp, c.pp);
  }
  return text;
}

void run_plan(const PlanArguments& a) {
  if (a.groups) {
    const RunSpec spec = load_run_spec(a.config, a.set);
    const LayoutSpec& l = spec.layout;
    std::fputs((a.json ? groups_json(l).dump(1) + "\n" : groups_text(l)).c_str(), stdout);
    return;
  }
  const nets::MicroBatchChoice micro_batch = engine::planned_micro_batch(load_run_spec(a.config, a.set));
  const RunSpec& spec = micro_batch.spec;
  if (!a.picture.empty()) draw(spec, a.picture);
  if (a.rank < 0 || a.rank >= spec.layout.world())
    throw ConfigError("--rank", "",
                      std::to_string(a.rank) + " is not in 0 … " + std::to_string(spec.layout.world() - 1),
                      "name a rank of the layout");
  const int threads = spec.run.threads > 0
                          ? static_cast<int>(spec.run.threads)
                          : std::max(1, engine::cores() / static_cast<int>(spec.layout.world()));
  const plan::Workspace workspace = engine::planned_workspace(spec, threads);
  plan::Plan plan = nets::build_plan(spec, a.rank, workspace);
  nets::check_world(spec, workspace);
  const std::string checked = checked_text(spec, nets::world_to_check(spec, workspace));
  const plan::Totals t = plan::totals(plan, spec.micro_batch());
  plan.memory = nets::step_memory(spec, plan);
  const double forward_flops = nets::forward_flops_per_sample(spec);
  if (!a.json) {
    print(plan, t, forward_flops, nets::idle_parameters(spec.net), a.totals);
    print_cut(spec);
    if (micro_batch.chosen) std::printf("note: %s\n", micro_batch.text().c_str());
    if (!checked.empty()) std::printf("note: %s\n", checked.c_str());
    return;
  }
  nlohmann::json j = {{"rank", plan.rank},
                      {"world", plan.world},
                      {"checked", checked},
                      {"micro_batch", spec.micro_batch()},
                      {"plan_hash", sha256_hex(plan::to_text(plan))},
                      {"parameters", plan.parameter_count()},
                      {"parameters_of_a_token", plan.parameter_count() - nets::idle_parameters(spec.net)},
                      {"flops_forward_per_sample", forward_flops},
                      {"flops_step", t.step.flops},
                      {"bytes_step", t.step.bytes()},
                      {"wire_bytes_step", t.step.wire_bytes},
                      {"ops_step", t.ops},
                      {"memory", records::to_json(engine::memory_of(plan.memory))}};
  if (const nlohmann::json cut = cut_json(spec); !cut.empty()) j["graph_cut"] = cut;
  if (!a.totals) j["ops"] = ops_json(plan);
  std::cout << json_text(j, 1) << "\n";
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto a = std::make_shared<PlanArguments>();
  CLI::App* c = app.add_subcommand("plan", "Print what one rank does in one step: ops, FLOPs, bytes, memory");
  add_config_option(*c, a->config, "config")->required();
  c->add_option("--set", a->set, "Override a key: --set layout.dp=2 (repeatable)")
      ->allow_extra_args(false)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  c->add_option("--rank", a->rank, "Rank of the layout");
  c->add_flag("--totals", a->totals, "Print the totals only");
  c->add_flag("--json", a->json, "Print JSON on stdout");
  c->add_option("--picture", a->picture,
                "Draw the net's graph and its partition over layout.cp into this SVG file");
  c->footer(
      "  isobar plan configs/models/vit-1536.yaml --totals\n"
      "  isobar plan configs/models/vit-384.yaml --set layout.dp=2 --set policy.amp=bf16 --rank 1\n"
      "  isobar plan configs/models/regional-gnn.yaml --totals --set layout.cp=4 --picture cut.svg\n\n"
      "Each routine is listed once; the last lines give the order in which a step invokes them: forward(1)@0 "
      "is "
      "micro-batch 1\n"
      "with slot 0 of the saved activations. The plans of all ranks (or of as many as fit in memory) are "
      "checked\nagainst each other. Nothing is run and no data is read.");
  auto* groups =
      c->add_flag("--groups", a->groups, "Print the ranks of each communicator group, and no plan");
  for (const char* other : {"--rank", "--totals", "--picture"}) groups->excludes(c->get_option(other));
  c->callback([a] { run_plan(*a); });
}

}  // namespace isobar::cli
