// The core of attention, softmax(q k^T) v, with tokens distributed over a cp group.
//
//   allgather   queries stay; keys and values of all tokens are gathered, their gradients reduce-scattered.
//               Causal queries are worked on by runs of tokens (Sharding).
//   ring        queries stay; keys and values travel round the group while the present ones are worked on
//               (Liu 2023), causal ones by runs: a run of queries sees its own run of keys up to itself,
//               earlier ones whole, later ones not. Parts are merged by their log-sum-exp. Backward sends
//               keys and values round again, their gradients with them, which come home after one round.
//   ulysses     queries, keys and values are exchanged from all heads of some tokens to some heads of all
//               tokens and results back (DeepSpeed Ulysses)
#pragma once
#include <string>

#include "model/nets/layers.h"
#include "model/nets/layout/sharding.h"
#include "model/nets/transformer/block_shape.h"
#include "model/plan/builder.h"

namespace isobar::nets {

struct Core {          // forward's results for backward; width: the model's over tp; kv: of keys (or values)
  plan::View qkv;      // input [full_rows,width + 2 kv] act
  plan::View o, lse;   // [full_rows,width] act, [B,heads/tp,tokens] f32 (ring: so for each run of tokens)
  plan::View kv;       // allgather: [B,N,2 kv] act, keys and values of all tokens
  plan::View all_qkv;  // ulysses: [B,N,(width + 2 kv)/cp] act
  plan::View all_o;    // ulysses: [B,N,width/cp] act; lse is of the same heads and tokens
  plan::View weights, mask, dropped;  // unfused: [B,heads/tp,N,N] act, bytes, act
};

class AttentionCore {
 public:
  AttentionCore(Emission& e, const BlockShape& shape, const Sharding& at);

  /// c.qkv -> c.o and the operands of backward, saved if `keep`. `block`: the block's path.
  void forward(const std::string& block, Core& c, bool keep, const std::string& pass);
  /// Gradient of c.o -> gradient of c.qkv
  void backward(const std::string& block, const Core& c, const plan::View& d_o, const plan::View& dqkv);
  /// True if backward (without a recomputation) reads c.qkv.
  bool backward_reads_qkv() const { return kind_ != Kind::ulysses; }

 private:
  enum class Kind : uint8_t { alone, unfused, allgather, ring, ulysses };

  void unfused_forward(const std::string& block, Core& c, bool keep, const std::string& pass);
  void unfused_backward(const std::string& block, const Core& c, const plan::View& d_o,
                        const plan::View& dqkv);
  void allgather_forward(const std::string& block, Core& c, bool keep, const std::string& pass);
  void allgather_backward(const std::string& block, const Core& c, const plan::View& d_o,
                          const plan::View& dqkv);
  void ring_forward(const std::string& block, Core& c, const std::string& pass);
  void ring_backward(const std::string& block, const Core& c, const plan::View& d_o, const plan::View& dqkv);
  void ulysses_forward(const std::string& block, Core& c, bool keep, const std::string& pass);
  void ulysses_backward(const std::string& block, const Core& c, const plan::View& d_o,
                        const plan::View& dqkv);

  plan::AttentionAttrs attention(int64_t tk, int64_t ld_q, int64_t ld_kv) const;
  plan::AttentionAttrs attention_of_all() const;
  plan::View part(const plan::View& qkv, int which, int64_t cut = 1) const;
  void copy(const std::string& path, const plan::CopyAttrs& a, const plan::View& x, const plan::View& y) {
    b_.emit<plan::OpKind::copy>(path, a, {x}, {y});
  }
  void columns(const std::string& path, int64_t n, const plan::View& x, int64_t ld_x, const plan::View& y,
               int64_t ld_y);
  void regroup(const std::string& path, const plan::View& by_rank, const plan::View& by_sample, int64_t cols,
               bool to_sample);
  plan::View own_kv(const std::string& path, const std::string& name, const plan::View& qkv);
  void cut_heads(const std::string& path, bool qkv, const plan::View& x, const plan::View& by_rank, bool cut);
  plan::View tokens_of_all(const std::string& path, const std::string& name, bool qkv, const plan::View& x,
                           const plan::View& into);
  void heads_of_all(const std::string& path, const std::string& name, bool qkv, const plan::View& all,
                    const plan::View& into);
  // Neighbouring tokens of each sample, a run of a rank's (Sharding). Where it has two, operands are in the
  // order [run][B][its tokens][cols], in which a run of all samples is one piece.
  struct Run {
    int64_t from, tokens;  // among the rank's
    int64_t place;         // of the first one in the sample
    std::string name;      // of a rank's two
  };
  struct Queries {
    plan::View x;
    int64_t ld;
  };
  struct Pair {  // whose queries see at least some of the keys
    Run q, kv;
    std::string name;  // of a step's pairs
  };
  std::vector<Run> runs_of(int64_t rank) const;
  std::vector<Pair> pairs_with(int64_t rank, int64_t step) const;
  plan::AttentionAttrs attention(const Pair& pair, int64_t ld_q) const;
  plan::AttentionAttrs over_all(const Run& queries, int64_t ld_q) const;
  bool runs_apart() const;
  bool regrouped() const { return at_.batch > 1 || at_.runs().more > 0; }
  Queries queries(const std::string& path, const std::string& name, const plan::View& qkv);
  plan::View of_run(const Queries& q, const Run& run) const;
  plan::View of_run(const plan::View& x, const Run& run, int64_t cols) const;
  void to_runs(const std::string& path, int64_t n, const plan::View& rows, int64_t ld,
               const plan::View& runs);
  void from_runs(const std::string& path, int64_t n, const plan::View& runs, const plan::View& rows,
                 int64_t ld);
  plan::View in_runs(const std::string& path, const std::string& name, const plan::View& rows);
  void pass_on(const std::string& path, const plan::View& x, const plan::View& y);
  int64_t ring_rank(int64_t step) const;
  std::vector<int64_t> elements(int64_t cols) const;

  plan::Builder& b_;
  const BlockShape n_;
  const Sharding& at_;
  const DType act_;
  const Kind kind_;
  // Width and heads of queries, of keys (as of values), and of all three; rows: all of this rank
  const int64_t width_, heads_, kv_heads_, kv_, qkv_, R_;
  const bool tf32_;
};

}  // namespace isobar::nets
