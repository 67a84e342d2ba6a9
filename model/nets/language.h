// The two ends of a language model, around the blocks that all transformers share (block.h): embedding of
// tokens, and loss over the vocabulary. Both are cut by vocabulary under tensor parallelism (Shoeybi 2019):
// each rank looks up the tokens that it holds, and the partial results are added up; of the logits each rank
// keeps its columns, and only the largest value, the sum of exponentials and the label's logit of each row
// travel.
//
//   first stage   tokens -> x [rows, D]: table (gpt: and learned positions)
//   last stage    h [rows, D] -> logits [full_rows, V/tp] -> their gradient in place, and the loss
//
// A tied head is the embedding's table. Where first and last stage are different ranks, both hold it and add
// up their gradients at the end of the step.
#pragma once
#include <string>

#include "model/nets/block.h"
#include "model/nets/ends.h"

namespace isobar {

class LanguageEnds : public Ends {
 public:
  LanguageEnds(Builder& b, const RunSpec& spec, const Sharding& at, BlockEmitter& block, DType act);

  void declare_first(const Declare& declare) override;
  void declare_last(const Declare& declare, bool with_first) override;
  int64_t metrics() const override { return 1; }
  void emit_fetch(const Stage& stage) override;
  Stream emit_first(const Block& next) override;
  void emit_last(const View& h) override;
  View emit_backward_last(const View& h) override;
  void emit_backward_first(const View& dx, const View& dy, bool accumulate) override;
  void emit_tied_reduction(const Parameters& params) override;
  bool first_is_linear() const override { return false; }
  View first_parameter() const override { return table_; }
  bool last_reads_first() const override { return n_.tie_embeddings; }

 private:
  Attrs vocabulary() const;
  void reduce_rows(const std::string& path, const View& x);
  bool tied_over_stages() const;

  Builder& b_;
  const RunSpec& s_;
  const NetSpec& n_;
  const Sharding& at_;
  BlockEmitter& block_;
  const DType act_;
  const int64_t D_, R_, vocab_;  // vocabulary: this rank's part, padded
  View table_, positions_, head_;
  Linear head_linear_;
  View tokens_, labels_, logits_;
  bool first_ = false, last_ = false;
};

}  // namespace isobar
