// The parameters of this rank's stages, and their places in the flat parameters.
//
//   declare_parameters(b, spec, at, params, stages, parts);      // each part's declare(), see below
//   void Block::declare(Declare& d) { d.norm(norm1_, "blocks.0.norm1", D, eps, true); … }
#pragma once
#include <memory>
#include <queue>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/nets/layout/stages.h"
#include "model/nets/net.h"
#include "model/plan/parameters.h"

namespace isobar::nets {

constexpr float kSigma = 0.02f;  // standard deviation of a transformer's initial weights

/// A tensor that both ends of a pipeline hold is declared by each.
enum class Held : uint8_t { once, first_of_two, second_of_two };

/// How tensor parallelism treats a parameter. partial: it is whole, but its gradient is a partial sum
/// (has_partial). expert: expert parallelism divides it, tensor parallelism may cut it. kept: a state.
enum class TensorCut : uint8_t { cut, expert, partial, whole, kept };

/// multiplied: by a cut operand, or multiplying one, though it is whole. expert: of one expert. state: of no
/// gradient.
enum class TensorUse : uint8_t { usual, multiplied, expert, state };

/// Parts declare their parameters through it. They are called several times: for the list of the whole net's
/// tensors, and for each section of the flat parameters.
class Declare {
 public:
  /// One operand made of one or several tensors, each [out, in] or [out]; tensor parallelism cuts Param::axis
  /// (-1: none). `matrix`: read by matrix products (else by f32 ops).
  void tensor(plan::View& v, bool matrix, std::vector<plan::Param> pieces, Held held = Held::once);
  void norm(Norm& n, const std::string& name, int64_t width, double eps, bool beta,
            TensorUse use = TensorUse::usual);
  void linear(Linear& l, const std::string& name, int64_t in, int64_t out, int cut_axis, bool bias);
  /// Cut like the first of its weights; `bias` may be empty.
  void linear(Linear& l, int64_t in, int64_t out, std::vector<plan::Param> weights,
              std::vector<plan::Param> bias, TensorUse use = TensorUse::usual);
  /// A linear [out, in] of each expert, declared together: `weights` of the first, of the second, …, or of
  /// the first alone (PlanUse::prices). Expert parallelism leaves this rank its part of them.
  void experts(Linear& l, int64_t in, int64_t out, int64_t experts, const std::vector<plan::Param>& weights,
               bool first_alone);
  /// Whole, but its result multiplies what tensor parallelism cuts.
  void router(Linear& l, const std::string& name, int64_t in, int64_t experts);
  /// Values that no gradient trains; every rank keeps all of them, at any stage of ZeRO.
  void state(plan::View& v, plan::Param p);

 private:
  friend void declare_parameters(plan::Builder&, const RunSpec&, const Sharding&, plan::Parameters&,
                                 const Stages&, std::span<const std::unique_ptr<NetPart>>);
  Declare(plan::Builder& b, const RunSpec& spec, const Sharding& at, plan::Parameters& params);
  void list(std::span<const std::unique_ptr<NetPart>> parts);
  void section(const plan::Section& s, TensorCut cut, const Stage& stage,
               std::span<const std::unique_ptr<NetPart>> parts);
  void adapt(Linear& l, int64_t in, const std::vector<plan::Param>& weights);
  void tensor(plan::View& v, bool matrix, std::vector<plan::Param> pieces, Held held, TensorUse use);
  bool frozen(const std::vector<plan::Param>& pieces) const;
  void take_part(plan::Param& p) const;
  void group(plan::Param& p) const;
  bool writes(const plan::Param& p, bool state);
  bool writes_expert(const plan::Param& p);

  plan::Builder& b_;
  const RunSpec& spec_;
  const Sharding& at_;
  plan::Parameters& params_;
  const bool fp8_;
  bool list_ = false;  // collecting the whole net's list, else …
  TensorCut cut_ = TensorCut::whole;
  bool matrix_ = false, frozen_ = false, f32_ = false;  // … parameters of this section
  int part_ = 0;
  int64_t experts_written_ = 0;
  std::priority_queue<std::pair<int64_t, int64_t>> written_;  // minus elements and replica: least loaded on
                                                              // top
};

/// Order: parameters that tensor parallelism cuts, then those it leaves whole, since their gradients are
/// summed over different groups; trained before frozen. Within each: chunk by chunk, in forward order.
void declare_parameters(plan::Builder& b, const RunSpec& spec, const Sharding& at, plan::Parameters& params,
                        const Stages& stages, std::span<const std::unique_ptr<NetPart>> parts);

}  // namespace isobar::nets
