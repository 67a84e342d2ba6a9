// The layers of nets: linears, norms, dropout, and the communication of tensor parallelism between them. Each
// is emitted forward and backward.
//
// A split backward pass (ZB-H1, Qi 2023) postpones weight-gradient products, to be emitted into a routine of
// their own. Their operands outlive the routine that wrote them; under sequence parallelism this rank's part
// is kept and gathered again.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/nets/layout/sharding.h"
#include "model/plan/builder.h"

namespace isobar::nets {

struct Adapter;

struct Linear {
  plan::View weight;  // [out, in], this rank's
  plan::View bias;    // [out], or absent
  int64_t in = 0, out = 0;
  bool fp8 = false;  // all three products in fp8
  std::shared_ptr<Adapter> adapter = {};
  int64_t experts = 0;      // weights [experts, out, in], each of its own rows; 0: one of all
  plan::View offsets = {};  // [experts + 1] i32: their first rows, as forward has found them
  double busiest = 1;       // of the experts' products (GroupedGemmAttrs)
};

struct Norm {              // parameters, and tensors saved by forward
  plan::View gamma, beta;  // [D]; without beta it is an RMSNorm
  float eps = 0;
  bool keeps_h = true;          // backward reads h
  plan::View x, h, mean, rstd;  // x [rows,D] of the stream, h [rows,D] act, [rows] f32; RMSNorm has no mean
};

struct Rows {  // side by side, as heads are
  int64_t lines, heads, ld_x, ld_h;
};

/// A stream's value while a routine is emitted: x, or x + y while y waits for the norm that adds it.
struct Flow {
  plan::View x, y;
  int64_t period = 0;  // rows after which x repeats (0: never)
  int64_t row0 = 0;    // first row within a period
  std::string linear;  // path of the linear that gave y
  plan::View bias;     // that linear's bias (absent: none): the part that adds y sums its gradient
  /// The op that writes x + y to `to`
  plan::AddAttrs sum(const plan::View& to) const {
    if (period == 0) return {.rows = 1, .cols = to.count};
    const int64_t cols = x.count / period;
    return {.rows = to.count / cols, .cols = cols, .period = period, .row0 = row0};
  }
};

struct Gradient {  // of a stream
  plan::View dx;   // added to in place
  plan::View dy;   // in the form that the linear of y reads; absent if there was none
};

/// The step of a roll-out for which a routine is emitted.
struct RollStep {
  int32_t step = 0;
  int64_t counted = 1;  // steps that count in the loss
  bool first = true, second = false, last = true;
  bool all = true;                             // backward goes through all steps; else they share a slot
  int32_t slots_back = 1;                      // from a step's slot to the previous step's
  bool counts() const { return all || last; }  // in the loss
  bool gradient_before() const { return all && !first; }
};

/// State shared by a plan's layers.
class Emission {
 public:
  Emission(plan::Builder& b, const RunSpec& spec);

  plan::Builder& b;
  const RunSpec& spec;
  DType act;           // of activations in the current part: operands and results of matrix products
  const DType amp;     // the run's type: `act` differs in f32 parts (NetPart::in_f32)
  const bool split;    // weight gradients have their own routine
  RollStep roll;       // of the open routine
  double dropout = 0;  // of hidden states; set by the net
  plan::PlanUse use = plan::PlanUse::training;

  bool to_input() const { return use == plan::PlanUse::input_gradient; }
  /// Sets the type of the part that is emitted next.
  void in_f32(bool part) { act = part ? DType::f32 : amp; }
  /// The operand of this part's matrix products.
  plan::View weight(const plan::View& param) const { return act == DType::f32 ? param : b.weight(param); }

  void backward_begins(bool accumulate);
  bool accumulates() const { return accumulate_; }        // backward adds to the gradients
  size_t postponed() const { return postponed_.size(); }  // weight gradients postponed since backward_begins
  /// Emits the postponed ones into the open routine; calls `after` with the number done.
  void weight_gradients(bool accumulate, const std::function<void(size_t)>& after);
  /// An operand of a weight gradient: scratch, or saved if backward is split. Routines that differ only in
  /// accumulation share it.
  plan::View operand(const std::string& name, DType t, int64_t count);
  /// True if a linear needs a copy of a stream's gradient: it has another type, changes later, or is kept for
  /// the weight gradient.
  bool copies_gradient(DType stream) const { return act != stream || split || dropout > 0; }
  /// A stream's gradient as that linear reads it: itself, or a copy of this name.
  plan::View for_linear(const std::string& path, const std::string& name, const plan::View& dx);

 private:
  friend class Layers;
  friend class AddsToGradients;
  struct Postponed {
    std::string path;
    const Linear* linear;
    plan::View x, dy;
    int64_t rows;
    int part;
    const Sharding* at;
    plan::View offsets;
  };
  void product(const std::string& path, const Linear& l, const plan::View& offsets, plan::GemmAttrs a,
               const plan::View& x, const plan::View& w, const plan::View& bias, const plan::View& y,
               bool weight_gradient = false);
  void weight_gradient(const Postponed& p);
  const bool tf32_;
  bool accumulate_ = false;
  std::map<const Adapter*, plan::View> adapter_gradients_;  // of x A^T, in the open backward
  std::vector<Postponed> postponed_;
  std::map<std::pair<std::string, int64_t>, plan::View> operands_;  // saved ones, by name and elements
};

/// While it lives, backward adds to the gradients if `adds`, since an earlier piece of the same rows has
/// written them. Not for a split backward pass.
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

  /// `add`: adds to y or dx, in f32
  void linear_forward(const std::string& path, const Linear& l, const plan::View& x, const plan::View& y,
                      int64_t rows, const plan::View& bias, bool add = false) const;
  void linear_backward_input(const std::string& path, const Linear& l, const plan::View& dy,
                             const plan::View& dx, int64_t rows, bool add = false) const;
  /// If split, postpones it; x and dy may then be this rank's rows. `l` must outlive the postponed product.
  void linear_backward_weight(const std::string& path, const Linear& l, const plan::View& x,
                              const plan::View& dy, int64_t rows) const;
  /// h = norm(x + y). The sum, if there is a y, is written to n.x.
  void norm_forward(const std::string& path, const std::string& pass, Norm& n, const Flow& in,
                    bool keep) const;
  /// dx += norm'(dh), or = if `first`. Returns the gradient for the linear of in.y, if any: dx itself or a
  /// copy.
  plan::View norm_backward(const std::string& path, const Norm& n, const plan::View& dh, const plan::View& dx,
                           bool first, const Flow& in) const;
  /// An RMSNorm of rows of gamma's width that stand side by side in x, `heads` of them to a line of ld_x
  /// elements: n.x -> h, in lines of ld_h.
  void head_norm_forward(const std::string& path, const std::string& pass, Norm& n, const Rows& rows,
                         const plan::View& h, bool keep) const;
  /// dx = norm'(dh), in lines as n.x; may be dh itself
  void head_norm_backward(const std::string& path, const Norm& n, const Rows& rows, const plan::View& dh,
                          const plan::View& dx) const;
  /// x = in.x + in.y of a stream, f32, for a part that begins with another layer than a norm
  void add(const std::string& path, const Flow& in, const plan::View& x) const;
  /// Its gradient for the linear of in.y, and that of the linear's bias; absent if there is no y.
  plan::View add_backward(const std::string& path, const Flow& in, const plan::View& dx) const;
  /// In place, by the random numbers of `stream`, which is unique to a place in the net. Returns the mask if
  /// it is to be kept; without one backward draws the numbers again, as every recomputation does.
  plan::View dropout(const std::string& path, const plan::View& y, bool keep, int64_t stream) const;
  void dropout_backward(const std::string& path, const plan::View& dy, const plan::View& mask,
                        int64_t stream) const;
  /// For a rank without rows: the weights' gradients that backward would have written.
  void zero_gradients(const std::string& path, const Linear& l) const;

  // ---- tensor parallelism ----
  /// Partial [full_rows, D] of a row-parallel linear -> this rank's rows of the sum
  plan::View result(const std::string& path, const plan::View& partial) const;
  plan::View gathered(const std::string& path,
                      const plan::View& part) const;  // all rows of a [rows, D] operand
  /// The bias of a row-parallel linear enters the sum once: rank 0 of the group adds it.
  plan::View once(const plan::View& bias) const { return at_.at.tp == 0 ? bias : plan::View{}; }

 private:
  plan::DropoutAttrs dropout_attrs(const plan::View& y, int64_t stream) const;
  void put_off_or_emit(const std::string& path, const Linear& l, const plan::View& x, const plan::View& dy,
                       int64_t rows) const;
  void adapter_backward_weight(const std::string& path, const Linear& l, const plan::View& x,
                               const plan::View& dy, int64_t rows) const;
  plan::View adapter_gradient(const std::string& path, const Linear& l, const plan::View& dy) const;

  Emission& e_;
  plan::Builder& b_;
  const Sharding& at_;
};

}  // namespace isobar::nets
