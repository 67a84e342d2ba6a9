// The layers that nets are made of: linears, norms, dropout, and what tensor parallelism sends between them.
// Each is emitted forward and backward.
//
// A split backward pass (ZB-H1, Qi 2023) emits all but the weight-gradient products and notes those down, to
// be emitted into a routine of their own. What they read outlives the routine that wrote it; of what sequence
// parallelism cuts, this rank's part is kept, and gathered again.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/nets/sharding.h"
#include "model/plan/builder.h"

namespace isobar {

struct Adapter;

struct Linear {
  View weight;  // [out, in], both as held here
  View bias;    // [out], absent in nets without
  int64_t in = 0, out = 0;
  bool fp8 = false;  // its products, all three
  std::shared_ptr<Adapter> adapter = {};
};

struct Norm {        // parameters and what its forward saves
  View gamma, beta;  // [D]; without beta it is an RMSNorm
  float eps = 0;
  View x, h, mean, rstd;  // x [rows,D] of the stream, h [rows,D] act, [rows] f32; RMSNorm has no mean
};

/// A stream's value while a routine is written: x, or x + y while y waits for the norm that adds it.
struct Flow {
  View x, y;
  int64_t period = 0;  // rows after which x repeats (0: never)
  std::string linear;  // path of the linear that y came from …
  View bias;           // … and its bias (absent: none): who adds y sums their gradient
};

struct Gradient {  // of a stream
  View dx;         // added to in place
  View dy;         // as the linear that y came from takes it; absent if there was none
};

/// Which step of a roll-out a routine is emitted for.
struct RollStep {
  int32_t step = 0;
  int64_t counted = 1;  // steps that count in the loss
  bool first = true, second = false, last = true;
  bool all = true;         // the gradient goes back through all steps; else all of them share a slot
  int32_t slots_back = 1;  // from a step's slot to that of the one before
  bool counts() const { return all || last; }  // in the loss
  bool gradient_before() const { return all && !first; }
};

/// What a plan's layers share.
class Emission {
 public:
  Emission(Builder& b, const RunSpec& spec);

  Builder& b;
  const RunSpec& spec;
  DType act;           // of activations: what matrix products read and write; of the part that is emitted
  const DType amp;     // … of the run: f32 parts of it apart (NetPart::in_f32)
  const bool split;    // weight gradients have a routine of their own
  RollStep roll;       // of the routine that is open
  double dropout = 0;  // of hidden states: the net's to set
  bool input_gradient =
      false;  // the first part goes on to the gradient of what it reads (Plan::input_gradient)

  /// What is emitted next is of such a part.
  void in_f32(bool part) { act = part ? DType::f32 : amp; }
  /// As a matrix product of this part reads it.
  View weight(const View& param) const { return act == DType::f32 ? param : b.weight(param); }

  void backward_begins(bool accumulate);
  bool accumulates() const { return accumulate_; }        // backward adds to the gradients
  size_t postponed() const { return postponed_.size(); }  // weight gradients since backward_begins
  /// Emits them into the routine that is open; `after` hears how many there are so far.
  void weight_gradients(bool accumulate, const std::function<void(size_t)>& after);
  /// What a weight gradient reads: scratch, or saved where backward is split. Routines that differ in
  /// accumulation alone share it.
  View operand(const std::string& name, DType t, int64_t count);
  /// Whether a linear cannot take the gradient of a stream of this type as it lies: it is of another type,
  /// goes on changing, or is kept for the weight gradient.
  bool copies_gradient(DType stream) const { return act != stream || split || dropout > 0; }
  /// The gradient of a stream as that linear takes it: itself, or a copy of this name.
  View for_linear(const std::string& path, const std::string& name, const View& dx);

 private:
  friend class Layers;
  friend class AddsToGradients;
  struct Postponed {
    std::string path;
    const Linear* linear;
    View x, dy;
    int64_t rows;
    int part;
    const Sharding* at;
  };
  void weight_gradient(const Postponed& p);
  const bool tf32_;
  bool accumulate_ = false;
  std::map<const Adapter*, View> adapter_gradients_;  // of what A gives, of the backward that is open
  std::vector<Postponed> postponed_;
  std::map<std::pair<std::string, int64_t>, View> operands_;  // saved ones, by name and elements
};

/// While it lives, backward adds to the gradients if `adds`, whatever the routine does: an earlier piece of
/// the same rows has written them. Not for a split backward pass.
class AddsToGradients {
 public:
  AddsToGradients(Emission& e, bool adds) : e_(e), before_(e.accumulate_) { e.accumulate_ = before_ || adds; }
  ~AddsToGradients() { e_.accumulate_ = before_; }
  AddsToGradients(const AddsToGradients&) = delete;
  AddsToGradients& operator=(const AddsToGradients&) = delete;

 private:
  Emission& e_;
  const bool before_;
};

/// The layers over one grid of rows.
class Layers {
 public:
  Layers(Emission& e, const Sharding& at) : e_(e), b_(e.b), at_(at) {}

  /// `add`, of both: to what is there, in f32
  void linear_forward(const std::string& path, const Linear& l, const View& x, const View& y, int64_t rows,
                      const View& bias, bool add = false) const;
  void linear_backward_input(const std::string& path, const Linear& l, const View& dy, const View& dx,
                             int64_t rows, bool add = false) const;
  /// Split: noted down; x and dy may be this rank's rows of what the product reads. `l` must stay.
  void linear_backward_weight(const std::string& path, const Linear& l, const View& x, const View& dy,
                              int64_t rows) const;
  /// h = norm(x + y). The sum, if there is a y, is written to n.x, which is there.
  void norm_forward(const std::string& path, const std::string& pass, Norm& n, const Flow& in,
                    bool keep) const;
  /// dx += norm'(dh), or is written if `first`. Returns what the linear before the norm gets if `in` came
  /// with its y: dx itself or its copy; else absent.
  View norm_backward(const std::string& path, const Norm& n, const View& dh, const View& dx, bool first,
                     const Flow& in) const;
  /// In place; returns the mask, absent where it is not kept but drawn again: then from the random numbers of
  /// `stream`, of which every place of the net has its own.
  View dropout(const std::string& path, const View& y, bool keep, int64_t stream = 0) const;
  void dropout_backward(const std::string& path, const View& dy, const View& mask, int64_t stream = 0) const;
  /// Of a rank without rows: what backward would have written of the weights.
  void zero_gradients(const std::string& path, const Linear& l) const;

  // ---- tensor parallelism ----
  /// Partial [full_rows, D] of a row-parallel linear -> their sum, this rank's rows of it
  View result(const std::string& path, const View& partial) const;
  View gathered(const std::string& path, const View& part) const;  // all rows of a [rows, D] operand
  /// The bias of a row-parallel linear must enter its sum once: rank 0 of the group adds it.
  View once(const View& bias) const { return at_.at.tp == 0 ? bias : View{}; }

 private:
  Attrs dropout_attrs(const View& y, int64_t stream) const;
  void put_off_or_emit(const std::string& path, const Linear& l, const View& x, const View& dy,
                       int64_t rows) const;
  void adapter_backward_weight(const std::string& path, const Linear& l, const View& x, const View& dy,
                               int64_t rows) const;
  View adapter_gradient(const std::string& path, const Linear& l, const View& dy) const;

  Emission& e_;
  Builder& b_;
  const Sharding& at_;
};

}  // namespace isobar
