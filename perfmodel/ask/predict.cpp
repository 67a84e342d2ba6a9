#include "perfmodel/ask/predict.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <vector>

#include "model/base/measurement.h"
#include "model/nets/build.h"
#include "model/nets/layout/plan_size.h"
#include "model/plan/layout.h"
#include "model/plan/ops/work.h"
#include "perfmodel/ask/layout_predict.h"
#include "perfmodel/fitting/layout_fit.h"
#include "perfmodel/step/cost.h"
#include "perfmodel/step/engine_prices.h"
#include "perfmodel/step/expert_imbalance.h"
#include "perfmodel/step/planned_step.h"
#include "perfmodel/step/reading.h"

namespace isobar::perf {
namespace {

std::vector<Term> terms_of(const RankTimes& t, double correction) {
  Counts parts = t.parts;
  parts[index_of(Coef::host_op)] += t.host;
  return name_terms(parts,
                    {{term::kExposed, std::accumulate(t.exposed.begin(), t.exposed.end(), 0.0)},
                     {term::kSlowdown, t.slowdown},
                     {term::kBubble, t.bubble},
                     {term::kImbalance, t.imbalance},
                     {term::kReading, t.reading},
                     {term::kStolen, t.stolen},
                     {term::kDataWait, t.data_wait}},
                    correction);
}

std::string short_number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", v);
  return text;
}

// Reports how reading is priced, if its name does not say.
void say_how_read(const RunSpec& spec, const Conditions& where, const Machine& m, double step_s,
                  std::vector<std::string>& out) {
  const Coef decode = Coef::read_decode;
  const Counts rate = rates(m.values(), where), counts = reading_of(spec, where).counts;
  const auto is_made = [&](const std::string& from) {  // a fit by runs is of their data
    return from == "spec" ||
           (from.starts_with(read_kind(spec)) && from.find("/" + std::string(kOwnData)) == std::string::npos);
  };
  const std::vector<std::string>& from = m[decode].provenance;
  if (counts[index_of(decode)] > 0 && std::all_of(from.begin(), from.end(), is_made))
    out.push_back(
        spec.data.train +
        " is priced as chunks of one step that zstd compressed: isobar calibrate --for CONFIG times "
        "it as it is");
  for (const Coef c : {Coef::read_noise, Coef::read_hdf5, Coef::read_netcdf, Coef::read_zarr, decode,
                       Coef::read_sample, Coef::read_table, Coef::read_row}) {
    const double share = counts[index_of(c)] * rate[index_of(c)] / step_s;
    if (!m[c].measured() && share > 0.05)
      out.push_back(std::string(info_of(c).name) +
                    " was not measured on this machine; reading data at its assumed price takes " +
                    short_number(std::round(100 * share)) + " % of the step");
  }
}

std::vector<std::string> warnings_on_cores(const RunSpec& spec, const Conditions& where, const StepView& view,
                                           const Machine& m, const Replay& r) {
  std::vector<std::string> out = extrapolations(view, m);
  if (std::string w = assumed_imbalance(spec, m); !w.empty()) out.push_back(std::move(w));
  for (size_t i = 0; i < kCoefs; ++i)
    if (!m.coefficients[i].measured() && r.busiest.parts[i] > 0.05 * r.step_s)
      out.push_back(std::string(info_of(i).name) +
                    " was not measured on this machine, and its assumed value sets " +
                    short_number(std::round(100 * r.busiest.parts[i] / r.step_s)) + " % of the step");
  say_how_read(spec, where, m, r.step_s, out);
  if (spec.policy.amp == Amp::tf32 || spec.policy.amp == Amp::fp16)
    out.push_back("policy.amp " + name_of(spec.policy.amp) + " is emulated on CPUs: priced as " +
                  (spec.policy.amp == Amp::tf32 ? "fp32" : "bf16") +
                  ", without the passes that round the operands");
  if (where.threads * where.ranks_on_host > where.cores)
    out.emplace_back("more compute threads than cores: threads share cores");
  return out;
}

// One rank of each stage stands for the others; of a cut graph, whose parts are unequal, the slowest one.
std::pair<PlannedStep, Replay> slowest(const RunSpec& spec, const plan::Workspace& workspace,
                                       const Machine& m, const HostShare& host) {
  std::vector<int> ranks{0};
  if (spec.layout.cp > 1 && spec.net.has_edges()) ranks = plan::group_of(spec.layout, "cp", 0);
  std::optional<std::pair<PlannedStep, Replay>> slowest;
  for (const int rank : ranks) {
    PlannedStep step(spec, m, host, workspace, rank);
    Replay r = step.replayed(m.values());
    if (!slowest || r.step_s > slowest->second.step_s) slowest.emplace(std::move(step), std::move(r));
  }
  return *std::move(slowest);
}

// The time by the replay; how sure it is by the closed form, whose prices can be moved quickly.
Prediction on_cores(const RunSpec& spec, const Machine& m, const PredictOptions& options) {
  Prediction p;
  p.where = conditions_of(spec, m, options.host);
  const plan::Workspace workspace =
      options.workspace ? options.workspace(static_cast<int>(p.where.threads)) : plan::Workspace{};
  const plan::Memory memory = nets::fullest(spec, workspace);
  const auto [step, r] = slowest(spec, workspace, m, options.host);
  LayoutModels models;
  const StepView view = models.view(spec, m, options.host);
  const Estimate e = estimate(view, m, r.step_s);
  p.step_s = e.seconds;
  p.lower = e.lower;
  p.upper = e.upper;
  p.ceiling_s = step.ceiling_s;
  refuse_above_ceiling(e.physics, p.ceiling_s, m);
  p.samples_per_s = static_cast<double>(spec.train.global_batch) / p.step_s;
  p.tokens_per_s = p.samples_per_s * static_cast<double>(spec.net.tokens());
  p.correction = e.seconds / e.physics;
  p.terms = terms_of(r.busiest, p.correction);
  for (size_t l = 0; l < plan::kLanes; ++l)
    if (r.busiest.lanes[l] > 0)
      p.lanes.push_back({plan::name_of(static_cast<plan::Lane>(l)), r.busiest.lanes[l] * p.correction,
                         r.busiest.exposed[l] * p.correction});
  p.counts = r.busiest.counts;
  for (const nets::StageProgram& stage : step.stages)  // each stands for the other ranks of its stage
    p.hardware_flops += plan::totals(stage.plan, spec.micro_batch()).step.flops *
                        static_cast<double>(spec.layout.world()) / static_cast<double>(step.stages.size());
  for (int k = 0; k < plan::kBufferKinds; ++k)
    if (memory.by_kind[k] > 0)
      p.memory.emplace_back(plan::name_of(static_cast<plan::BufferKind>(k)), memory.by_kind[k]);
  p.memory.emplace_back("loader", memory.loader);
  if (memory.replay > 0) p.memory.emplace_back("replay", memory.replay);
  p.memory.emplace_back("process", static_cast<int64_t>(m[Coef::process].value));
  p.memory_total = memory.total() + static_cast<int64_t>(m[Coef::process].value);
  p.memory_there = memory_of_rank(m, p.where.ranks_on_host);
  p.checkpoint = checkpoint_cost(spec, static_cast<double>(step.stages[0].plan.parameter_count()), m,
                                 p.where.ranks_on_host);
  p.warnings = warnings_on_cores(spec, p.where, view, m, r);
  return p;
}

// A long step is answered by the closed form, in milliseconds instead of minutes.
bool is_long(const RunSpec& spec) {
  constexpr double kMostBytes = 64e6;  // of a rank's linked program
  return nets::step_bytes(nets::build_plan(spec, 0, {})) > kMostBytes;
}

// Replaces the closed form's memory by that of placed plans.
void place_memory(const RunSpec& spec, const Machine& m, const plan::Workspace& workspace, Prediction& p) {
  const nets::DeviceMemory placed = nets::device_memory(spec, workspace, room_of(m));
  const auto of = [&](plan::BufferKind kind) { return placed.plan.by_kind[static_cast<int>(kind)]; };
  const int64_t saved = of(plan::BufferKind::saved), scratch = of(plan::BufferKind::scratch);
  p.memory = {{"parameters, gradients, optimizer", placed.plan.arena - saved - scratch},
              {"activations", saved},
              {"scratch", scratch},
              {"process", std::llround(placed.process)}};
  if (placed.nccl > 0) p.memory.emplace_back("NCCL's buffers (estimate)", placed.nccl);
  p.memory_total = std::llround(placed.total());
}

}  // namespace

nets::MicroBatchChoice choose_micro_batch(const RunSpec& spec, const Machine& m,
                                          const PredictOptions& options) {
  if (device_of(spec, m) == Device::cores) return {.spec = spec};
  return nets::largest_micro_batch(
      spec, options.device_workspace ? options.device_workspace() : plan::Workspace{}, room_of(m));
}

std::string gigabytes(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g GB", 1e-9 * bytes);
  return text;
}

void refuse_above_ceiling(double seconds, double ceiling_s, const Machine& m) {
  if (seconds < ceiling_s * (1 - 1e-9))
    throw std::logic_error("predicted step of " + short_number(seconds) +
                           " s is faster than the machine's peaks allow (" + short_number(ceiling_s) +
                           " s): wrong coefficients or peaks in " +
                           (m.file.empty() ? "the machine" : m.file));
}

Prediction predict(const RunSpec& spec, const Machine& given, const PredictOptions& options) {
  const Machine m = machine_of(spec, given);
  const Device device = device_of(spec, m);
  Prediction p;
  nets::check_plan_size(spec);
  if (device == Device::cores && !options.closed_form && !is_long(spec)) {
    p = on_cores(spec, m, options);
  } else {
    validate(spec);
    LayoutModel model(spec, m, options.host);
    p = predict_layout(model, layout_of(spec), options.campaign);
    if (device == Device::accelerator && options.device_workspace)
      place_memory(spec, m, options.device_workspace(), p);
  }
  if (spec.net.recorded())
    p.warnings.emplace_back(
        "nothing says how a recorded net's samples are read: its loader is taken to keep up");
  if (!p.fits())
    p.warnings.insert(p.warnings.begin(), "does not fit: " + shortfall(p) + ", and runs out of memory");
  return p;
}

std::string shortfall(const Prediction& p) {
  if (p.fits()) return "";
  const auto total = static_cast<double>(p.memory_total);
  if (p.device == Device::accelerator)
    return "a rank needs " + gigabytes(total) + " of an accelerator's " + gigabytes(p.memory_there);
  const auto here = static_cast<double>(p.where.ranks_on_host);
  return "a host's ranks need " + gigabytes(total * here) + " of its " + gigabytes(p.memory_there * here);
}

Rates rates_of(const Prediction& p, const RunSpec& spec, const Machine& m) {
  return rates_of({nets::model_flops(spec), p.hardware_flops}, p.step_s, p.where.ranks,
                  peak_flops(m, p.where, peak_of(spec)));
}

std::vector<Term> name_terms(const Counts& parts, const std::vector<Term>& others, double correction) {
  std::vector<Term> out;
  const auto add = [&](const std::string& name, double seconds) {
    if (seconds <= 0) return;
    auto known = std::find_if(out.begin(), out.end(), [&](const Term& t) { return t.name == name; });
    if (known == out.end()) known = out.insert(known, Term{name});
    known->seconds += seconds * correction;
  };
  for (size_t i = 0; i < kCoefs; ++i) add(info_of(i).term, parts[i]);
  for (const Term& t : others) add(t.name, t.seconds);
  // Drops rounding errors of differences of sums
  double all = 0;
  for (const Term& t : out) all += t.seconds;
  std::erase_if(out, [&](const Term& t) { return t.seconds < 1e-12 * all; });
  std::stable_sort(out.begin(), out.end(),
                   [](const Term& a, const Term& b) { return a.seconds > b.seconds; });
  return out;
}

}  // namespace isobar::perf
