#include "bench/micro/device/timed_step.h"

#include <random>
#include <set>
#include <utility>

#include "model/backend/cuda/kernels/kernels.h"
#include "model/backend/cuda/kernels/workspace.h"
#include "model/engine/plan_memory.h"
#include "model/inference/weights/params.h"
#include "model/nets/build.h"
#include "perfmodel/step/shapes.h"

namespace isobar::micro {
namespace {

constexpr uint64_t kSeed = 7;

std::string dtype_of(const plan::Op& op, const plan::Plan& plan) {
  if (plan::rounds_to_tf32(op.attrs)) return "tf32";
  for (const auto* views : {&op.reads, &op.writes})
    for (const plan::View& v : *views)
      if (v) return plan.buffers[static_cast<size_t>(v.buffer)].dtype == DType::f32 ? "f32" : "bf16";
  return "f32";
}

}  // namespace

DeviceBench::DeviceBench(plan::Plan p, const DeviceTimer& timer, const RunOptions& run)
    : plan(std::move(p)),
      arena(plan.memory.arena),
      host(plan.memory.host),
      backend(plan, arena.data(), host.data(), timer.streams(),
              {.gemm = GemmChoice::heuristic,
               .capability = timer.device().major,
               .attention = run.attention,
               .deterministic = run.deterministic_attention,
               .fuse = false}) {
  backend.prepare();
  cuda::fill_noise(arena.bytes(), arena.data(), timer.streams()[plan::Lane::compute]);
  backend.load_constants();
  timer.streams().sync();
}

DeviceTimedStep::DeviceTimedStep(const RunSpec& spec, const DeviceTimer& timer)
    : timer_(timer),
      vocabulary_(spec.net.words() ? spec.net.words()->vocab_size : 0),
      bench_(nets::build_plan(
                 spec, 0,
                 cuda_workspace(timer.device().major, spec.run.deterministic_attention, spec.run.attention)),
             timer, spec.run) {
  set_first_values();
  std::vector<DeviceTimer::Launch> sections;
  for (const plan::Instr& i : plan::link(plan(), plan().train, /*serial=*/true).instrs) {
    const plan::Op& op = plan().ops[static_cast<size_t>(i.op)];
    if (plan::is_collective(op.kind)) continue;
    ops_.push_back(&op);
    sections.emplace_back([this, &op, micro = i.micro, slot = i.slot](cudaStream_t stream) {
      if (op.kind == plan::OpKind::fetch) return land(op, slot, stream);
      bench_.backend.launch_on(op, micro, slot, stream);
    });
  }
  case_ = timer_.prepare(sections, 1);
}

// The arena is zero as in a training, so that Adam's moments are; weights as a training begins with, which a
// learning rate of 0 keeps, because the power that products draw depends on their operands.
void DeviceTimedStep::set_first_values() {
  const cudaStream_t stream = timer_.streams()[plan::Lane::compute];
  ISOBAR_CUDA(cudaMemsetAsync(bench_.arena.data(), 0, static_cast<size_t>(bench_.arena.bytes()), stream));
  bench_.backend.load_constants();
  const engine::PlanMemory memory(plan(), bench_.backend);
  inference::init_params(plan(), kSeed, {memory.params(), memory.halves()});
  float* const scalars = memory.scalars();
  for (int64_t i = 0; i < plan().scalars.count; ++i) scalars[i] = 0;
  scalars[plan::kStep] = scalars[plan::kTraining] = scalars[plan::kLossScale] = scalars[plan::kUnscale] = 1;
  memory.upload_weights(false);
  for (const plan::Instr& i : plan::link(plan(), plan().init, /*serial=*/true).instrs) {
    const plan::Op& op = plan().ops[static_cast<size_t>(i.op)];
    if (!plan::is_collective(op.kind)) bench_.backend.launch(op, i.micro, i.slot);
  }
  timer_.streams().sync();
  bench_.backend.drop_host_copies();
}

float DeviceTimedStep::loss() {
  bench_.backend.download({plan().metrics});
  return *engine::PlanMemory(plan(), bench_.backend).floats(plan().metrics);
}

// Each step has its batch anew, as in a training: a step reuses the batch's memory.
void DeviceTimedStep::land(const plan::Op& fetch, int32_t slot, cudaStream_t stream) {
  const std::vector<std::byte*> to = bench_.backend.places(fetch, slot);
  for (size_t i = 0; i < to.size(); ++i) {
    const plan::View& v = fetch.writes[i];
    if (!v) continue;
    const auto bytes = static_cast<int64_t>(v.count * size_of(plan().buffers[v.buffer].dtype));
    auto& noise = batch_[i];
    if (!noise) {
      noise = std::make_unique<cuda::DeviceArena>(bytes);
      draw(v, *noise, stream);
    }
    ISOBAR_CUDA(
        cudaMemcpyAsync(to[i], noise->data(), static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream));
  }
}

void DeviceTimedStep::draw(const plan::View& batch, cuda::DeviceArena& to, cudaStream_t stream) const {
  if (plan().buffers[batch.buffer].dtype != DType::i32)
    return cuda::fill_noise(to.bytes(), to.data(), stream);
  std::vector<int32_t> words(static_cast<size_t>(batch.count));
  std::mt19937_64 random(kSeed);
  for (int32_t& word : words) word = static_cast<int32_t>(random() % static_cast<uint64_t>(vocabulary_));
  ISOBAR_CUDA(cudaMemcpyAsync(to.data(), words.data(), words.size() * sizeof(int32_t), cudaMemcpyHostToDevice,
                              stream));
  ISOBAR_CUDA(cudaStreamSynchronize(stream));
}

std::vector<const plan::Op*> DeviceTimedStep::distinct() const {
  std::vector<const plan::Op*> ops;
  std::set<std::string> seen;
  for (const plan::Op* op : ops_)
    if (op->kind != plan::OpKind::fetch && seen.insert(name(*op)).second) ops.push_back(op);
  return ops;
}

std::string DeviceTimedStep::name(const plan::Op& op) const {
  return std::string(plan::name_of(op.kind)) + "/" + dtype_of(op, plan()) + "/" + perf::case_shape(op);
}

const DeviceTimedStep::Repetition& DeviceTimedStep::repetition(int index) {
  while (repetitions_.size() <= static_cast<size_t>(index)) {
    Repetition r{{}, timer_.time(*case_)};
    std::map<std::string, int> count;
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (ops_[i]->kind == plan::OpKind::fetch) continue;
      const std::string of = name(*ops_[i]);
      r.seconds[of] += r.timing.seconds[i];
      ++count[of];
    }
    for (auto& [of, seconds] : r.seconds) seconds /= count[of];
    repetitions_.push_back(std::move(r));
  }
  return repetitions_[static_cast<size_t>(index)];
}

}  // namespace isobar::micro
