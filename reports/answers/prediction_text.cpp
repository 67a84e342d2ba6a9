#include "model/base/text/printed.h"
#include "model/base/text/rounded.h"
#include "reports/answers/answers.h"

namespace isobar::report {
namespace {

// A fitted file predicts the statistic that it was fitted to; prices alone predict an undisturbed step.
std::string terms_text(const perf::Prediction& p, const perf::Machine& m) {
  std::string text;
  const TimeUnit u = unit_of(p.step_s);
  text += printed("  %-34s %12s %7s%s%s\n", "one optimizer step", u.name, "share", m.fit ? "  " : "",
                  m.fit ? title_of(m.fit->statistic) : "");
  const Known step = Known{p.step_s, p.lower, p.upper}.scaled(u.per_second);
  for (const perf::Term& t : p.terms)
    text += printed("  %-34s %12s %6.1f%%\n", t.name.c_str(),
                    rounded_part(u.per_second * t.seconds, step).c_str(), 100 * t.seconds / p.step_s);
  text += printed("  %-34s %12s         80 %% interval %s - %s %s\n", "total", rounded(step).c_str(),
                  rounded(step.lower, last_place(step)).c_str(),
                  rounded(step.upper, last_place(step)).c_str(), u.name);
  if (p.correction != 1)
    text +=
        printed("  (includes a correction of %+.1f %%: measured runs of this kind deviate from the model)\n",
                100 * (p.correction - 1));
  for (const perf::Prediction::LaneTime& l : p.lanes)
    text += printed("  (%s collectives: %s %s, %.0f %% overlapped with computation)\n", l.lane.c_str(),
                    rounded_part(u.per_second * l.seconds, step).c_str(), u.name,
                    100 * (1 - l.exposed / l.seconds));
  return text + "\n";
}

std::string memory_text(const perf::Prediction& p) {
  std::string text;
  const bool giga = p.device == perf::Device::accelerator;
  const double unit = giga ? 1e-9 : 1e-6;
  text += printed("  %-34s %12s\n", "memory of the fullest rank", giga ? "GB" : "MB");
  for (const auto& [name, bytes] : p.memory)
    text += printed("  %-34s %12.2f\n", name.c_str(), unit * static_cast<double>(bytes));
  text += printed("  %-34s %12.2f         of %.2f\n", "total", unit * static_cast<double>(p.memory_total),
                  unit * p.memory_there);
  return text;
}

// As text_of(Rates), with the digits that the step's interval supports.
std::string rates_text(const perf::Prediction& p, const RunSpec& spec, const perf::Machine& m) {
  const perf::Rates r = perf::rates_of(p, spec, m);
  const Known step{p.step_s, p.lower, p.upper};
  const bool tera = r.hardware_flops_per_s >= 1e12;
  const auto speed = [&](double flops_per_s) {
    return rounded(step.inverse((tera ? 1e-12 : 1e-9) * flops_per_s * p.step_s)) +
           (tera ? " TFLOP/s" : " GFLOP/s");
  };
  const auto share = [&](double of_peak) { return rounded(step.inverse(100 * of_peak * p.step_s)) + " %"; };
  return speed(r.model_flops_per_s) + " of model FLOPs (MFU " + share(r.mfu) + "), " +
         speed(r.hardware_flops_per_s) + " of hardware FLOPs (HFU " + share(r.hfu) + ")";
}

}  // namespace

TimeUnit unit_of(double step_s) {
  return step_s >= 10 ? TimeUnit{1, "s"} : TimeUnit{1e3, "ms"};
}

std::string prediction_text(const perf::Prediction& p, const RunSpec& spec, const perf::Machine& m) {
  std::string text = terms_text(p, m);
  const TimeUnit u = unit_of(p.step_s);
  const Known step{p.step_s, p.lower, p.upper};
  text +=
      printed("  %s samples/s, %s tokens/s; lower bound of the step at peak rates: %.3g %s\n",
              rounded(step.inverse(p.samples_per_s * p.step_s)).c_str(),
              rounded(step.inverse(p.tokens_per_s * p.step_s)).c_str(), u.per_second * p.ceiling_s, u.name);
  text += printed("  %s: %s\n\n", p.device == perf::Device::accelerator ? "each accelerator" : "each rank",
                  rates_text(p, spec, m).c_str());
  text += memory_text(p);
  text += printed("\n  %s\n", perf::text_of(p.checkpoint, spec, p.step_s).c_str());
  for (const std::string& w : p.warnings) text += "note: " + w + "\n";
  return text;
}

nlohmann::json json_of(const perf::Prediction& p, const RunSpec& spec, const perf::Machine& m) {
  nlohmann::json terms = nlohmann::json::array(), memory = nlohmann::json::object();
  for (const perf::Term& t : p.terms) terms.push_back({{"name", t.name}, {"seconds", t.seconds}});
  for (const auto& [name, bytes] : p.memory) memory[name] = bytes;
  nlohmann::json lanes = nlohmann::json::object();
  for (const perf::Prediction::LaneTime& l : p.lanes)
    lanes[l.lane] = {{"seconds", l.seconds}, {"exposed_s", l.exposed}};
  const perf::Rates r = perf::rates_of(p, spec, m);
  return {{"machine", m.name},
          {"device", perf::name_of(p.device)},
          {"ranks", p.where.ranks},
          {"threads", p.where.threads},
          {"step_s", p.step_s},
          {"statistic", m.fit ? nlohmann::json(name_of(m.fit->statistic)) : nlohmann::json(nullptr)},
          {"lower_s", p.lower},
          {"upper_s", p.upper},
          {"ceiling_s", p.ceiling_s},
          {"samples_per_s", p.samples_per_s},
          {"tokens_per_s", p.tokens_per_s},
          {"model_flops", nets::model_flops(spec)},
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
            {"seconds", p.checkpoint.seconds},
            {"lower_s", p.checkpoint.lower},
            {"upper_s", p.checkpoint.upper},
            {"per_step_s", p.checkpoint.per_step},
            {"assumed", p.checkpoint.assumed}}},
          {"warnings", p.warnings}};
}

}  // namespace isobar::report
