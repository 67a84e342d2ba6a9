// A plan is what one rank does in one optimizer step: buffers, ops grouped in routines, and the order in
// which a step invokes them. It is a pure function of (net, layout, policy, rank) with four readers: the
// engine executes it, its placed arena is the memory, the predictor prices it, the tracer joins spans to it.
//
//   Plan plan = build_plan(spec, rank, workspace);   // model/nets/build.h: emit, place
//   Program step = link(plan, plan.train);           // flat, with waits across lanes
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/plan/ops/op.h"

namespace isobar::plan {

/// The unit of a net: what pipelines cut between, what is recomputed, sharded, priced and reported as one.
/// Ops, buffers and parameters hold the index of their part; its names are for people.
struct Part {
  std::string kind;      // embed, block, head
  std::string path;      // block07: prefix of its ops' paths
  int32_t same_as = -1;  // the first part that emits the same ops of the same shapes (perhaps itself)
};

/// A tensor that one part gives to a later one: the residual stream to the next part, a skip connection to
/// one further on. A pipeline sends it over every cut that it crosses, and its gradient back.
struct Stream {
  std::string name;
  int32_t from, to;  // parts
  DType dtype;
  int64_t count;  // elements of a micro-batch on one rank
  int64_t bytes() const { return count * size_of(dtype); }
  bool jumps() const { return from + 1 < to; }  // a skip connection
};

/// forcing: read by later steps of a roll-out, not predicted. mask: 1 where the target counts, else 0; as
/// large as the target.
enum class BatchRole : uint8_t { input, target, time, forcing, mask };

/// A tensor that fetch brings of each sample: one of its writes, absent on ranks that do not read it.
struct BatchTensor {
  std::string name;
  BatchRole role;
  int32_t part;  // part that reads it
  DType dtype;
  int64_t sample;  // elements of one sample, as loaders read it
  int64_t count;   // elements of a micro-batch on one rank
  bool kept;       // until the backward pass
  /// A sample's time as numbers, [sample], from the hours since 1970 (UTC) of the last step read
  std::function<void(double hours, float* to)> code = {};
  int32_t step = 0;     // roll-out: step that reads it
  TokenRuns held = {};  // this rank's elements of each sample, of several ranks that share it; none: all
};

struct Metric {  // of a step: a run of elements of Plan::metrics
  std::string name;
  int64_t first, count;
};

enum class BufferKind : uint8_t { params, params16, grads, adam, io, constants, saved, scratch, host };
constexpr int kBufferKinds = 9;
const char* name_of(BufferKind k);

struct Buffer {
  std::string name;
  BufferKind kind;
  DType dtype;
  int64_t count;            // elements
  int32_t routine = -1;     // scratch: its routine
  int32_t chunk = 0;        // saved: the stage chunk whose slots hold it
  int64_t offset = -1;      // bytes from the start of the arena (place); saved: in slot 0
  int64_t slot_stride = 0;  // saved: bytes from one micro-batch's slot to the next
  int32_t part = -1;        // index into Plan::parts
  double filled = 1;        // share of it that is expected to hold data: what other ranks send is not known
  int64_t bytes() const { return count * size_of(dtype); }
};

/// The content of a buffer of kind constants: indices, masks, static fields. It is a pure function of the
/// spec, called when a device is filled or a plan is written out; placement and pricing use only the count.
struct Constant {
  View at;  // the whole buffer
  std::function<void(void* to)> fill;
};

enum class Init : uint8_t { zero, one, normal, uniform };

struct Param {                 // this rank's part of a tensor, under its PyTorch name
  std::string name;            // blocks.3.attn.q.weight
  std::vector<int64_t> shape;  // of the whole tensor
  Init init;
  float scale = 0;    // normal: sigma; uniform: half width
  int axis = -1;      // axis that tensor parallelism cuts (-1: none)
  int64_t begin = 0;  // this rank holds [begin, begin + extent) of it
  int64_t extent = 0;
  bool writer = true;    // the one rank among replicas that writes it to checkpoints
  int64_t offset = 0;    // elements into this rank's flat parameters; the part is row-major there
  int64_t count = 0;     // elements
  int64_t reserved = 0;  // elements of the operand that begins here, zeros behind the tensor's; 0: count
  int32_t part = -1;     // index into Plan::parts
  bool matrix = false;   // read by matrix products (else by f32 ops)
  bool frozen = false;   // no gradient, no moments, never updated
  bool half = false;     // frozen, and kept in Plan::params16_all alone
  float lr_factor = 1;   // on the learning rate
  bool decays = true;    // by train.weight_decay
  bool partial = false;  // whole on every rank; its gradient is a partial sum over tensor parallelism
  bool expert = false;   // of an expert, and expert parallelism divides those
  bool adapter = false;  // part of an adapter (nets/transformer/adapter.h): a checkpoint may lack it
};

struct Shard {              // flat parameters that this rank updates and saves (all without ZeRO)
  int64_t begin, count;     // flat elements
  int64_t params, moments;  // offset in the buffer params, or params16 (Param::half); and in the moments (-1:
                            // frozen)
};

struct ParamHome {  // where flat parameters, or their gradients, are or arrive
  View at;
  int64_t begin;  // flat elements
};

struct Tensor {  // a parameter of the whole net
  std::string name;
  std::vector<int64_t> shape;
  bool frozen = false;
};

struct Group {             // one communicator of this rank
  std::string name;        // "dp"
  std::vector<int> ranks;  // world ranks, in group order
};

enum class Pass : uint8_t { init, forward, backward, optimizer, begin, eval_end };

struct Routine {
  std::string name;  // forward, backward.first, …
  Pass pass;
  int32_t chunk = 0;
  int32_t first = 0, count = 0;  // ops
};

struct Invocation {
  int32_t routine;
  int32_t micro;  // micro-batch
  int32_t slot;   // of saved buffers
};

struct Memory {
  int64_t arena = 0;                   // bytes on the device, all of the below but `host`
  int64_t host = 0;                    // bytes of offloaded buffers
  int64_t by_kind[kBufferKinds] = {};  // bytes by BufferKind (scratch: its region)
  int64_t loader = 0;                  // host batches that the data loader keeps ready
  int64_t replay = 0;                  // host: predictions in the replay buffer
  int64_t total() const { return arena + host + loader + replay; }
};

/// Elements of Plan::scalars. With loss scaling the plan's loss_scale op maintains kLossScale to kUnscale.
enum Scalar : uint8_t {
  kLearningRate,  // of this step
  kStep,          // of the optimizer, from 1; skipped steps do not count
  kLossScale,     // of the next backward pass
  kGoodSteps,     // since the scale changed
  kUnscale,       // factor on gradients; 0: this step is skipped
  kTraining,      // 1: training step, in which dropout acts; 0: validation
  kPadding,       // samples that only fill the last micro-batch; loss and errors exclude them
  kScalars
};

/// input_gradient: the backward pass continues to the net's input (Plan::input_gradient). prices: only sizes
/// count, so all experts' weights of a product are one parameter, named as the first's.
enum class PlanUse : uint8_t { training, input_gradient, prices };

struct Plan {
  int rank = 0, world = 1;
  std::vector<Part> parts;         // of the whole net, in forward order: the same on every rank
  std::vector<Stream> streams;     // between parts, by `to`; counts are for this rank's tp and cp coordinates
  std::vector<Stream> feedback;    // roll-out: from a step's last part to the next step's first
  std::vector<BatchTensor> batch;  // in the order of fetch's writes
  std::vector<Metric> metrics_named;  // the first is the loss
  std::vector<Group> groups;
  std::vector<Buffer> buffers;
  std::vector<Constant> constants;
  std::vector<Tensor> tensors;   // the whole net's parameters, the same on every rank
  std::vector<Param> params;     // this rank's, by offset
  std::vector<Shard> shards;     // of those, by begin: what this rank updates, saves and loads
  std::vector<ParamHome> homes;  // names operands that are parameters (to_text)
  std::vector<Op> ops;
  std::vector<Routine> routines;
  std::vector<Invocation> init, train, eval;
  std::vector<Invocation> exchange;              // swaps weights with their moving average; empty: there is
                                                 // none
  std::vector<std::vector<Invocation>> shorter;  // as train, with roll-outs of 1, 2, … steps, for roll-outs
                                                 // that grow
  std::vector<int64_t> slots;                    // per chunk: micro-batches in flight
  int64_t align = 64;                            // bytes: alignment of every buffer (Workspace::align)
  Memory memory;
  // Buffers that the engine accesses by name. adam_m is also SGD's momentum, which has no adam_v.
  View params_all, grads_all, adam_m, adam_v, params16_all, metrics, grad_norm2, scalars;
  View ema_all;  // moving average of the trained parameters, by Shard::moments; absent: there is none
  // Prediction for a replay buffer, on ranks with the net's first or last part: [rows, p p C'], f32.
  View replayed;
  View input_gradient;  // gradient of the loss by the first part's input; absent unless requested (build.h)

  int64_t parameter_count() const;                      // of the whole net
  int64_t trained_count() const;                        // of them, not frozen
  const Metric& metric(const std::string& name) const;  // throws std::out_of_range
};

/// A backend's demands on placement: bytes of scratch that its library wants for an op (a pure function of
/// the op) and the alignment of every buffer.
///
///   build_plan(spec, 0, {});                                                          // no scratch
///   build_plan(spec, 0, {[](const Op&) -> int64_t { return 4096; }, 256});
class Workspace {
 public:
  Workspace() = default;
  template <class F>
  requires std::is_invocable_r_v<int64_t, F, const Op&> Workspace(F bytes, int64_t align = kCacheLine)
      : align(align), bytes_(std::move(bytes)) {}
  int64_t operator()(const Op& op) const { return bytes_ ? bytes_(op) : 0; }
  explicit operator bool() const { return static_cast<bool>(bytes_); }  // true if any op may want scratch

  static constexpr int64_t kCacheLine = 64;  // bytes, for AVX-512 loads
  int64_t align = kCacheLine;

 private:
  std::function<int64_t(const Op&)> bytes_;
};

/// Gives every buffer its address: persistent buffers, slots of saved ones, then scratch by liveness (best
/// fit inside its routine); host addresses follow the device's. Fills offsets and plan.memory.
void place(Plan& plan);

/// The text of golden files; its hash identifies the plan.
std::string to_text(const Plan& plan);

}  // namespace isobar::plan
