#include "model/nets/loss_settings.h"

#include <stdexcept>

namespace isobar::nets {
namespace {

LossKind of_fields(LossKind kind) {
  if (kind == LossKind::cross_entropy) throw std::logic_error("no loss of fields or numbers: cross_entropy");
  return kind;
}

// Settings by name, which say which weights a loss has before its channels are known
std::string by_name(const TrainSpec& t) {
  std::string out;
  for (const auto* list : {&t.variable_weights, &t.intensity})
    for (const std::string& word : *list) out += " " + word;
  if (t.level_weights != LevelWeights::none) out += " levels by " + name_of(t.level_weights);
  if (t.loss_weighting == LossWeighting::mean) out += " over their mean";
  if (t.loss_weighting == LossWeighting::aurora)
    out += " aurora " + std::to_string(t.surface_weight) + " " + std::to_string(t.upper_weight) + " " +
           std::to_string(t.data_weight);
  return out.empty() ? out : out.substr(1);
}

std::shared_ptr<const plan::LossWeights> weights_of(const TrainSpec& t) {
  plan::LossWeights w{.channel = {t.loss_weights.begin(), t.loss_weights.end()},
                      .above = {t.intense_above.begin(), t.intense_above.end()},
                      .intense = {t.intense_weights.begin(), t.intense_weights.end()},
                      .latitude = t.latitude_weights,
                      .latitudes = t.latitudes,
                      .by_name = by_name(t)};
  return std::make_shared<const plan::LossWeights>(std::move(w));
}

template <class F>
void each_loss(plan::Plan& plan, const F& f) {
  for (plan::Op& op : plan.ops)
    if (auto* loss = std::get_if<plan::LossAttrs>(&op.attrs)) f(*loss);
}

}  // namespace

plan::LossAttrs loss_settings(const TrainSpec& t) {
  return {.kind = of_fields(t.loss), .delta = static_cast<float>(t.huber_delta), .weights = weights_of(t)};
}

void know_loss_weights(plan::Plan& plan, const TrainSpec& train) {
  const auto weights = weights_of(train);
  each_loss(plan, [&](plan::LossAttrs& a) { a.weights = weights; });
}

void change_loss(plan::Plan& plan, LossKind kind) {
  each_loss(plan, [&](plan::LossAttrs& a) { a.kind = kind; });
}

}  // namespace isobar::nets
