#include "model/nets/aurora/ends.h"

#include "model/base/step_tensor.h"
#include "model/nets/aurora/fourier.h"
#include "model/nets/images/pixels.h"

namespace isobar::nets::aurora {

std::vector<plan::BatchTensor> Ends::batch() const {
  std::vector<plan::BatchTensor> out = image_batch(
      e_.spec, image_read(n_, n_.patch_size), image_predicted(n_, n_.patch_size), at_, decoder_->index());
  for (int32_t k = 0; k < e_.spec.train.rollout; ++k) {
    out.push_back({step_tensor("time", k), plan::BatchRole::time, 0, DType::f32, n_.embed_dim,
                   at_.batch * n_.embed_dim, true,
                   [D = n_.embed_dim, later = k * n_.lead_time](double hours, float* to) {
                     fourier_code(static_cast<double>(static_cast<float>(hours + later)), kTimes, D, to);
                   }});
    out.back().step = k;
  }
  return out;
}

// The view in the first step's slot, though a later step's slot may hold it.
void Ends::fetched(const plan::BatchTensor& t, const plan::View& v) {
  const plan::View own = v.of_before(-v.back);
  if (t.role == plan::BatchRole::input) encoder_->set_input(own);
  if (t.role == plan::BatchRole::target) decoder_->set_target(own);
  if (t.role == plan::BatchRole::mask) decoder_->set_mask(own);
  if (t.role == plan::BatchRole::time) times_[t.step] = own;
}

std::vector<plan::Stream> Ends::feedback() const {
  if (!e_.spec.reads_predictions()) return {};
  return {{"prediction", decoder_->index(), 0, n_.fp32_ends ? DType::f32 : e_.amp,
           at_.rows * n_.out_channels * n_.patch_size * n_.patch_size}};
}

void Ends::before(const plan::View& v) {
  encoder_->set_before(v);
  encoder_->set_time(times_.at(e_.roll.step));
}

}  // namespace isobar::nets::aurora
