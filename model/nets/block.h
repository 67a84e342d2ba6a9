// The pre-norm transformer block: what it owns and what it emits, forward and backward side by side, in
// execution order, under tensor and context parallelism.
//
// Tensor parallelism (Shoeybi 2019): qkv and fc1 are cut by output (heads, hidden), proj and fc2 by input;
// one reduction a half of the block each way, in the type of the activations. With sequence parallelism
// (Korthikanti 2022) the reductions become reduce-scatters, and the inputs of qkv and fc1 are gathered: kept
// cut, gathered again for their weight gradients. Context parallelism is all in context_parallel.h.
//
// Full recomputation (Chen 2016) keeps the residual stream at the door of the first of some neighbouring
// blocks, and runs those forward once more when backward comes to the last of them. All that they compute
// again is scratch.
//
// A split backward pass (ZB-H1, Qi 2023) emits all but the weight-gradient products and notes those down, to
// be emitted into a routine of their own. What they read outlives the routine that wrote it; of what sequence
// parallelism cuts, this rank's part is kept, and gathered again.
#pragma once
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/nets/context_parallel.h"
#include "model/nets/sharding.h"
#include "model/plan/builder.h"

namespace isobar {

struct Linear {
  View weight;  // [out, in], both as held here
  View bias;    // [out], absent in nets without
  int64_t in = 0, out = 0;
  bool fp8 = false;  // its products, all three
};

struct Norm {             // parameters and what its forward saves; RMSNorm has no beta and no mean
  View gamma, beta;       // [D]
  View x, h, mean, rstd;  // x [rows,D] of the stream, h [rows,D] act, [rows] f32
};

struct Block {
  int part = -1;     // index into Plan::parts
  std::string path;  // block07
  Norm norm1, norm2;
  Linear qkv, proj, fc1, fc2;
  Core core;  // what attention proper reads and writes
  View u, g;  // [full_rows,4D/tp] act: before and after GELU; SwiGLU: u is twice as wide, gate and up
  View attn_mask, mlp_mask;  // [rows,D] bytes: what dropout let through
};

enum class Keep : uint8_t { all, input, nothing };  // from a block's forward until backward

class BlockEmitter {
 public:
  BlockEmitter(Builder& b, const RunSpec& spec, const Sharding& at, DType act);

  /// Residual stream in: residual (+ y unless absent); its rows repeat after `period` (0: never). Returns the
  /// block's own contribution; with it, block.norm2.x is the stream after the block.
  View forward(Block& k, const View& residual, int64_t period, const View& y, Keep keep);
  /// Blocks of which only the first one's input was kept, up to where backward of the last can begin.
  void recompute(std::span<Block> blocks);
  /// dy: gradient of forward's result; dx [rows,D]: of the stream, updated in place. `here`: the linear whose
  /// result came in as y is on this rank, `before` its bias. Returns the gradient of that y.
  View backward(Block& k, const View& dy, bool here, const View& before);
  void backward_begins(const View& dx, bool accumulate);
  /// Where the stream arrives that does not come from a norm of this rank.
  View door(const Block& k);

  // ---- split backward ----
  bool split() const { return split_; }
  size_t postponed() const { return postponed_.size(); }  // weight gradients since backward_begins
  /// Emits them into the routine that is open; `after` hears how many there are so far.
  void weight_gradients(bool accumulate, const std::function<void(size_t)>& after);
  /// What a weight gradient reads: scratch, or saved where backward is split. Routines that differ in
  /// accumulation alone share it.
  View operand(const std::string& name, DType t, int64_t count);

  // Pieces that a net's ends use too. `rows` of x and y; `bias` may be absent.
  void linear_forward(const std::string& path, const Linear& l, const View& x, const View& y, int64_t rows,
                      const View& bias);
  void linear_backward_input(const std::string& path, const Linear& l, const View& dy, const View& dx,
                             int64_t rows);
  /// Split: noted down; x and dy may be this rank's rows of what the product reads. `l` must stay.
  void linear_backward_weight(const std::string& path, const Linear& l, const View& x, const View& dy,
                              int64_t rows);
  void norm_forward(const std::string& path, const std::string& pass, Norm& n, const View& residual,
                    int64_t period, const View& y, bool keep);
  /// dx += LN'(dh); returns what the linear before the norm gets: dx itself or its copy (in another type, to
  /// change, or kept for the weight gradient); absent unless that linear is `here`. `bias`: its own, or
  /// absent
  View norm_backward(const std::string& path, const Norm& n, const View& dh, bool first, bool here,
                     const View& bias);
  /// Of the residual stream: f32 for images; language models keep it in the type of activations.
  DType stream() const { return stream_; }
  /// The gradient that arrives from the stage behind, as what the last linear gets: like norm_backward
  bool copies_gradient() const { return act_ != stream_ || split_ || s_.net.dropout > 0; }
  /// Partial [full_rows, D] of a row-parallel linear -> their sum, this rank's rows of it
  View result(const std::string& path, const View& partial);
  View gathered(const std::string& path, const View& part);         // all rows of a [rows, D] operand
  View dropout(const std::string& path, const View& y, bool keep);  // in place; returns the mask

 private:
  struct Postponed {
    std::string path;
    const Linear* linear;
    View x, dy;
    int64_t rows;
    int part;
  };
  void weight_gradient(const Postponed& p);
  Attrs rows(int64_t m, int64_t cols) const;
  Attrs gelu_rows(const Block& k) const;
  void dropout_backward(const std::string& path, const View& dy, const View& mask);
  void rotary(OpKind kind, const std::string& path, const View& qkv);
  View inside(Block& k, bool keep, const std::string& pass, bool with_result);

  Builder& b_;
  const RunSpec& s_;
  const Sharding& at_;
  const DType act_, stream_;  // of activations: what matrix products read and write; of the residual stream
  // Model width, this rank's share of it inside attention, with keys and values; full rows
  const int64_t D_, width_, qkv_, R_;
  const bool recompute_core_, split_, tf32_;
  AttentionCore core_;
  View dx_;
  bool accumulate_ = false;  // backward adds to the gradients
  std::vector<Postponed> postponed_;
  std::map<std::string, View> operands_;  // saved ones, by name
};

}  // namespace isobar
