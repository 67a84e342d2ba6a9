// The parameters of this rank's stages, and where they lie.
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

#include "model/nets/net.h"
#include "model/nets/stages.h"
#include "model/plan/parameters.h"

namespace isobar {

constexpr float kSigma = 0.02f;  // of a transformer's first weights

/// A tensor that both ends of a pipeline hold is declared by each.
enum class Held : uint8_t { once, first_of_two, second_of_two };

/// Of a parameter: whether tensor parallelism cuts it. partial: it does not, and its gradient is this rank's
/// part of a sum (adapter.h).
enum class TensorCut : uint8_t { cut, partial, whole };

/// What a part says which parameters it has to. Parts are asked several times: for the list of the whole
/// net's tensors, and for each section of the flat parameters.
class Declare {
 public:
  /// One operand of one or several tensors, each [out, in] or [out]; Param::axis is what tensor parallelism
  /// cuts (-1: none). `matrix`: matrix products read it (else f32 ops).
  void tensor(View& v, bool matrix, std::vector<Param> pieces, Held held = Held::once);
  void norm(Norm& n, const std::string& name, int64_t width, double eps, bool beta);
  void linear(Linear& l, const std::string& name, int64_t in, int64_t out, int cut_axis, bool bias);
  /// Cut as the first of its weights is, if at all; `bias` may be empty.
  void linear(Linear& l, int64_t in, int64_t out, std::vector<Param> weights, std::vector<Param> bias);

 private:
  friend void declare_parameters(Builder&, const RunSpec&, const Sharding&, Parameters&, const Stages&,
                                 std::span<const std::unique_ptr<NetPart>>);
  Declare(Builder& b, const RunSpec& spec, const Sharding& at, Parameters& params);
  void list(std::span<const std::unique_ptr<NetPart>> parts);
  void section(const Section& s, TensorCut cut, const Stage& stage,
               std::span<const std::unique_ptr<NetPart>> parts);
  void adapt(Linear& l, int64_t in, const std::vector<Param>& weights);
  /// `multiplied`: by what tensor parallelism cuts, though it is whole itself.
  void tensor(View& v, bool matrix, std::vector<Param> pieces, Held held, bool multiplied);
  bool frozen(const std::vector<Param>& pieces) const;
  void group(Param& p) const;
  bool writes(const Param& p);

  Builder& b_;
  const RunSpec& spec_;
  const Sharding& at_;
  Parameters& params_;
  const bool fp8_;
  bool list_ = false;  // what is asked for: the list, or …
  TensorCut cut_ = TensorCut::whole;
  bool matrix_ = false, frozen_ = false, f32_ = false;  // … what is of this section
  int part_ = 0;
  std::priority_queue<std::pair<int64_t, int64_t>> written_;  // minus elements and replica: least on top
};

/// Those that tensor parallelism cuts lie first, then those that it leaves whole: their gradients are summed
/// over different groups; what is frozen lies behind what is trained. Within each: chunk by chunk, in forward
/// order.
void declare_parameters(Builder& b, const RunSpec& spec, const Sharding& at, Parameters& params,
                        const Stages& stages, std::span<const std::unique_ptr<NetPart>> parts);

}  // namespace isobar
