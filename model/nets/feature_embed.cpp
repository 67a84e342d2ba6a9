#include "model/nets/feature_embed.h"

#include "model/nets/declare.h"

namespace isobar::nets {

FeatureEmbed::FeatureEmbed(Emission& e, const Sharding& at, const std::string& path, const std::string& name,
                           int64_t rows, int64_t width, const MlpShape& shape)
    : e_(e),
      b_(e.b),
      path_(path),
      batch_(at.batch),
      rows_(rows),
      D_(shape.out),
      mlp_(e, at, path, name, {{"0", width}}, shape) {}

// ---- into a stream ----

void FeatureEmbed::to_stream(const std::string& pass, const plan::View& features, const plan::View& y,
                             bool keep) {
  features_ = features;
  mlp_.first(pass, {features}, rows_, keep);
  mlp_.rest(pass, rows_, keep);
  const plan::View one = y ? b_.scratch(path_ + ".y", DType::f32, rows_ * D_) : plan::View{};
  mlp_.norm(pass, rows_, {}, {}, one, keep);
  if (y) copied(pass, one, y);
}

// ---- into an operand that is read once ----

plan::View FeatureEmbed::to_act(const std::string& pass, const plan::View& features, bool keep) {
  features_ = features;
  mlp_.first(pass, {features}, rows_, keep);
  mlp_.rest(pass, rows_, keep);
  const plan::View h = b_.scratch(path_ + ".h", e_.act, rows_ * D_);
  mlp_.norm(pass, rows_, {}, h, {}, keep);
  // Also for one sample: a search interpolates between plans of batch 1 and 2, which must have the same ops.
  return copied(pass, h, b_.saved_or_scratch(path_ + ".all", e_.act, batch_ * rows_ * D_, keep));
}

plan::View FeatureEmbed::act_gradient() const {
  return b_.scratch(path_ + ".dall", DType::f32, batch_ * rows_ * D_);
}

// ---- backward ----

void FeatureEmbed::backward(const plan::View& dy) {
  const plan::View dh = as_act(e_, path_ + "/backward_cast", path_ + ".dy", summed(dy), false);
  mlp_.backward_weight(0, features_, mlp_.backward(dh, rows_), rows_);
}

plan::View FeatureEmbed::copied(const std::string& pass, const plan::View& one, const plan::View& all) const {
  b_.emit<plan::OpKind::copy>(
      path_ + "/samples" + pass,
      {.run = one.count, .extent = {batch_, 1, 1}, .from = {0, 0, 0}, .to = {one.count, 0, 0}}, {one}, {all});
  return all;
}

plan::View FeatureEmbed::summed(const plan::View& dy) const {
  const plan::View sum = b_.scratch(path_ + ".dsamples", DType::f32, rows_ * D_);
  b_.emit<plan::OpKind::period_sum>(path_ + "/samples/backward",
                                    {.rows = batch_ * rows_, .cols = D_, .period = rows_}, {dy}, {sum});
  return sum;
}

}  // namespace isobar::nets
