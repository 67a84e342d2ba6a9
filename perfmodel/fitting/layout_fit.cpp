#include "perfmodel/fitting/layout_fit.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/nets/layout/busiest_rank.h"
#include "perfmodel/step/expert_imbalance.h"
#include "perfmodel/step/planned_step.h"

namespace isobar::perf {
namespace {

// A net whose equal parts are trained differently has no closed form: its step is replayed at any prices.
StepView replayed_view(const RunSpec& spec, const Machine& m, const HostShare& host) {
  const auto step =
      std::make_shared<const PlannedStep>(spec, m, host, plan::Workspace{}, nets::busiest_rank(spec));
  StepView v;
  v.seconds = [step](const Counts& k) { return step->replayed(k).step_s; };
  v.ceiling_s = step->ceiling_s;
  v.kind = kind_of(spec, step->where), v.effects = effects_of(spec, step->where);
  v.quantities = quantities_of(spec, step->where);
  return v;
}

// From the lowest imbalance of the fit's runs to the highest counts as an 80 % interval.
double unsaid_of(LayoutModel& model, const RunSpec& spec, const Layout& l) {
  const std::vector<double>* range = unsaid_imbalance(spec, model.machine());
  if (!range) return 0;
  const double taken = model.imbalance();
  const auto seconds = [&](double imbalance) {
    model.set_imbalance(imbalance);
    return model.time(l).seconds;
  };
  const double fastest = seconds((*range)[0]), slowest = seconds((*range)[1]);
  model.set_imbalance(taken);
  return std::log(slowest / fastest) / (2 * kNormal80);
}

}  // namespace

LayoutModel& LayoutModels::of(const RunSpec& spec, const Machine& machine, const HostShare& host) {
  // The model is independent of what a Layout holds.
  RunSpec common = with_layout(spec, Layout{.dp = static_cast<int32_t>(spec.layout.world())});
  common.run.out.clear();
  common.train.seed = 0;
  // Runs whose experts are not divided share a model, whatever they measured.
  const bool divided = spec.layout.ep > 1;
  if (!divided) common = with_imbalance(std::move(common), 0);
  auto& model = known_[to_json(common).dump() + " " + std::to_string(host.ranks_on_host) + " " +
                       std::to_string(host.threads)];
  if (!model) model = std::make_unique<LayoutModel>(divided ? spec : with_imbalance(spec, 0), machine, host);
  return *model;
}

StepView LayoutModels::view(const RunSpec& spec, const Machine& machine, const HostShare& host) {
  if (!trains_alike(spec)) return replayed_view(spec, machine, host);
  return view_of(of(spec, machine, host), spec);
}

std::string campaign_effect(const std::string& campaign) {
  return "campaign: " + campaign;
}

StepView view_of(LayoutModel& model, const RunSpec& spec) {
  const Layout l = layout_of(spec);
  const auto text = [](int64_t v) { return std::to_string(v); };
  const auto number = [](int64_t v) { return static_cast<double>(v); };
  StepView v;
  v.seconds = [&model, l](const Counts& k) {
    model.set_coefficients(k);
    return model.time(l).seconds;
  };
  v.ceiling_s = model.time(l).ceiling;
  v.unsaid = unsaid_of(model, spec, l);
  if (model.where().processors == 0) {
    const Conditions& where = model.where();
    v.kind = kind_of(spec, where), v.effects = effects_of(spec, where);
    v.quantities = quantities_of(spec, where);
    return v;
  }
  v.kind = l.world() > model.where().ranks_on_host ? "hosts" : l.world() > 1 ? "host" : "one";
  v.effects = {"shape: " + spec.net.kind() + " dim " + text(spec.net.width()) + " depth " +
                   text(spec.net.blocks()) + " tokens " + text(spec.net.tokens()) + " amp " +
                   name_of(spec.policy.amp) + " attention " + name_of(spec.policy.attention),
               "kernels: micro-batch " + text(l.micro_batch) + " tp " + text(l.tp) +
                   (l.sequence_parallel ? " sequence" : "") + " recompute " + name_of(spec.policy.recompute)};
  if (l.cp * l.pp > 1)
    v.effects.push_back("layout: cp " + text(l.cp) + " pp " + text(l.pp) + " chunks " + text(l.vpp) + " " +
                        name_of(spec.policy.schedule));
  v.quantities = {{"embed_dim", number(spec.net.width())},
                  {"tokens", number(spec.net.tokens())},
                  {"depth", number(spec.net.blocks())},
                  {"micro_batch", number(l.micro_batch)},
                  {"micro_batches", number(spec.micro_batches())},
                  {"tp", number(l.tp)},
                  {"cp", number(l.cp)},
                  {"pp", number(l.pp)},
                  {"ranks", number(l.world())}};
  v.quantities.merge(expert_quantities_of(spec));
  return v;
}

}  // namespace isobar::perf
