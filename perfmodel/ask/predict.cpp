#include "perfmodel/ask/predict.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>

#include "model/base/measurement.h"
#include "perfmodel/ask/layout_predict.h"
#include "perfmodel/step/long_step.h"

namespace isobar {
namespace {

std::vector<Term> terms_of(const StepCost& s, double correction) {
  Counts parts = s.parts;
  for (size_t i = 0; i < kCoefs; ++i)  // of communication, only the exposed part
    if (info_of(i).resource == Resource::wire) parts[i] = 0;
  return name_terms(parts,
                    {{term::kExposed, s.exposed},
                     {term::kSlowdown, s.slowdown},
                     {term::kBubble, s.bubble},
                     {term::kImbalance, s.imbalance},
                     {term::kReading, s.read_serial},
                     {term::kStolen, s.stolen},
                     {term::kDataWait, s.data_wait}},
                    correction);
}

std::string short_number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", v);
  return text;
}

// Reports how reading is priced, if its name does not say.
void say_how_read(const RunSpec& spec, const StepTerms& terms, const Machine& m, const StepCost& s,
                  std::vector<std::string>& out) {
  const Coef decode = Coef::read_decode;
  const Counts rate = rates(m.values(), terms.where);
  const auto is_made = [&](const std::string& from) {  // a fit by runs is of their data
    return from == "spec" ||
           (from.starts_with(read_kind(spec)) && from.find("/" + std::string(kOwnData)) == std::string::npos);
  };
  const std::vector<std::string>& from = m[decode].provenance;
  if (terms.read[index_of(decode)] > 0 && std::all_of(from.begin(), from.end(), is_made))
    out.push_back(
        spec.data.train +
        " is priced as chunks of one step that zstd compressed: isobar calibrate --for CONFIG times "
        "it as it is");
  for (const Coef c : {Coef::read_noise, Coef::read_hdf5, Coef::read_netcdf, Coef::read_zarr, decode,
                       Coef::read_sample, Coef::read_table, Coef::read_row}) {
    const double share = terms.read[index_of(c)] * rate[index_of(c)] / s.total;
    if (!m[c].measured() && share > 0.05)
      out.push_back(std::string(info_of(c).name) +
                    " was not measured on this machine; reading data at its assumed price takes " +
                    short_number(std::round(100 * share)) + " % of the step");
  }
}

// The fit's runs may differ in how far apart a hypervisor placed their cores; the step is priced for one of
// the distances.
void say_how_far(const StepTerms& terms, const Machine& m, double step_s, std::vector<std::string>& out) {
  if (!m.fit || terms.where.core_trip_s <= 0) return;
  const auto seen = m.fit->range.find("core_trip_ns");
  if (seen == m.fit->range.end() || equally_far(seen->second[0], seen->second[1])) return;
  StepTerms other = terms;
  const double here = 1e9 * terms.where.core_trip_s;
  const double there =
      here > std::sqrt(seen->second[0] * seen->second[1]) ? seen->second[0] : seen->second[1];
  other.where.core_trip_s = 1e-9 * there;
  const double change = step_seconds(other, m.values()) / step_s - 1;
  if (std::abs(change) < 0.05) return;
  char text[240];
  std::snprintf(text, sizeof text,
                "priced for cores %.0f ns apart (a cache line's round trip): runs that were fitted found "
                "them %.0f to %.0f "
                "apart, and at %.0f the step takes %.0f %% %s",
                here, seen->second[0], seen->second[1], there, 100 * std::abs(change),
                change > 0 ? "more" : "less");
  out.emplace_back(text);
}

// `distance_known`: the core distance of a measured run is known.
std::vector<std::string> warnings_on_cores(const RunSpec& spec, const StepTerms& terms, const Machine& m,
                                           const StepCost& s, bool distance_known) {
  std::vector<std::string> out = extrapolations(view_of(spec, terms, m), m);
  for (size_t i = 0; i < kCoefs; ++i)
    if (!m.coefficients[i].measured() && s.parts[i] > 0.05 * s.total)
      out.push_back(std::string(info_of(i).name) +
                    " was not measured on this machine, and its assumed value sets " +
                    short_number(std::round(100 * s.parts[i] / s.total)) + " % of the step");
  say_how_read(spec, terms, m, s, out);
  if (!distance_known) say_how_far(terms, m, s.total, out);
  if (spec.policy.amp == "tf32" || spec.policy.amp == "fp16")
    out.push_back("policy.amp " + spec.policy.amp + " is emulated on CPUs: priced as " +
                  (spec.policy.amp == "tf32" ? "fp32" : "bf16") +
                  ", without the passes that round the operands");
  if (terms.where.threads * terms.where.ranks_on_host > terms.where.cores)
    out.emplace_back("more compute threads than cores: threads share cores");
  return out;
}

Prediction on_cores(const RunSpec& spec, const Machine& m, const PredictOptions& options) {
  Prediction p;
  p.where = conditions_of(spec, m, options.host);
  const Workspace workspace =
      options.workspace ? options.workspace(static_cast<int>(p.where.threads)) : Workspace{};
  const Memory memory = fullest(spec, workspace);
  const CountedStep step =
      count_step(spec, workspace, p.where, cache_share(m, p.where.ranks_on_host), m.values());
  const StepTerms& terms = step.terms;
  const StepCost s = step_cost(terms, m.values());
  const Estimate e = estimate(spec, terms, m);
  p.step_s = e.seconds;
  p.lower = e.lower;
  p.upper = e.upper;
  p.ceiling_s = ceiling_seconds(terms, m.peaks.at("f32").value, m.peaks.at("bf16").value);
  refuse_above_ceiling(e.physics, p.ceiling_s, m);
  p.samples_per_s = static_cast<double>(terms.samples) / p.step_s;
  p.tokens_per_s = p.samples_per_s * static_cast<double>(spec.net.tokens());
  p.correction = e.seconds / e.physics;
  p.terms = terms_of(s, p.correction);
  for (size_t l = 0; l < s.by_lane.size(); ++l)
    if (s.by_lane[l] > 0)
      p.lanes.push_back(
          {name_of(static_cast<Lane>(l)), s.by_lane[l] * p.correction, s.exposed_by_lane[l] * p.correction});
  p.counts = terms.total;
  p.hardware_flops = step.flops;
  for (int k = 0; k < kBufferKinds; ++k)
    if (memory.by_kind[k] > 0) p.memory.emplace_back(name_of(static_cast<BufferKind>(k)), memory.by_kind[k]);
  p.memory.emplace_back("loader", memory.loader);
  if (memory.replay > 0) p.memory.emplace_back("replay", memory.replay);
  p.memory.emplace_back("process", static_cast<int64_t>(m[Coef::process].value));
  p.memory_total = memory.total() + static_cast<int64_t>(m[Coef::process].value);
  p.memory_there = memory_of_rank(m, p.where.ranks_on_host);
  p.checkpoint = checkpoint_cost(spec, step.parameters, m, p.where.ranks_on_host);
  p.warnings = warnings_on_cores(spec, terms, m, s, options.host.core_trip_ns > 0);
  return p;
}

// Replaces the closed form's memory by that of placed plans.
void place_memory(const RunSpec& spec, const Machine& m, const Workspace& workspace, Prediction& p) {
  const DeviceMemory placed = device_memory(spec, workspace, room_of(m));
  const auto of = [&](BufferKind kind) { return placed.plan.by_kind[static_cast<int>(kind)]; };
  const int64_t saved = of(BufferKind::saved), scratch = of(BufferKind::scratch);
  p.memory = {{"parameters, gradients, optimizer", placed.plan.arena - saved - scratch},
              {"activations", saved},
              {"scratch", scratch},
              {"process", std::llround(placed.process)}};
  if (placed.nccl > 0) p.memory.emplace_back("NCCL's buffers (estimate)", placed.nccl);
  p.memory_total = std::llround(placed.total());
}

}  // namespace

MicroBatchChoice choose_micro_batch(const RunSpec& spec, const Machine& m, const PredictOptions& options) {
  if (device_of(spec, m) == Device::cores) return {.spec = spec};
  return largest_micro_batch(spec, options.device_workspace ? options.device_workspace() : Workspace{},
                             room_of(m));
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

Prediction predict(const RunSpec& spec, const Machine& m, const PredictOptions& options) {
  const Device device = device_of(spec, m);
  Prediction p;
  if (device == Device::cores && !options.closed_form) {
    p = on_cores(spec, m, options);
  } else {
    validate(spec);
    LayoutModel model(spec, m, options.host);
    p = predict_layout(model, layout_of(spec), options.campaign);
    if (device == Device::accelerator && options.device_workspace)
      place_memory(spec, m, options.device_workspace(), p);
  }
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
  return rates_of({model_flops(spec), p.hardware_flops}, p.step_s, p.where.ranks,
                  peak_flops(m, p.where, peak_of(spec)));
}

Replay replay(const RunSpec& spec, const std::vector<StageProgram>& stages, const Machine& m,
              const Prediction& p) {
  // An accelerator's cache is unknown; its products are priced by what large ones reach.
  const double cache = p.device == Device::accelerator ? std::numeric_limits<double>::infinity()
                                                       : cache_share(m, p.where.ranks_on_host);
  return simulate(spec, stages, m.values(), p.where, cache);
}

}  // namespace isobar
