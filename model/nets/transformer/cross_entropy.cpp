#include "model/nets/transformer/cross_entropy.h"

namespace isobar::nets {

void cross_entropy_forward(Emission& e, const Sharding& at, plan::CrossEntropyAttrs a,
                           const plan::View& logits, const plan::View& labels, const plan::View& dlogits) {
  plan::Builder& b = e.b;
  // Reduces values per row over the ranks of a vocabulary
  const auto reduce_rows = [&](const std::string& path, const plan::View& x, bool largest) {
    if (at.tp == 1) return;
    plan::TransferAttrs to{.group = at.tp_group};
    to.largest = largest;
    b.emit<plan::OpKind::all_reduce>(path, to, {x}, {x}, plan::Lane::tp);
  };
  const plan::View largest = b.scratch("loss.max", DType::f32, a.rows),
                   sums = b.scratch("loss.sums", DType::f32, 2 * a.rows);
  b.emit<plan::OpKind::cross_entropy_max>("loss/max", a, {logits}, {largest});
  reduce_rows("loss/max/all_reduce", largest, true);
  b.emit<plan::OpKind::cross_entropy_sums>("loss/sums", a, {logits, labels, largest}, {sums});
  reduce_rows("loss/sums/all_reduce", sums, false);
  a.tokens = at.tokens;
  a.weight = 1.0f / static_cast<float>(e.spec.train.global_batch * e.spec.net.tokens());
  const plan::View metrics =
      e.spec.net.words() ? b.plan.metrics.slice(0, 1) : b.plan.metrics;  // accuracy is of classes
  b.emit<plan::OpKind::cross_entropy>("loss/forward", a, {logits, labels, largest, sums, b.plan.scalars},
                                      {dlogits, metrics});
}

}  // namespace isobar::nets
