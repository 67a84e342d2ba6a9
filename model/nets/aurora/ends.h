// Aurora's ends: the tensors it reads of a batch, and, for train.rollout, how its prediction becomes the
// newest of the steps that it reads next. Static fields stay, and time advances by the lead time.
#pragma once
#include <map>
#include <vector>

#include "model/nets/aurora/decoder.h"
#include "model/nets/aurora/encoder.h"

namespace isobar::nets::aurora {

class Ends : public RollOut {
 public:
  /// `at`: of the patches.
  Ends(Emission& e, const AuroraSpec& n, const Sharding& at, Encoder* encoder, Decoder* decoder)
      : e_(e), n_(n), at_(at), encoder_(encoder), decoder_(decoder) {}

  /// Input and targets as images; the code of each step's time [B, D].
  std::vector<plan::BatchTensor> batch() const;
  void fetched(const plan::BatchTensor& t, const plan::View& v);

  std::vector<plan::Stream> feedback() const override;
  plan::View predicted() const override { return decoder_->predicted(); }
  void before(const plan::View& v) override;
  void gradient(const plan::View& v) override {
    encoder_->set_before_gradient(v), decoder_->set_next_gradient(v);
  }

 private:
  Emission& e_;
  const AuroraSpec n_;
  const Sharding& at_;
  Encoder* encoder_;
  Decoder* decoder_;
  std::map<int32_t, plan::View> times_;  // by step
};

}  // namespace isobar::nets::aurora
