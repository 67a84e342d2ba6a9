// A rank's flat parameters, cut into units: what is reduced, updated and gathered together. How much of a
// unit a rank keeps for itself is ZeRO's stage (Rajbhandari 2020), over the n ranks that sum its gradients:
//
//   stage  parameters   gradients    moments    on the wire, a step
//   0      whole        whole        whole      all-reduce of the gradients
//   1      whole        whole        1/n        reduce-scatter of them, all-gather of the parameters
//   2      whole        1/n          1/n        the same; a reduce-scatter every micro-batch
//   3      1/n          1/n          1/n        and an all-gather before every use
//
// Gradients that are not kept whole, or not in f32, are those of one micro-batch at first (raw, in scratch),
// and added to the kept ones when a unit is final.
//
// Where matrix products read 16-bit copies, the f32 masters are kept like the moments, and what is read in
// f32 (norms, biases, embeddings) is in units of its own that are not copied.
//
// Offloaded parameters lie in host memory: a share is copied to the device before it is gathered for a use,
// and comes for its update as the moments do.
//
// What is frozen is in units of its own: parameters alone, in the type that they are read in, of which ranks
// keep shares at stage 3 only.
//
//   Parameters p(b, {.zero = 1, .act = DType::bf16});
//   p.section({.chunk = 0, .group = dp, .matrix = true});
//   p.part(0);                           // what is declared from here on belongs to part 0 of the net
//   View w = b.param({...});
//   p.end();
//   b.begin("backward", Pass::backward); p.backward(0, true, true);
//   p.need(0); ...; p.final(0); p.finish(last);
#pragma once
#include <vector>

#include "model/plan/builder.h"

namespace isobar {

struct ParameterPolicy {
  int64_t zero = 0;
  DType act = DType::f32;       // of matrix products: a 16-bit type brings 16-bit copies of what they read
  DType grads = DType::f32;     // kept and summed in; ops write them in f32
  int64_t bucket = 1 << 22;     // elements: units are at least as large, but at stage 3 one part each
  bool sgd = false;             // one moment, the momentum, instead of Adam's two
  float ema = 0;                // of a moving average of the weights, kept as the moments are; 0: none
  bool offload = false;         // moments live in host memory: each unit's come for its update and go again
  bool offload_params = false;  // stage 3: shares of the parameters, too
  bool overlap = true;          // communication under compute; false: after and before it
};

struct Section {        // neighbours in the flat parameters with one fate
  int chunk = 0;        // of the pipeline stage
  int group = -1;       // ranks that sum its gradients (-1: this one alone)
  bool matrix = true;   // matrix products read it; else f32 ops
  bool counted = true;  // this rank's share counts in the norm of all gradients
  bool frozen = false;
  bool operator==(const Section&) const = default;
};

class Parameters {
 public:
  Parameters(Builder& b, const ParameterPolicy& policy) : b_(b), policy_(policy) {}

  // ---- declaration ----
  void section(const Section& s);
  void part(int index);  // of Plan::parts, ascending within a section
  /// The same, and what comes until the next call is a unit of its own: another rank's of the same tensor is
  /// cut alike.
  void alone(int index, bool counted);
  void end();  // creates the buffers

  // ---- inside a routine that runs a chunk ----
  void forward(int chunk);
  /// `first`, `last`: of the micro-batches of a step.
  void backward(int chunk, bool first, bool last);
  /// The part's parameters are there for the ops that follow, and the next part's are on their way.
  void need(int part);
  /// Gradients of this part and of those behind it are final.
  void final(int part);
  /// … all of them; backward wrote `last` last.
  void finish(const View& last);
  /// Ops of later micro-batches add to the gradients themselves; else they write them, and it is done here.
  bool ops_accumulate() const { return policy_.zero < 2 && policy_.grads == DType::f32; }
  /// What matrix products read is declared in sections of its own.
  bool by_reader(bool frozen) const { return (policy_.zero > 0 || frozen) && policy_.act != DType::f32; }
  /// Of what is read by matrix products or not: whether the copy that those read is all there is of it.
  bool halves(bool frozen, bool matrix) const { return frozen && matrix && policy_.act != DType::f32; }
  /// Every rank keeps frozen parameters whole.
  bool frozen_whole() const { return policy_.zero < 3; }

  // ---- inside routines of their own ----
  void copies(const std::string& path);         // masters to 16-bit copies and to the other ranks
  View kept_gradient(const View& param) const;  // of the unit it is in
  void squared_norm(const View& sum);           // of this rank's share of the gradients
  /// One Adam (or SGD) a unit: `scalars` and `norm2` are operands of the op.
  void update(const View& scalars, const View& norm2);
  /// What is trained and its moving average change places, and with it all copies.
  void exchange(const std::string& path);

 private:
  struct Unit {
    Section section;
    int first_part;
    int64_t begin, end = 0;  // flat, padding included
    int64_t ranks = 1, me = 0;
    // Where what this rank keeps of it begins, elements into the buffers of these names (-1: no copy).
    int64_t params = 0, params16 = -1, grads = 0, moments = 0;
    std::vector<View> gaps{};  // of the flat range, where no parameter lies
    int64_t size() const { return end - begin; }
    int64_t share() const { return size() / ranks; }
  };
  struct Run {  // what this rank updates at once: a unit's share, or neighbours that it has whole
    std::string name;
    const Unit* unit;  // nullptr: several
    bool counted;
    int64_t flat;  // where it begins among the flat parameters
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
  bool open_ = false;   // units_.back() is being declared …
  bool alone_ = false;  // … and takes no further part
  std::vector<Unit> units_;
  int64_t params_ = 0, params16_ = 0, grads_ = 0, moments_ = 0;  // elements allotted so far

  // Of the routine that is open:
  int chunk_ = 0, direction_ = 1;
  bool first_ = true, last_ = true;
  std::vector<bool> here_, reduced_;  // by unit
  std::vector<View> raw_;             // by unit: gradients of this micro-batch alone
  std::vector<View> arrived_;         // by unit: what was reduced and is not yet added to what is kept
};

}  // namespace isobar
