#include "model/engine/processor.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/backend/cpu/cpu_backend.h"
#include "model/base/error.h"
#include "model/base/nccl_resources.h"
#include "model/engine/executor.h"
#include "model/engine/host/host.h"
#include "model/inference/arena.h"
#ifdef ISOBAR_WITH_CUDA
#include "model/backend/cuda/cuda_backend.h"
#include "model/backend/cuda/executor.h"
#include "model/backend/cuda/kernels/workspace.h"
#include "model/backend/cuda/runtime/clocks.h"
#include "model/backend/cuda/runtime/requirements.h"
#include "model/comm/nccl/nccl_comm.h"
#include "model/trace/cuda/op_tracer.h"
#endif

namespace isobar::engine {
namespace {

class CpuProcessor : public Processor {
 public:
  CpuProcessor(const plan::Plan& plan, const comm::Mpi& mpi, int threads)
      : arena_(plan.memory.arena),
        host_(plan.memory.host > 0 ? std::make_unique<inference::Arena>(plan.memory.host) : nullptr),
        backend_(plan, arena_.data(), host_ ? host_->data() : nullptr),
        comm_(mpi.size() > 1 ? std::make_unique<comm::Comm>(plan.groups) : nullptr),
        executor_(plan, backend_, comm_.get(),
                  waiting_among(threads, mpi.size(), mpi.ranks_on_host(), cores_of(mpi))) {}
  Backend& backend() override { return backend_; }
  Runner& runner() override { return executor_; }

 private:
  inference::Arena arena_;
  std::unique_ptr<inference::Arena> host_;
  CpuBackend backend_;
  std::unique_ptr<comm::Comm> comm_;
  Executor executor_;
};

#ifdef ISOBAR_WITH_CUDA

std::unique_ptr<cuda::DeviceArena> device_arena(int64_t bytes) {
  try {
    return std::make_unique<cuda::DeviceArena>(bytes);
  } catch (const cuda::OutOfDeviceMemory& e) {
    throw inference::DeviceOutOfMemory(e.what());
  }
}

// NCCL's channels occupy multiprocessors during transfers; products that overlap with them are tuned for the
// rest.
int product_sms(const ComputeDevice& device, const RunSpec& spec, int ranks) {
  const bool beside = ranks > 1 && spec.policy.overlap && !spec.run.serial;
  return beside ? sms_beside_nccl(device.sms, nccl_channels(std::getenv)) : 0;
}

class GpuProcessor : public Processor {
 public:
  GpuProcessor(const ComputeDevice& device, const RunSpec& spec, const plan::Plan& plan, const comm::Mpi& mpi,
               bool traced)
      : device_(device),
        rank_(mpi.rank()),
        before_(cuda::device_memory_in_use()),
        arena_(device_arena(plan.memory.arena)),
        host_(plan.memory.host),
        backend_(plan, arena_->data(), host_.data(), streams_,
                 {.gemm = spec.run.gemm_choice,
                  .capability = device.capability,
                  .attention = spec.run.attention,
                  .deterministic = spec.run.deterministic_attention,
                  .fuse = spec.run.fuse,
                  .product_sms = product_sms(device, spec, mpi.size())}) {
    backend_.prepare();
    libraries_ = cuda::device_memory_in_use() - before_ - arena_->bytes();
    mpi.barrier();  // a GPU's memory in use is that of all ranks that share it
    before_nccl_ = cuda::device_memory_in_use();
    if (mpi.size() > 1) {
      shares_device_ = comm::any_two_share_a_device(mpi);
      bootstrap_.emplace(plan.groups);
      mpi.barrier();  // reading data must not count against NCCL's deadline
      nccl_.emplace(plan.groups, mpi.rank(), shares_device_, *bootstrap_, spec.run.hang_timeout);
    }
    nccl_bytes_ = cuda::device_memory_in_use() - before_nccl_;
    communicators_ = static_cast<int64_t>(plan.groups.size());
    executor_.emplace(plan, backend_, nccl_ ? &*nccl_ : nullptr, streams_,
                      cuda::ExecutorOptions{.graphs = spec.run.cuda_graphs, .keep_free = nccl_to_come()});
    make_tracer(plan, traced);
    executor_->observe(&*tracer_);
    begun_ = cuda::device_memory_in_use();
  }
  Backend& backend() override { return backend_; }
  Runner& runner() override { return *executor_; }
  nlohmann::json describe() const override {
    nlohmann::json j{
        {"device", device_.name},
        {"index", device_.index},
        {"arena_bytes", arena_->bytes()},
        {"pinned_bytes", host_.bytes() + backend_.inputs().pinned_bytes()},
        {"landing_bytes", backend_.inputs().landing_bytes()},  // batches of the next step
        {"context_bytes", before_},     // in use before the arena, by any process: CUDA's context
        {"library_bytes", libraries_},  // allocated by cuBLASLt and cuDNN
        {"cublaslt", cuda::Gemms::library_version()},
        {"cudnn", cuda::CudnnAttention::version()},
        {"gemm_shapes", backend_.gemms().shapes()},
        {"gemm_timing_s", backend_.gemms().timing_s()},  // of algorithms, before the first step
        {"graph_capture_s", executor_->capture_s()},     // in the first steps
        {"attention", attention()},
        {"fused", fused()},
        {"product_sms", backend_.gemms().sms()},         // that products are tuned for; 0: all
        {"in_use_bytes", cuda::device_memory_in_use()},  // by any process, now
        // since start-up: graphs, lazily loaded kernels, buffers that NCCL allocates on first use
        {"later_bytes", cuda::device_memory_in_use() - begun_},
        {"environment", environment()},
        {"trace", untraced_.empty() ? "CUPTI" : "events: " + untraced_}};
    if (nccl_)
      j.update({{"nccl", comm::NcclComm::version()},
                {"nccl_bytes", nccl_bytes_},  // at communicator creation; NCCL allocates most on first use
                {"in_use_before_nccl_bytes", before_nccl_},
                {"nccl_planned_bytes", nccl_planned()},
                {"ranks_share_a_gpu", shares_device_},
                {"mode", shares_device_ ? "correctness: ranks share a GPU and talk over sockets"
                                        : "one GPU a rank"}});
    if (nccl_ && after_first_step_ > 0) j["in_use_after_first_step_bytes"] = after_first_step_;
    return j;
  }
  void first_step_done() override { after_first_step_ = cuda::device_memory_in_use(); }

  std::optional<double> mhz() const override {
    const std::optional<ClockState> now = clocks_.read();
    return now ? std::optional<double>(now->mhz) : std::nullopt;
  }
  std::optional<DeviceLoad> load() const override { return clocks_.load(); }
  EnergyCounters energy() const override {
    if (!clocks_.why().empty()) return {{}, clocks_.why()};
    if (shares_device_) return {{}, "ranks share a GPU, and it has one counter"};
    return {{{"GPU", [this] { return clocks_.joules(); }}}, ""};
  }

  std::vector<std::string> remarks() const override {
    std::vector<std::string> lines;
    for (const auto& use : backend_.attentions()) {
      std::string line = text_of(use.shape, use.backward) + ": " + name_of(use.path);
      if (use.path == cuda::AttentionPath::cudnn) line += " " + use.engine;
      line += ", workspace " + std::to_string(use.workspace / 1000000) + " MB";
      const bool half = size_of(use.shape.act) == 2;
      if (use.path == cuda::AttentionPath::scalar)
        line +=
            half ? " (SLOW: no tensor cores)" : " (slow: f32 has no tensor cores; policy.amp=tf32 uses them)";
      else if (!use.refused.empty())
        line += " (slower: " + use.refused + ")";
      else if (half && use.path == cuda::AttentionPath::tensor_cores)
        line += cuda::CudnnAttention::built() ? " (slower: cuDNN does not take this shape here)"
                                              : " (slower: this program was built without cuDNN's frontend)";
      lines.push_back(std::move(line));
    }
    return lines;
  }

  bool watch(const plan::Program& program) override {
    if (!tracer_->collects()) return false;
    tracer_->start(program);
    return true;
  }
  void stop_watching() override { tracer_->stop(); }
  bool watches() const override { return tracer_->runs(); }
  trace::DeviceJoin watched(int64_t origin_ns) override { return tracer_->take(rank_, origin_ns); }

 private:
  nlohmann::json attention() const {
    nlohmann::json all = nlohmann::json::array();
    for (const auto& use : backend_.attentions())
      all.push_back({{"shape", text_of(use.shape, use.backward)},
                     {"path", name_of(use.path)},
                     {"engine", use.engine},
                     {"workspace_bytes", use.workspace}});
    return all;
  }
  static nlohmann::json environment() {
    nlohmann::json j = nlohmann::json::object();
    for (const char* name : {"CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_LOADING"})
      if (const char* value = std::getenv(name)) j[name] = value;
    return j;
  }
  int64_t nccl_planned() const { return nccl_buffer_bytes(communicators_, nccl_channels(std::getenv)); }
  int64_t nccl_to_come() const { return nccl_ ? std::max<int64_t>(0, nccl_planned() - nccl_bytes_) : 0; }
  nlohmann::json fused() const {  // ops fused into products, by kind of epilogue
    nlohmann::json j = nlohmann::json::object();
    for (const cuda::Fusion& f : backend_.fusions()) j[name_of(f.kind)] = j.value(name_of(f.kind), 0) + 1;
    return j;
  }
  // Without CUPTI, or if another tool holds it, ops are timed by events; the log says so.
  void make_tracer(const plan::Plan& plan, bool traced) {
    try {
      tracer_.emplace(plan, traced);
    } catch (const std::runtime_error& e) {
      untraced_ = e.what();
      tracer_.emplace(plan, false);
    }
  }

  const ComputeDevice device_;
  const Clocks clocks_{bus_of(device_.index)};
  const int rank_;
  const int64_t before_;
  int64_t libraries_ = 0, begun_ = 0;
  std::unique_ptr<cuda::DeviceArena> arena_;
  cuda::PinnedMemory host_;
  cuda::Streams streams_;
  cuda::CudaBackend backend_;
  std::optional<comm::Comm> bootstrap_;
  std::optional<comm::NcclComm> nccl_;
  bool shares_device_ = false;
  int64_t nccl_bytes_ = 0, before_nccl_ = 0, after_first_step_ = 0, communicators_ = 0;
  std::optional<cuda::OpTracer> tracer_;
  std::string untraced_;                          // why CUPTI cannot trace the device
  std::optional<cuda::DeviceExecutor> executor_;  // last: graphs are destroyed before what they call
};

#endif

}  // namespace

ComputeDevice choose_device(const RunSpec& spec, int rank_on_host) {
  const RunDevice wanted = spec.run.device;
  if (wanted == RunDevice::cpu) return {};
#ifdef ISOBAR_WITH_CUDA
  const auto ranks = static_cast<int>(spec.layout.world());
  cuda::prepare_environment(ranks);
  if (wanted == RunDevice::automatic && cuda::find_devices().all.empty()) return {};
  const cuda::Device d = cuda::use_device(spec.file, rank_on_host);
  cuda::require_libraries(spec.file, ranks);
  return {true, d.index, d.major, d.multiprocessors, d.name};
#else
  (void)rank_on_host;
  if (wanted == RunDevice::automatic) return {};
  throw ConfigError(spec.file, "run.device", "this program was built without CUDA",
                    "build it where nvcc, cuBLASLt and cuDNN are, or set run.device: cpu");
#endif
}

plan::Workspace workspace_of(const ComputeDevice& device, [[maybe_unused]] const RunSpec& spec, int threads) {
#ifdef ISOBAR_WITH_CUDA
  if (device.gpu) return gpu_workspace(spec, device.capability);
#else
  (void)device;
#endif
  return cpu_workspace(threads);
}

#ifdef ISOBAR_WITH_CUDA

namespace {

// Ranks that share a GPU (a test mode) divide its memory equally.
nets::DeviceRoom room_here(const ComputeDevice& device, const comm::Mpi& mpi) {
  const std::vector<cuda::Device> all = cuda::find_devices().all;
  const auto devices = static_cast<int64_t>(all.size());
  const bool shared = mpi.size() > 1 && comm::any_two_share_a_device(mpi);
  const auto ranks = static_cast<double>(shared ? (mpi.ranks_on_host() + devices - 1) / devices : 1);
  const auto used = static_cast<double>(cuda::device_memory_in_use());  // by any process, CUDA included
  return {.bytes = static_cast<double>(all.at(static_cast<size_t>(device.index)).memory) / ranks,
          .process = std::max(nets::kGpuProcessBytes, used / ranks),
          .nccl_channels = nccl_channels(std::getenv)};
}

}  // namespace

nets::MicroBatchChoice choose_micro_batch(const ComputeDevice& device, const RunSpec& spec,
                                          const comm::Mpi& mpi) {
  if (!device.gpu || spec.policy.micro_batch > 0) return {.spec = spec};
  nets::MicroBatchChoice mine =
      nets::largest_micro_batch(spec, gpu_workspace(spec, device.capability), room_here(device, mpi));
  const auto least = -mpi.max_of(-static_cast<double>(mine.spec.policy.micro_batch));
  if (const auto size = static_cast<int64_t>(least); size < mine.spec.policy.micro_batch) {
    mine.spec.policy.micro_batch = size;
    mine.memory = nets::device_memory(mine.spec, gpu_workspace(spec, device.capability), mine.room);
  }
  return mine;
}

nets::MicroBatchChoice planned_micro_batch(const RunSpec& spec) {
  const std::vector<cuda::Device> here =
      spec.run.device == RunDevice::cpu ? std::vector<cuda::Device>{} : cuda::find_devices().all;
  if (here.empty() && spec.run.device != RunDevice::cuda) return {.spec = spec};
  return nets::largest_micro_batch(
      spec, planned_workspace(spec, 1),
      {.bytes = here.empty() ? std::numeric_limits<double>::infinity() : static_cast<double>(here[0].memory),
       .nccl_channels = nccl_channels(std::getenv)});
}

plan::Workspace gpu_workspace(const RunSpec& spec, int capability) {
  return cuda_workspace(capability, spec.run.deterministic_attention, spec.run.attention);
}

#else

nets::MicroBatchChoice choose_micro_batch(const ComputeDevice&, const RunSpec& spec, const comm::Mpi&) {
  return {.spec = spec};
}
nets::MicroBatchChoice planned_micro_batch(const RunSpec& spec) {
  return {.spec = spec};
}
plan::Workspace gpu_workspace(const RunSpec&, int) {
  return {};
}

#endif

plan::Workspace planned_workspace(const RunSpec& spec, int threads) {
#ifdef ISOBAR_WITH_CUDA
  const std::vector<cuda::Device> here =
      spec.run.device == RunDevice::cpu ? std::vector<cuda::Device>{} : cuda::find_devices().all;
  if (!here.empty()) return gpu_workspace(spec, here[0].major);
  if (spec.run.device == RunDevice::cuda) return gpu_workspace(spec);
  return cpu_workspace(threads);
#else
  return workspace_of(choose_device(spec, 0), spec, threads);
#endif
}

std::unique_ptr<Processor> make_processor(const ComputeDevice& device, const RunSpec& spec,
                                          const plan::Plan& plan, const comm::Mpi& mpi, int threads,
                                          [[maybe_unused]] bool traced) {
#ifdef ISOBAR_WITH_CUDA
  if (device.gpu) return std::make_unique<GpuProcessor>(device, spec, plan, mpi, traced);
#else
  (void)device, (void)spec;
#endif
  return std::make_unique<CpuProcessor>(plan, mpi, threads);
}

}  // namespace isobar::engine
