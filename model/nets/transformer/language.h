// The two ends of a language model, around transformer blocks (block.h): embedding of tokens, and loss over
// the vocabulary. Tensor parallelism cuts both by vocabulary (Shoeybi 2019): each rank looks up the tokens
// that it holds and the partial results are summed; each rank keeps its columns of the logits, and only each
// row's largest value, sum of exponentials and label's logit are exchanged.
//
//   embed   tokens -> x [rows, D]: table (gpt: and learned positions)
//   head    x [rows, D] -> norm -> logits [full_rows, V/tp] -> their gradient in place, and the loss, in
//   which
//           the padding of the vocabulary has no part
//
// A tied head is the embedding's table. If first and last stage are different ranks, both hold it and sum
// their gradients at the end of the step.
#pragma once
#include <string>

#include "model/nets/net.h"
#include "model/nets/transformer/block_shape.h"

namespace isobar::nets {

struct Vocabulary {
  int64_t words;   // of the net, without padding
  int64_t held;    // on one rank, padded
  bool tied;       // the head's weight is the embedding's
  bool positions;  // learned position embeddings
  /// [words, width], behind which the padding is zeros
  plan::Param table(const std::string& name, int64_t width) const;
};

class TokenEmbed : public NetPart {
 public:
  TokenEmbed(int index, Emission& e, const Sharding& at, const Vocabulary& v, const BlockShape& next);
  void set_tokens(const plan::View& v) { tokens_ = v; }
  const plan::View& table() const { return table_; }

  void declare(Declare& d) override;
  std::vector<Flow> forward(const std::vector<Flow>&, const Forward& how) override;
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override;
  plan::View last_gradient(bool weight) const override { return weight ? plan::View{} : table_; }
  std::vector<int> backward_reads() const override { return {}; }

 private:
  plan::EmbeddingAttrs attrs() const;

  Emission& e_;
  plan::Builder& b_;
  const Sharding& at_;
  const Layers layers_;
  const Vocabulary v_;
  const BlockShape next_;
  plan::View table_, positions_, tokens_, mask_;
};

class TokenHead : public NetPart {
 public:
  TokenHead(int index, Emission& e, const Sharding& at, const Vocabulary& v, const BlockShape& before,
            const TokenEmbed& embed);
  void set_labels(const plan::View& v) { labels_ = v; }
  const plan::View& table() const { return linear_.weight; }

  void declare(Declare& d) override;
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override;
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override;
  plan::View last_gradient(bool weight) const override { return weight ? linear_.weight : norm_.gamma; }
  std::vector<int> backward_reads() const override;
  plan::View receive_buffer(size_t) override;

 private:
  Emission& e_;
  plan::Builder& b_;
  const Sharding& at_;
  const Layers layers_;
  const Vocabulary v_;
  const BlockShape before_;
  const TokenEmbed& embed_;
  Norm norm_;
  Linear linear_;
  Flow in_;
  plan::View labels_, logits_;
};

}  // namespace isobar::nets
