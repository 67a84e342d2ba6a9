// A plan is what one rank does in one optimizer step: buffers, ops grouped in routines, and the order in
// which a step invokes them. It is a pure function of (net, layout, policy, rank) and has four readers: the
// engine executes it, its placed arena is the memory, the predictor prices it, the tracer joins spans to it.
//
//   Plan plan = build_plan(spec, rank, workspace);   // model/nets/build.h: emit, place
//   Program step = link(plan, plan.train);           // flat, with waits across lanes
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/plan/op.h"

namespace isobar {

/// What a net is a list of: what pipelines cut between, what is recomputed, kept as a unit, priced once and
/// reported as one. Ops, buffers and parameters say which part they are of; their names are for people.
struct Part {
  std::string kind;    // embed, block, head
  std::string path;    // block07: what paths of its ops begin with
  int32_t alike = -1;  // the first part of the net that emits the same ops of the same shapes; itself, maybe
};

/// A tensor that one part gives to a later one: the residual stream to the next part, a skip connection to
/// one further on. A pipeline sends it over every cut that it crosses, and its gradient back.
struct Stream {
  std::string name;
  int32_t from, to;  // parts
  DType dtype;
  int64_t count;  // elements of a micro-batch that a rank holds
  int64_t bytes() const { return count * size_of(dtype); }
  bool jumps() const { return from + 1 < to; }  // a skip connection
};

/// forcing: of a later step of a roll-out, what it reads and nobody predicts. mask: 1 where the target
/// counts, else 0, as large as the target.
enum class BatchRole : uint8_t { input, target, time, forcing, mask };

/// What a fetch brings of each sample: one of its writes, which is absent on ranks that do not read it.
struct BatchTensor {
  std::string name;
  BatchRole role;
  int32_t part;  // that reads it
  DType dtype;
  int64_t sample;  // elements of one sample, as loaders read it
  int64_t count;   // of a micro-batch, as a rank holds it
  bool kept;       // until the backward pass
  /// Of a sample's time: what it is as numbers, [sample], of the hours since 1970 (UTC) of the last step read
  std::function<void(double hours, float* to)> code = {};
  int32_t step = 0;  // of a roll-out: which step reads it
};

struct Metric {  // of a step, a run of the elements of Plan::metrics
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
  int32_t routine = -1;     // scratch: the routine that it lives in
  int32_t chunk = 0;        // saved: the stage chunk whose slots it is part of
  int64_t offset = -1;      // bytes from the start of the arena (place); saved: in slot 0
  int64_t slot_stride = 0;  // saved: bytes from one micro-batch's slot to the next
  int32_t part = -1;        // index into Plan::parts
  int64_t bytes() const { return count * size_of(dtype); }
};

/// What a buffer of kind constants holds for as long as a plan lives: indices, masks, static fields. The
/// content is a pure function of the spec that is asked when a device is filled or a plan is written out;
/// placing and pricing go by the count alone.
struct Constant {
  View at;  // the whole buffer
  std::function<void(void* to)> fill;
};

enum class Init : uint8_t { zero, one, normal, uniform };

struct Param {                 // what this rank holds of a tensor, under its PyTorch name
  std::string name;            // blocks.3.attn.q.weight
  std::vector<int64_t> shape;  // of the whole tensor
  Init init;
  float scale = 0;    // normal: sigma; uniform: half width
  int axis = -1;      // tensor parallelism cuts this axis (-1: none) …
  int64_t begin = 0;  // … and this rank holds [begin, begin + extent) of it
  int64_t extent = 0;
  bool writer = true;   // of the ranks with these values in their shards, this one writes them to checkpoints
  int64_t offset = 0;   // elements into the flat parameters of this rank; the part is row-major there
  int64_t count = 0;    // elements
  int32_t part = -1;    // index into Plan::parts
  bool matrix = false;  // matrix products read it (else f32 ops)
  bool frozen = false;  // it has no gradient and no moments, and is never updated …
  bool half = false;    // … and is kept as products read it, in Plan::params16_all alone
  float lr_factor = 1;  // on the learning rate
  bool decays = true;   // by train.weight_decay
  bool partial = false;  // whole, and its gradient is this rank's part of a sum over tensor parallelism
  bool adapter = false;  // of a linear (nets/adapter.h): a checkpoint without it is one to start from
};

struct Shard {              // of the flat parameters, what this rank answers for (all of them without ZeRO)
  int64_t begin, count;     // flat elements
  int64_t params, moments;  // first one's place in the buffer params, or params16 (Param::half); in both of
                            // Adam's (-1: frozen)
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
  int32_t slot;   // which slot of saved buffers
};

struct Memory {
  int64_t arena = 0;                   // bytes of the device, all of the below but what the host has
  int64_t host = 0;                    // bytes of the host arena: buffers that are offloaded
  int64_t by_kind[kBufferKinds] = {};  // bytes by BufferKind (scratch: its region)
  int64_t loader = 0;                  // host batches that the data loader keeps ready
  int64_t replay = 0;                  // host: what the replay buffer holds of predictions
  int64_t total() const { return arena + host + loader + replay; }
};

/// Elements of Plan::scalars. With a scaled loss the plan's loss_scale op keeps those in the middle.
enum Scalar : uint8_t {
  kLearningRate,  // of this step
  kStep,          // of the optimizer, 1 the first time: steps that were skipped do not count
  kLossScale,     // of the next backward pass
  kGoodSteps,     // since the scale has changed
  kUnscale,       // what gradients are multiplied by; 0: this step is skipped
  kTraining,      // 1: of a training step, in which dropout acts; 0: of a validation
  kPadding,       // samples at the end of a micro-batch that only fill it: loss and errors are of the others
  kScalars
};

struct Plan {
  int rank = 0, world = 1;
  std::vector<Part> parts;  // of the whole net, in forward order: the same on every rank
  std::vector<Stream>
      streams;  // between them, by `to`; counts are of a rank with these tp and cp coordinates
  std::vector<Stream> feedback;       // of a roll-out: from the last part of a step to the first of the next
  std::vector<BatchTensor> batch;     // by a fetch's writes
  std::vector<Metric> metrics_named;  // the first is the loss
  std::vector<Group> groups;
  std::vector<Buffer> buffers;
  std::vector<Constant> constants;
  std::vector<Tensor> tensors;  // the whole net's parameters, the same on every rank
  std::vector<Param> params;    // of this rank, by offset
  std::vector<Shard> shards;    // of those, by begin: what it starts, updates, saves and loads
  std::vector<Op> ops;
  std::vector<Routine> routines;
  std::vector<Invocation> init, train, eval;
  std::vector<Invocation> exchange;              // of weights and their moving average; empty: there is none
  std::vector<std::vector<Invocation>> shorter;  // train with roll-outs of 1, 2, … steps, where they grow
  std::vector<int64_t> slots;                    // per chunk: micro-batches in flight
  int64_t align = 64;  // bytes that every buffer of the arenas begins on (Workspace::align)
  Memory memory;
  // Buffers that the engine talks to by name.
  // adam_m: SGD's momentum, too; it has no adam_v.
  View params_all, grads_all, adam_m, adam_v, params16_all, metrics, grad_norm2, scalars;
  View ema_all;  // the moving average of what is trained, by Shard::moments; absent: there is none
  // What a replay buffer takes, where the net's first or its last part is: the prediction as it lies [rows, p
  // p C'], f32; absent: there is none.
  View replayed;
  View input_gradient;  // of the loss, as the first part reads it; absent unless it was asked for (build.h)

  int64_t parameter_count() const;                      // of the whole net
  int64_t trained_count() const;                        // of them, those that are not frozen
  const Metric& metric(const std::string& name) const;  // throws std::out_of_range
};

/// What a backend asks of placement: the bytes of scratch that its library wants for an op (pure: depends on
/// the op), and what every buffer of its arenas begins on.
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
  explicit operator bool() const { return static_cast<bool>(bytes_); }  // whether any op may want scratch

  static constexpr int64_t kCacheLine = 64;  // bytes: what AVX-512 loads like
  int64_t align = kCacheLine;

 private:
  std::function<int64_t(const Op&)> bytes_;
};

/// Gives every buffer its address: persistent buffers, then slots of saved ones, then scratch by liveness
/// (best fit inside its routine). Addresses of the host arena follow those of the device's. Fills offsets and
/// plan.memory.
void place(Plan& plan);

/// The text that golden files hold; its hash names the plan.
std::string to_text(const Plan& plan);

}  // namespace isobar
