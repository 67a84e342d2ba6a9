#include "model/engine/output/run_text.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <ranges>

#include "model/backend/cpu/cpu_backend.h"
#include "model/base/system/files.h"
#include "model/base/text/joined.h"
#include "model/base/text/json.h"
#include "model/engine/host/host.h"
#include "model/engine/output/summary.h"
#include "model/inference/channel_loss.h"
#include "model/nets/graph/region_graph.h"
#include "model/plan/layout.h"

namespace isobar::engine {
namespace {

struct RunFacts {                       // facts that the specification does not contain
  int64_t parameters = 0, trained = 0;  // all, and those not frozen
  int64_t memory_bytes = 0;             // of the fullest rank, as planned
  std::string micro_batch;              // how the engine chose it; "" if it was given
  int ranks = 1, ranks_on_host = 1, threads = 1;
  data::LeftOut left_out;
  std::vector<std::string> flat_channels;    // Dataset::flat_channels
  int64_t steps_per_epoch = 0, samples = 0;  // of the training data
  bool validates = false;
  int64_t first_step = 0;  // the run resumes after this step
  std::string device;
};

template <class... Values>
std::string text(const char* format, Values... values) {
  char out[400];
  std::snprintf(out, sizeof out, format, values...);
  return out;
}

std::string line(const char* what, const std::string& says) {
  return text("%-10s ", what) + says + "\n";
}

std::string grouped(int64_t n) {  // 134,976
  std::string digits = std::to_string(n);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

std::string some(int64_t n, const std::string& what) {  // 1 rank, 2 ranks
  return std::to_string(n) + " " + what + (n == 1 ? "" : what.ends_with("ch") ? "es" : "s");
}

std::string shape_text(const MlpSpec& n) {
  std::string widths = std::to_string(n.in_features);
  for (const int64_t width : n.hidden) widths += " -> " + std::to_string(width);
  return widths + " -> " + std::to_string(n.out_features) + ", " + name_of(n.activation) +
         (n.dropout > 0 ? text(", dropout %g", n.dropout) : "");
}

std::string shape_text(const RegionalGnnSpec& n) {
  const auto two = [](int64_t a, int64_t b) { return grouped(a) + " + " + grouped(b); };
  return some(n.num_gnn_layers, "step") + " of " + std::to_string(n.latent_size) + ", " +
         two(n.tokens(), n.upstream_box().points()) + " nodes (of the latter " +
         grouped(nets::sending_box(n).points()) + " are read), " + two(n.intra_edges(), n.boundary_edges()) +
         text(" edges, %ld -> %ld channels", n.in_channels, n.out_channels);
}

std::string shape_text(const GraphcastSpec& n) {
  return some(n.num_gnn_layers, "step") + " of " + std::to_string(n.latent_size) + " on a mesh of " +
         grouped(n.mesh_nodes()) + " nodes and " + grouped(n.mesh_edges()) + " edges, " +
         text("%ld -> %ld channels of %ld x %ld", n.in_channels, n.out_channels, n.img_height, n.img_width);
}

std::string shape_text(const TracedSpec& n) {
  return some(n.blocks() + 2, "part") + " of " + n.file;
}

std::string experts_text(const LlamaSpec& n) {
  if (!n.has_experts()) return "";
  const ExpertsSpec& x = n.experts;
  const std::string shared =
      x.num_shared_experts > 0 ? ", " + std::to_string(x.num_shared_experts) + " shared" : "";
  return ", " + some(x.num_experts, "expert") + " of " + grouped(n.expert_hidden()) + " (" +
         std::to_string(x.num_experts_per_tok) + " a token" + shared + ")";
}

// Nets of transformer blocks
template <class Net>
std::string shape_text(const Net& n) {
  const std::string blocks =
      some(n.blocks(), "block") + " of " + std::to_string(n.width()) + ", " + some(n.heads(), "head");
  if constexpr (requires { n.in_channels; })
    return blocks + text(", %ld -> %ld channels of %ld x %ld", n.in_channels, n.out_channels, n.img_height,
                         n.img_width);
  else if constexpr (requires { n.experts; })
    return blocks + experts_text(n) + ", sequences of " + grouped(n.seq_length) + " of " +
           grouped(n.vocab_size) + " words";
  else
    return blocks + ", sequences of " + grouped(n.seq_length) + " of " + grouped(n.vocab_size) + " words";
}

std::string net_text(const NetSpec& net, int64_t parameters) {
  return net.kind() + ", " + grouped(parameters) +
         " parameters: " + net.visit([](const auto& n) { return shape_text(n); });
}

std::string layout_text(const RunSpec& s, const RunFacts& f) {
  std::string axes;
  for (const auto& [name, ways] : {std::pair{"dp", s.layout.dp},
                                   {"tp", s.layout.tp},
                                   {"cp", s.layout.cp},
                                   {"ep", s.layout.ep},
                                   {"pp", s.layout.pp}})
    if (ways > 1) axes += (axes.empty() ? "" : " ") + std::string(name) + " " + std::to_string(ways);
  const int64_t hosts = (f.ranks + f.ranks_on_host - 1) / f.ranks_on_host;
  return (axes.empty() ? "" : axes + ": ") + some(f.ranks, "rank") + " on " + some(hosts, "host") + ", " +
         some(f.threads, "thread") + " each" +
         (s.policy.zero > 0 ? ", ZeRO " + std::to_string(s.policy.zero) : "");
}

std::string precision_text(const RunSpec& s) {
  if (s.policy.amp == Amp::none) return "fp32";
  static const std::map<Amp, std::string> modes = {
      {Amp::bf16, "bf16_mode"}, {Amp::fp16, "f16_mode"}, {Amp::tf32, "tf32_mode"}};
  const auto mode = modes.find(s.policy.amp);
  if (s.run.device == RunDevice::cuda || mode == modes.end()) return name_of(s.policy.amp);
  return name_of(s.policy.amp) + " (on CPUs: " + provenance().value(mode->second, "") + ")";
}

std::string data_text(const RunSpec& s, const RunFacts& f) {
  std::string data = !s.data.train.empty() ? s.data.train
                     : s.net.words()       ? "synthetic tokens"
                                           : "synthetic noise";
  if (f.steps_per_epoch > 0) data += ": " + some(f.steps_per_epoch, "step") + " an epoch";
  const data::LeftOut& out = f.left_out;
  if (out.missing > 0) data += "; " + grouped(out.missing) + " rows with missing values skipped";
  if (out.masked > 0) data += "; " + grouped(out.masked) + " masked (" + name_of(s.data.mask_mode) + ")";
  if (out.thinned > 0) data += "; " + grouped(out.thinned) + " removed by thinning";
  if (!f.validates) return data + "; no validation";
  return data + "; validation: " + (s.data.valid.empty() ? "its last part" : s.data.valid);
}

// One line for any number of channels
std::string flat_text(const RunFacts& f) {
  constexpr size_t kNamed = 8;
  if (f.flat_channels.empty()) return "";
  std::string names = joined(f.flat_channels | std::views::take(kNamed));
  if (f.flat_channels.size() > kNamed)
    names += " and " + std::to_string(f.flat_channels.size() - kNamed) + " more";
  return line("WARNING",
              "these channels hardly vary in the training data and are only centred, not scaled: " + names);
}

std::string steps_text(const RunSpec& s, const RunFacts& f) {
  const TrainSpec& t = s.train;
  const auto every = [](int64_t n) { return n == TrainSpec::kEpoch ? "epoch" : std::to_string(n); };
  std::string steps = std::to_string(t.steps);
  if (f.first_step > 0) steps = std::to_string(f.first_step + 1) + " to " + steps;
  if (t.epochs > 0)
    steps += ": " + std::to_string(t.epochs) + (t.epochs == 1 ? " epoch of " : " epochs of ") +
             std::to_string(f.steps_per_epoch);
  if (const int64_t rest = f.samples % t.global_batch; t.counts_epochs() && rest > 0)
    steps += ", without " + some(rest, "sample") + " of " + std::to_string(f.samples) + " in each";
  if (f.validates && t.valid_every != 0) steps += "; validation every " + every(t.valid_every);
  return steps + (t.checkpoint_every != 0 ? "; checkpoint every " + every(t.checkpoint_every)
                                          : "; no checkpoints (train.checkpoint_every)");
}

std::string trained_text(const RunSpec& s, const RunFacts& f) {
  if (f.trained == f.parameters) return "";
  const TrainSpec& t = s.train;
  std::string out = grouped(f.trained) + text(" of them (%.3g %%)", 100.0 * static_cast<double>(f.trained) /
                                                                        static_cast<double>(f.parameters));
  if (t.lora_rank > 0)
    out += text(": adapters of rank %ld, times %g", t.lora_rank, s.lora_scale()) +
           (t.freeze.empty() ? "; the rest is frozen, because train.freeze is empty" : "");
  return line("trained", out);
}

/// "rank 3 of 8: dp 1, tp 1, cp 0, pp 0; process 1234".
std::string place_text(const LayoutSpec& layout, int rank, int ranks) {
  const plan::Coords at = plan::coords_of(layout, rank);
  return text("rank %d of %d: dp %d, tp %d, cp %d, pp %d; process %d", rank, ranks, at.dp, at.tp, at.cp,
              at.pp, ::getpid());
}

std::string header_text(const RunSpec& s, const RunFacts& f) {
  return line("net", net_text(s.net, f.parameters)) + trained_text(s, f) + line("layout", layout_text(s, f)) +
         line("batch",
              some(s.train.global_batch, "sample") + " a step: " + some(s.micro_batches(), "micro-batch") +
                  " of " + std::to_string(s.micro_batch()) +
                  (s.layout.dp > 1 ? " on each of " + std::to_string(s.layout.dp) + " replicas" : "") +
                  (f.micro_batch.empty() ? "" : " (" + f.micro_batch + ")")) +
         line("optimizer",
              name_of(s.train.optimizer) + text(", lr %g ", s.train.lr) + name_of(s.train.lr_schedule)) +
         line("precision", precision_text(s)) +
         line("memory", text("%.1f MB a rank (the plan's arena and loader, fullest rank)",
                             1e-6 * static_cast<double>(f.memory_bytes))) +
         line("data", data_text(s, f)) + flat_text(f) + line("steps", steps_text(s, f)) +
         line("device", f.device) +
         line("out",
              s.run.out.empty() ? "results are not kept (set run.out=runs/NAME to keep them)" : s.run.out);
}

}  // namespace

std::string summary_text(const RunSpec& s, const records::EndRecord& end) {
  const StepStats step = end.step_s.value_or(StepStats());
  std::string out = text("%ld steps in %.1f s", end.trained_steps.value_or(0), end.seconds.value_or(0));
  if (step.median > 0)
    out += text(": %.2f ms a step (median; 80 %% from %.2f to %.2f), %.4g %s/s", 1e3 * step.median,
                1e3 * step.p10, 1e3 * step.p90,
                end.samples_per_s.value_or(0) * static_cast<double>(s.net.words() ? s.net.tokens() : 1),
                s.net.words() ? "tokens" : "samples");
  out = line("trained", out);
  if (end.final_loss) {
    std::string says = text("%.5f after step %ld", *end.final_loss, end.steps.value_or(s.train.steps));
    if (const auto& v = end.valid)
      says += text("; validation after step %ld: loss %.5f", v->step, v->loss) +
              (v->perplexity ? text(", perplexity %.5g", *v->perplexity) : "") +
              (v->rmse ? text(", rmse %.5f", *v->rmse) : "") + (v->mae ? text(", mae %.5f", *v->mae) : "") +
              (v->accuracy ? text(", accuracy %.5f", *v->accuracy) : "") +
              (v->baseline_accuracy ? text(", most frequent class %.5f", *v->baseline_accuracy) : "") +
              (v->persistence_rmse ? text(", persistence %.5f", *v->persistence_rmse) : "");
    out += line("loss", says);
  }
  if (s.run.out.empty()) return out;
  out += line("kept", end.checkpoint.value_or("no weights: train.checkpoint_every is " +
                                              std::to_string(s.train.checkpoint_every)));
  return out + line("results", s.run.out + "/result.jsonl") +
         line("next", "isobar report " + s.run.out + " -o " + s.run.out + "/report");
}

void record_start(const TrainContext& run, const plan::Plan& plan) {
  if (!run.log.on()) return;
  records::StartRecord start = start_of_run(run.spec, plan, run.mpi.size(), run.mpi.ranks_on_host(),
                                            run.threads, run.resume != nullptr);
  if (!run.device.gpu) start.kernels = cpu_kernels(plan);
  if (!run.options.about.empty()) start.provenance["about"] = run.options.about;
  if (run.options.expected) start.provenance["expected"] = records::to_json(*run.options.expected);
  run.log.write(std::move(start));
  write_atomically(std::filesystem::path(run.spec.run.out) / "spec.json",
                   json_text(to_json(run.spec), 1) + "\n");
}

void print_header(const TrainContext& run, const plan::Plan& plan, const RankData& data) {
  RunFacts f{.parameters = plan.parameter_count(),
             .trained = plan.trained_count(),
             .ranks = run.mpi.size(),
             .threads = run.threads};
  f.memory_bytes = static_cast<int64_t>(run.mpi.max_of(static_cast<double>(plan.memory.total())));
  f.ranks_on_host = run.mpi.ranks_on_host();
  f.steps_per_epoch = data.steps_per_epoch();
  f.samples = data.training_samples();
  f.left_out = data.left_out();
  f.flat_channels = data.flat_channels();
  f.validates = data.has_validation();
  f.first_step = run.resume ? run.resume->state.train.step : 0;
  f.micro_batch = run.micro_batch;
  f.device = run.device.gpu ? run.device.name : cpu_name();
  if (run.options.every_rank) run.say(place_text(run.spec.layout, run.mpi.rank(), run.mpi.size()));
  run.say(header_text(run.spec, f));
  if (run.resume) run.say(text_of(*run.resume) + "\n");
  if (run.resume && run.spec.train.replay_capacity > 0)
    run.say("the replay buffer's predictions are not in checkpoints: the data's states stand in for them\n");
}

void print_loss_weights(const TrainContext& run, const TrainSpec& t, const RankData& data) {
  if (!inference::weighs_channels(t) && t.intensity.empty()) return;
  const std::vector<inference::ChannelPlace> places =
      inference::places_of(run.spec, data.net_channels().targets);
  std::string text;
  char one[96];
  for (size_t c = 0; c < places.size(); ++c) {
    std::snprintf(one, sizeof one, "%s%s %.3g", c > 0 ? ", " : "", places[c].name.c_str(),
                  t.loss_weights.empty() ? 1.0 : t.loss_weights[c]);
    text += one;
    if (t.intense_weights.empty() || t.intense_weights[c] == 1) continue;
    std::snprintf(one, sizeof one, " (x %.3g above %.3g normalised)", t.intense_weights[c],
                  t.intense_above[c]);
    text += one;
  }
  run.say("loss weights " + text);
}

}  // namespace isobar::engine
