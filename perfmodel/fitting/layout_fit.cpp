#include "perfmodel/fitting/layout_fit.h"

#include <nlohmann/json.hpp>

namespace isobar {

LayoutModel& LayoutModels::of(const RunSpec& spec, const Machine& machine) {
  // The model is independent of what a Layout holds.
  RunSpec common = with_layout(spec, Layout{.dp = static_cast<int32_t>(spec.layout.world())});
  auto& model = known_[to_json(common).dump()];
  if (!model) model = std::make_unique<LayoutModel>(spec, machine);
  return *model;
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
    return model.cost(l).seconds;
  };
  v.ceiling_s = model.cost(l).ceiling;
  if (model.where().processors == 0) {  // on cores: the same names as for plans
    StepTerms t;
    t.where = model.where();
    t.workers = spec.data.workers;
    v.kind = kind_of(t), v.effects = effects_of(spec, t), v.quantities = quantities_of(spec, t);
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
  return v;
}

}  // namespace isobar
