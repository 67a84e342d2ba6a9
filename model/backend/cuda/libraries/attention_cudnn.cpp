#include "model/backend/cuda/libraries/attention_cudnn.h"

#ifdef ISOBAR_CUDNN_FRONTEND

#include <cudnn_frontend.h>

#include "model/backend/cuda/runtime/device.h"
#include "model/backend/cuda/runtime/library.h"

// cuDNN's frontend, configured to load functions at run time, uses this handle.
namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace isobar::cuda {
namespace {

namespace fe = cudnn_frontend;
using Graph = fe::graph::Graph;
using Tensor = fe::graph::Tensor_attributes;

enum Uid : int64_t { kQ = 1, kK, kV, kO, kLse, kDo, kDq, kDk, kDv };

auto key_of(const Attention& a, bool backward) {
  return std::tuple(backward, a.act, a.causal, a.window, a.batch, a.heads, a.kv_heads, a.tq, a.tk, a.d,
                    a.ld_q, a.ld_kv, a.ld_o, a.scale, a.deterministic);
}
using Key = decltype(key_of(Attention{}, false));

void must(fe::error_t e, const std::string& what) {
  if (e.is_bad()) throw Failure("cuDNN: " + what + ": " + e.get_message());
}

// [batch, heads, tokens, d] for cuDNN, for any row stride
struct Layout {
  int64_t batch, heads, tokens, d, ld;
  Tensor tensor(const char* name, Uid uid) const {
    return Tensor().set_name(name).set_uid(uid).set_dim(dim()).set_stride(stride());
  }
  std::vector<int64_t> dim() const { return {batch, heads, tokens, d}; }
  std::vector<int64_t> stride() const { return {tokens * ld, d, ld, 1}; }
};

// A GPU that need not be present; null: the handle's
struct Target {
  std::shared_ptr<fe::DeviceProperties> properties;
  int sm = 0;
};

// cuDNN's left bound leaves the keys j of query i with j + bound > i.
template <class Options>
void mask(const Attention& a, Options& options) {
  if (a.causal) options.set_causal_mask_bottom_right(true);
  if (a.window > 0) options.set_diagonal_band_left_bound(static_cast<int>(a.window));
}

std::shared_ptr<Graph> graph_of(const Attention& a, bool backward, const Target& target) {
  auto graph = std::make_shared<Graph>();
  // Set before any op, which would query a device.
  if (target.properties) graph->set_device_properties(target.properties).set_sm_version(target.sm);
  graph->set_io_data_type(a.act == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const Layout q{a.batch, a.heads, a.tq, a.d, a.ld_q}, o{a.batch, a.heads, a.tq, a.d, a.ld_o};
  const Layout kv{a.batch, a.kv_heads, a.tk, a.d, a.ld_kv};
  const std::vector<int64_t> lse_dim = {a.batch, a.heads, a.tq, 1}, lse_stride = {a.heads * a.tq, a.tq, 1, 1};
  const auto result = [](const std::shared_ptr<Tensor>& t, Uid uid, const Layout& l) {
    t->set_output(true).set_uid(uid).set_dim(l.dim()).set_stride(l.stride());
  };
  const auto Q = graph->tensor(q.tensor("q", kQ));
  const auto K = graph->tensor(kv.tensor("k", kK)), V = graph->tensor(kv.tensor("v", kV));
  if (!backward) {
    auto options =
        fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true).set_attn_scale(a.scale);
    mask(a, options);
    const auto [O, lse] = graph->sdpa(Q, K, V, options);
    result(O, kO, o);
    lse->set_output(true)
        .set_uid(kLse)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim(lse_dim)
        .set_stride(lse_stride);
    return graph;
  }
  auto options = fe::graph::SDPA_backward_attributes().set_name("attention_backward").set_attn_scale(a.scale);
  mask(a, options);
  if (a.deterministic) options.set_deterministic_algorithm(true);
  const auto O = graph->tensor(o.tensor("o", kO)), dO = graph->tensor(o.tensor("do", kDo));
  const auto lse = graph->tensor(Tensor()
                                     .set_name("lse")
                                     .set_uid(kLse)
                                     .set_data_type(fe::DataType_t::FLOAT)
                                     .set_dim(lse_dim)
                                     .set_stride(lse_stride));
  const auto [dQ, dK, dV] = graph->sdpa_backward(Q, K, V, O, dO, lse, options);
  result(dQ, kDq, q);
  result(dK, kDk, kv);
  result(dV, kDv, kv);
  return graph;
}

const Library& open_cudnn() {
  // The frontend also opens the runtime library by name, which finds this one.
  static const Library runtime("libcudart.so." + std::to_string(CUDART_VERSION / 1000));
  static const Library lib("libcudnn.so." + std::to_string(CUDNN_MAJOR));
  fe::cudnn_dlhandle = lib.handle();
  return lib;
}

}  // namespace

struct CudnnAttention::Impl {
  struct Planned {
    std::shared_ptr<Graph> graph;
    CudnnPlan plan;
  };
  // The frontend's wrapper looks the function up when called, and may throw.
  decltype(&cudnnDestroy) destroy = open_cudnn().function<decltype(&cudnnDestroy)>("cudnnDestroy");
  cudnnHandle_t handle = nullptr;
  Target target;
  std::map<Key, Planned> planned;

  Impl() {
    const cudnnStatus_t status = fe::detail::create_handle(&handle);
    if (status != CUDNN_STATUS_SUCCESS)
      throw Failure(std::string("cudnnCreate: ") + fe::detail::get_error_string(status));
  }
  explicit Impl(const DescribedGpu& gpu) : target{std::make_shared<fe::DeviceProperties>(), gpu.sm} {
    must(target.properties->deserialize({gpu.properties.begin(), gpu.properties.end()}),
         "the GPU's description");
  }
  ~Impl() {
    if (handle) destroy(handle);
  }

  void run(const Attention& a, bool backward, std::unordered_map<int64_t, void*> operands, void* workspace,
           cudaStream_t stream) {
    const auto at = planned.find(key_of(a, backward));
    if (at == planned.end() || !at->second.graph)
      throw std::logic_error("no plan was made for " + text_of(a, backward));
    if (const cudnnStatus_t status = fe::detail::set_stream(handle, stream); status != CUDNN_STATUS_SUCCESS)
      throw Failure(std::string("cudnnSetStream: ") + fe::detail::get_error_string(status));
    must(at->second.graph->execute(handle, operands, workspace), text_of(a, backward));
  }
};

CudnnAttention::CudnnAttention() : impl_(std::make_unique<Impl>()) {}
CudnnAttention::CudnnAttention(const DescribedGpu& gpu) : impl_(std::make_unique<Impl>(gpu)) {}
CudnnAttention::~CudnnAttention() = default;

bool CudnnAttention::built() {
  return true;
}

void CudnnAttention::prepare(const Attention& a, bool backward, int64_t workspace_bytes) {
  Impl::Planned& made = impl_->planned[key_of(a, backward)];
  if (made.graph) return;
  const std::string what = text_of(a, backward);
  // cuDNN's own choice, or another if that needs more than the declared workspace.
  for (const bool within : {false, true}) {
    const auto graph = graph_of(a, backward, impl_->target);
    must(graph->validate(), what);
    must(graph->build_operation_graph(impl_->handle), what);
    must(graph->create_execution_plans({fe::HeurMode_t::A}), what);
    if (within) graph->deselect_workspace_greater_than(workspace_bytes);
    const fe::error_t supported = graph->check_support();
    if (within && supported.is_bad()) break;
    must(supported, what);
    must(graph->build_plans(), what);
    must(graph->get_workspace_size(made.plan.workspace), what);
    must(graph->get_plan_name(made.plan.engine), what);
    if (made.plan.workspace > workspace_bytes) continue;
    made.graph = graph;
    return;
  }
  throw Failure(
      "cuDNN " + version() + ": " + what + " wants " + std::to_string(made.plan.workspace) +
      " bytes of workspace, attention_workspace() declares " + std::to_string(workspace_bytes) +
      ", and no other engine does with those: ask this version of cuDNN (tests/cuda/cudnn_plans.cpp)");
}

const CudnnPlan& CudnnAttention::plan(const Attention& a, bool backward) const {
  return impl_->planned.at(key_of(a, backward)).plan;
}

void CudnnAttention::forward(const Attention& a, const void* q, const void* k, const void* v, void* o,
                             float* lse, void* workspace, cudaStream_t stream) {
  const auto in = [](const void* p) { return const_cast<void*>(p); };
  impl_->run(a, false, {{kQ, in(q)}, {kK, in(k)}, {kV, in(v)}, {kO, o}, {kLse, lse}}, workspace, stream);
}

void CudnnAttention::backward(const Attention& a, const void* q, const void* k, const void* v, const void* o,
                              const float* lse, const void* d_o, void* dq, void* dk, void* dv,
                              void* workspace, cudaStream_t stream) {
  const auto in = [](const void* p) { return const_cast<void*>(p); };
  impl_->run(a, true,
             {{kQ, in(q)},
              {kK, in(k)},
              {kV, in(v)},
              {kO, in(o)},
              {kLse, in(lse)},
              {kDo, in(d_o)},
              {kDq, dq},
              {kDk, dk},
              {kDv, dv}},
             workspace, stream);
}

int64_t CudnnAttention::version_number() {
  open_cudnn();
  return static_cast<int64_t>(fe::detail::get_backend_version());
}

std::string CudnnAttention::version() {
  const int64_t v = version_number();
  return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
}

}  // namespace isobar::cuda

#else

#include <stdexcept>

namespace isobar::cuda {

namespace {
[[noreturn]] void not_built() {
  throw std::logic_error("built without cuDNN's frontend");
}
}  // namespace

struct CudnnAttention::Impl {};
CudnnAttention::CudnnAttention() {
  not_built();
}
CudnnAttention::CudnnAttention(const DescribedGpu&) {
  not_built();
}
CudnnAttention::~CudnnAttention() = default;
bool CudnnAttention::built() {
  return false;
}
void CudnnAttention::prepare(const Attention&, bool, int64_t) {
  not_built();
}
const CudnnPlan& CudnnAttention::plan(const Attention&, bool) const {
  not_built();
}
void CudnnAttention::forward(const Attention&, const void*, const void*, const void*, void*, float*, void*,
                             cudaStream_t) {
  not_built();
}
void CudnnAttention::backward(const Attention&, const void*, const void*, const void*, const void*,
                              const float*, const void*, void*, void*, void*, void*, cudaStream_t) {
  not_built();
}
std::string CudnnAttention::version() {
  return "";
}
int64_t CudnnAttention::version_number() {
  return 0;
}

}  // namespace isobar::cuda

#endif
