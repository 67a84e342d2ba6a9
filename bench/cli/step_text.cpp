#include "bench/cli/step_text.h"

#include <cstdio>

#include "bench/cli/rounded.h"

namespace isobar {
namespace {

// A fitted file predicts the statistic that it was fitted to; prices alone predict an undisturbed step.
void print_terms(const Prediction& p, const Machine& m) {
  const TimeUnit u = unit_of(p.step.value);
  std::printf("  %-34s %12s %7s%s%s\n", "one optimizer step", u.name, "share", m.fit ? "  " : "",
              m.fit ? title_of(m.fit->statistic) : "");
  const Interval step = p.step.scaled(u.per_second);
  for (const Term& t : p.terms)
    std::printf("  %-34s %12s %6.1f%%\n", t.name.c_str(),
                rounded_part(u.per_second * t.seconds, step).c_str(), 100 * t.seconds / p.step.value);
  std::printf("  %-34s %12s         80 %% interval %s - %s %s\n", "total", rounded(step).c_str(),
              rounded(step.lower, last_place(step)).c_str(), rounded(step.upper, last_place(step)).c_str(),
              u.name);
  if (p.correction != 1)
    std::printf("  (includes a correction of %+.1f %%: measured runs of this kind deviate from the model)\n",
                100 * (p.correction - 1));
  for (const Prediction::LaneTime& l : p.lanes)
    std::printf("  (%s collectives: %s %s, %.0f %% overlapped with computation)\n", l.lane.c_str(),
                rounded_part(u.per_second * l.seconds, step).c_str(), u.name,
                100 * (1 - l.exposed / l.seconds));
  std::printf("\n");
}

void print_memory(const Prediction& p) {
  const bool giga = p.device == Device::accelerator;
  const double unit = giga ? 1e-9 : 1e-6;
  std::printf("  %-34s %12s\n", "memory of the fullest rank", giga ? "GB" : "MB");
  for (const auto& [name, bytes] : p.memory)
    std::printf("  %-34s %12.2f\n", name.c_str(), unit * static_cast<double>(bytes));
  std::printf("  %-34s %12.2f         of %.2f\n", "total", unit * static_cast<double>(p.memory_total),
              unit * p.memory_there);
}

// As text_of(Rates), with the digits that the step's interval supports.
std::string rates_text(const Prediction& p, const RunSpec& spec, const Machine& m) {
  const Rates r = rates_of(p, spec, m);
  const Interval& step = p.step;
  const bool tera = r.hardware_flops_per_s >= 1e12;
  const auto speed = [&](double flops_per_s) {
    return rounded(step.inverse((tera ? 1e-12 : 1e-9) * flops_per_s * p.step.value)) +
           (tera ? " TFLOP/s" : " GFLOP/s");
  };
  const auto share = [&](double of_peak) { return rounded(step.inverse(100 * of_peak * p.step.value)) + " %"; };
  return speed(r.model_flops_per_s) + " of model FLOPs (MFU " + share(r.mfu) + "), " +
         speed(r.hardware_flops_per_s) + " of hardware FLOPs (HFU " + share(r.hfu) + ")";
}

}  // namespace

TimeUnit unit_of(double step_s) {
  return step_s >= 10 ? TimeUnit{1, "s"} : TimeUnit{1e3, "ms"};
}

void print_prediction(const Prediction& p, const RunSpec& spec, const Machine& m) {
  print_terms(p, m);
  const TimeUnit u = unit_of(p.step.value);
  const Interval& step = p.step;
  std::printf("  %s samples/s, %s tokens/s; lower bound of the step at peak rates: %.3g %s\n",
              rounded(step.inverse(p.samples_per_s * p.step.value)).c_str(),
              rounded(step.inverse(p.tokens_per_s * p.step.value)).c_str(), u.per_second * p.ceiling_s, u.name);
  std::printf("  %s: %s\n\n", p.device == Device::accelerator ? "each accelerator" : "each rank",
              rates_text(p, spec, m).c_str());
  print_memory(p);
  std::printf("\n  %s\n", text_of(p.checkpoint, spec, p.step.value).c_str());
  for (const std::string& w : p.warnings) std::printf("note: %s\n", w.c_str());
}

nlohmann::json json_of(const Prediction& p, const RunSpec& spec, const Machine& m) {
  nlohmann::json terms = nlohmann::json::array(), memory = nlohmann::json::object();
  for (const Term& t : p.terms) terms.push_back({{"name", t.name}, {"seconds", t.seconds}});
  for (const auto& [name, bytes] : p.memory) memory[name] = bytes;
  nlohmann::json lanes = nlohmann::json::object();
  for (const Prediction::LaneTime& l : p.lanes)
    lanes[l.lane] = {{"seconds", l.seconds}, {"exposed_s", l.exposed}};
  const Rates r = rates_of(p, spec, m);
  return {{"machine", m.name},
          {"device", name_of(p.device)},
          {"ranks", p.where.ranks},
          {"threads", p.where.threads},
          {"step_s", p.step.value},
          {"statistic", m.fit ? nlohmann::json(name_of(m.fit->statistic)) : nlohmann::json(nullptr)},
          {"lower_s", p.step.lower},
          {"upper_s", p.step.upper},
          {"ceiling_s", p.ceiling_s},
          {"samples_per_s", p.samples_per_s},
          {"tokens_per_s", p.tokens_per_s},
          {"model_flops", model_flops(spec)},
          {"hardware_flops", p.hardware_flops},
          {"model_flops_per_s_rank", r.model_flops_per_s},
          {"hardware_flops_per_s_rank", r.hardware_flops_per_s},
          {"mfu", r.mfu},
          {"hfu", r.hfu},
          {"correction", p.correction},
          {"lanes", lanes},
          {"terms", terms},
          {"memory_bytes", memory},
          {"memory_total_bytes", p.memory_total},
          {"memory_there_bytes", p.memory_there},
          {"fits", p.fits()},
          {"checkpoint",
           {{"bytes", p.checkpoint.bytes},
            {"seconds", p.checkpoint.time.value},
            {"lower_s", p.checkpoint.time.lower},
            {"upper_s", p.checkpoint.time.upper},
            {"per_step_s", p.checkpoint.per_step},
            {"assumed", p.checkpoint.assumed}}},
          {"warnings", p.warnings}};
}

}  // namespace isobar
