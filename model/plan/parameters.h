// A rank's flat parameters, cut into units that are reduced, updated and gathered together. ZeRO's stage
// (Rajbhandari 2020) says how much of a unit a rank keeps, over the n ranks that sum its gradients:
//
//   stage  parameters   gradients    moments    on the wire, a step
//   0      whole        whole        whole      all-reduce of the gradients
//   1      whole        whole        1/n        reduce-scatter of them, all-gather of the parameters
//   2      whole        1/n          1/n        the same; a reduce-scatter every micro-batch
//   3      1/n          1/n          1/n        and an all-gather before every use
//
// Gradients that are not kept whole or not in f32 are first those of one micro-batch (raw, in scratch), and
// are added to the kept ones when a unit is final.
//
// If matrix products read 16-bit copies, the f32 masters are sharded like the moments. Parameters read in f32
// (norms, biases, embeddings) have their own units without copies.
//
// Offloaded parameters live in host memory: a share is copied to the device before it is gathered, and for
// its update, as moments are.
//
// Frozen parameters have their own units, without gradients or moments, in the type they are read in; ranks
// keep shares of them at stage 3 only.
//
//   Parameters p(b, {.zero = 1, .act = DType::bf16});
//   p.section({.chunk = 0, .group = dp, .matrix = true});
//   p.part(0);                           // declarations from here on belong to part 0
//   View w = b.param({...});
//   p.end();
//   b.begin("backward", Pass::backward); p.backward(0, true, true);
//   p.need(0); ...; p.final(0); p.finish(last);
#pragma once
#include <vector>

#include "model/plan/builder.h"

namespace isobar::plan {

struct ParameterPolicy {
  int64_t zero = 0;
  DType act = DType::f32;    // of matrix products: a 16-bit type adds 16-bit copies of their parameters
  DType grads = DType::f32;  // kept and summed in this type; ops write f32
  int64_t bucket = 1 << 22;  // elements: least size of a unit; at stage 3 a unit is one part
  std::variant<AdamAttrs, SgdAttrs> optimizer;  // constants; SGD has one moment instead of Adam's two
  bool sgd() const { return std::holds_alternative<SgdAttrs>(optimizer); }
  float ema = 0;                // weight of a moving average of the parameters, sharded like the moments; 0:
                                // none
  bool offload = false;         // moments live in host memory: loaded for each unit's update and stored again
  bool offload_params = false;  // stage 3: so do the parameters' shares
  bool overlap = true;          // communication under compute; false: before and after it
};

struct Section {        // adjacent flat parameters with the same treatment
  int chunk = 0;        // of the pipeline stage
  int group = -1;       // ranks that sum its gradients (-1: only this one)
  bool matrix = true;   // read by matrix products; else by f32 ops
  bool counted = true;  // this rank's share counts in the gradient norm
  bool frozen = false;
  bool operator==(const Section&) const = default;
};

class Parameters {
 public:
  Parameters(Builder& b, const ParameterPolicy& policy) : b_(b), policy_(policy) {}

  // ---- declaration ----
  void section(const Section& s);
  void part(int index);  // of Plan::parts, ascending within a section
  /// As part(), but declarations until the next call form their own unit, so that other ranks cut the same
  /// tensor equally.
  void alone(int index, bool counted);
  void end();  // creates the buffers

  // ---- inside a routine that runs a chunk ----
  void forward(int chunk);
  /// `first`, `last`: among the micro-batches of a step.
  void backward(int chunk, bool first, bool last);
  /// Makes the part's parameters available to the ops that follow and starts loading the next part's.
  void need(int part);
  /// Gradients of this part and later ones are final.
  void final(int part);
  /// All gradients are final; backward wrote `last` last.
  void finish(const View& last);
  /// True if ops of later micro-batches add to the gradients; else ops write them and this class adds.
  bool ops_accumulate() const { return policy_.zero < 2 && policy_.grads == DType::f32; }
  /// True if parameters of matrix products have sections of their own.
  bool by_reader(bool frozen) const { return (policy_.zero > 0 || frozen) && policy_.act != DType::f32; }
  /// True if the 16-bit copy is all that is kept of such parameters.
  bool halves(bool frozen, bool matrix) const { return frozen && matrix && policy_.act != DType::f32; }
  /// Every rank keeps frozen parameters whole.
  bool frozen_whole() const { return policy_.zero < 3; }

  // ---- inside other routines ----
  void copies(const std::string& path);         // masters to 16-bit copies and to the other ranks
  View kept_gradient(const View& param) const;  // within its unit
  void squared_norm(const View& sum);           // of this rank's share of the gradients
  /// One Adam (or SGD) op per unit, with the operands `scalars` and `norm2`.
  void update(const View& scalars, const View& norm2);
  /// Exchanges the trained parameters with their moving average, and updates all copies.
  void exchange(const std::string& path);

 private:
  struct Unit {
    Section section;
    int first_part;
    int64_t begin, end = 0;  // flat, padding included
    int64_t ranks = 1, me = 0;
    // Element offsets of this rank's share in the buffers of these names (-1: no copy).
    int64_t params = 0, params16 = -1, grads = 0, moments = 0;
    std::vector<View> gaps{};  // of the flat range, without parameters
    int64_t size() const { return end - begin; }
    int64_t share() const { return size() / ranks; }
  };
  struct Run {  // updated by one op: a unit's share, or adjacent units that are whole
    std::string name;
    const Unit* unit;  // nullptr: several
    bool counted;
    int64_t flat;  // flat offset
    View param, param16, grad, m, v, ema;
  };
  View groups_of(const Run& r) const;
  bool copied(const Unit& u) const { return u.section.matrix && policy_.act != DType::f32; }
  bool half(const Unit& u) const { return halves(u.section.frozen, u.section.matrix); }
  bool sharded(const Unit& u) const {
    return policy_.zero > 0 && u.ranks > 1 && (!u.section.frozen || !frozen_whole());
  }
  /// Its parameters are gathered before every use.
  bool visits(const Unit& u) const { return policy_.zero == 3 && (sharded(u) || policy_.offload_params); }
  bool whole_params(const Unit& u) const { return !sharded(u) || (policy_.zero < 3 && !copied(u)); }
  bool whole_params16(const Unit& u) const { return !sharded(u) || policy_.zero < 3; }
  bool whole_grads(const Unit& u) const { return !sharded(u) || policy_.zero < 2; }
  View share(const Unit& u, const View& all, int64_t at, bool whole) const;
  void close_unit();
  void allot(Unit& u);
  void find_gaps();
  std::vector<Run> runs() const;
  void gather(int part);
  View brought(const std::string& path, const View& from);
  void drop_unread_gathers();
  void reduce(size_t index, const View& after);
  void settle(size_t index);
  void bring(const std::string& bucket, const View& from, const View& to, bool accumulate);
  void spread(const Unit& u);
  void transfer(const std::string& path, const View& from, const View& to, Lane lane);
  std::string name(const char* what, const Unit& u) const;
  static std::string bucket_of(const Unit& u);

  Builder& b_;
  const ParameterPolicy policy_;
  Section section_;
  int part_ = 0;
  bool open_ = false;   // units_.back() is being declared
  bool alone_ = false;  // and takes no further part
  std::vector<Unit> units_;
  int64_t params_ = 0, params16_ = 0, grads_ = 0, moments_ = 0;  // elements allotted so far

  // State of the open routine:
  int chunk_ = 0, direction_ = 1;
  bool first_ = true, last_ = true;
  std::vector<bool> here_, reduced_;  // by unit
  std::vector<View> raw_;             // by unit: this micro-batch's gradients
  std::vector<View> arrived_;         // by unit: reduced gradients, not yet added to the kept ones
};

}  // namespace isobar::plan
