#include "model/backend/cuda/libraries/attention_cudnn.h"

#ifdef ISOBAR_CUDNN_FRONTEND

#include <cudnn_frontend.h>

#include "model/backend/cuda/runtime/device.h"
#include "model/backend/cuda/runtime/library.h"

// cuDNN's frontend, told to look functions up at run time, looks here.
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
  return std::tuple(backward, a.act, a.causal, a.batch, a.heads, a.kv_heads, a.tq, a.tk, a.d, a.ld_q, a.ld_kv,
                    a.ld_o, a.scale);
}
using Key = decltype(key_of(Attention{}, false));

void must(fe::error_t e, const std::string& what) {
  if (e.is_bad()) throw Failure("cuDNN: " + what + ": " + e.get_message());
}

std::string text_of(const Attention& a, bool backward) {
  return std::string(backward ? "attention backward" : "attention") + " b" + std::to_string(a.batch) + " h" +
         std::to_string(a.heads) + "/" + std::to_string(a.kv_heads) + " q" + std::to_string(a.tq) + " k" +
         std::to_string(a.tk) + " d" + std::to_string(a.d) + " " + name_of(a.act);
}

// [batch, heads, tokens, d] for cuDNN, however the tokens' rows lie
struct Layout {
  int64_t batch, heads, tokens, d, ld;
  Tensor tensor(const char* name, Uid uid) const {
    return Tensor().set_name(name).set_uid(uid).set_dim(dim()).set_stride(stride());
  }
  std::vector<int64_t> dim() const { return {batch, heads, tokens, d}; }
  std::vector<int64_t> stride() const { return {tokens * ld, d, ld, 1}; }
};

std::shared_ptr<Graph> graph_of(const Attention& a, bool backward) {
  auto graph = std::make_shared<Graph>();
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
    if (a.causal) options.set_causal_mask_bottom_right(true);
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
  if (a.causal) options.set_causal_mask_bottom_right(true);
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
  // The frontend asks the runtime library, too; by its name it finds this one.
  static const Library runtime("libcudart.so." + std::to_string(CUDART_VERSION / 1000));
  static const Library lib("libcudnn.so." + std::to_string(CUDNN_MAJOR));
  fe::cudnn_dlhandle = lib.handle();
  return lib;
}

}  // namespace

struct CudnnAttention::Impl {
  // The frontend's own looks the function up when it is called, and may throw.
  decltype(&cudnnDestroy) destroy = open_cudnn().function<decltype(&cudnnDestroy)>("cudnnDestroy");
  cudnnHandle_t handle = nullptr;
  std::map<Key, std::shared_ptr<Graph>> graphs;

  Impl() {
    const cudnnStatus_t status = fe::detail::create_handle(&handle);
    if (status != CUDNN_STATUS_SUCCESS)
      throw Failure(std::string("cudnnCreate: ") + fe::detail::get_error_string(status));
  }
  ~Impl() { destroy(handle); }

  void run(const Attention& a, bool backward, std::unordered_map<int64_t, void*> operands, void* workspace,
           cudaStream_t stream) {
    const auto at = graphs.find(key_of(a, backward));
    if (at == graphs.end()) throw std::logic_error("no plan was made for " + text_of(a, backward));
    if (const cudnnStatus_t status = fe::detail::set_stream(handle, stream); status != CUDNN_STATUS_SUCCESS)
      throw Failure(std::string("cudnnSetStream: ") + fe::detail::get_error_string(status));
    must(at->second->execute(handle, operands, workspace), text_of(a, backward));
  }
};

CudnnAttention::CudnnAttention() : impl_(std::make_unique<Impl>()) {}
CudnnAttention::~CudnnAttention() = default;

bool CudnnAttention::built() {
  return true;
}

// What cuDNN 9 takes on all of them: whole 16-byte rows of a head; backward of heads wider than 128 on Hopper
// only.
bool CudnnAttention::takes(const Attention& a, bool backward, int capability) {
  if (a.act != DType::bf16 && a.act != DType::f16) return false;
  for (const int64_t n : {a.d, a.ld_q, a.ld_kv, a.ld_o})
    if (n % 8 != 0) return false;
  if (a.tq == 0 || a.tk == 0 || (a.tq == 1 && a.tk == 1)) return false;
  return a.d <= (backward && capability != 9 ? 128 : 256);
}

void CudnnAttention::prepare(const Attention& a, bool backward, int64_t workspace_bytes) {
  std::shared_ptr<Graph>& graph = impl_->graphs[key_of(a, backward)];
  if (graph) return;
  const std::string what = text_of(a, backward);
  const auto planned = [&](bool within) {
    auto made = graph_of(a, backward);
    must(made->validate(), what);
    must(made->build_operation_graph(impl_->handle), what);
    must(made->create_execution_plans({fe::HeurMode_t::A}), what);
    if (within) made->deselect_workspace_greater_than(workspace_bytes);
    return made;
  };
  // cuDNN's own choice; another, if that wants more than is declared.
  int64_t wanted = 0;
  for (const bool within : {false, true}) {
    auto made = planned(within);
    const fe::error_t supported = made->check_support();
    if (within && supported.is_bad())
      throw Failure("cuDNN " + version() + ": " + what + " wants " + std::to_string(wanted) +
                    " bytes of workspace, cuda_workspace() declares " + std::to_string(workspace_bytes) +
                    ", and no other engine does with those: mend attention_backward_bytes in "
                    "model/backend/cuda/kernels/workspace.cpp");
    must(supported, what);
    must(made->build_plans(), what);
    must(made->get_workspace_size(wanted), what);
    if (wanted > workspace_bytes) continue;
    graph = std::move(made);
    return;
  }
  throw Failure("cuDNN: " + what + " wants " + std::to_string(wanted) + " bytes of workspace, " +
                std::to_string(workspace_bytes) + " are declared");
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

std::string CudnnAttention::version() {
  open_cudnn();
  const size_t v = fe::detail::get_backend_version();  // 91900: 9.19.0
  return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
}

}  // namespace isobar::cuda

#else

#include <stdexcept>

namespace isobar::cuda {

struct CudnnAttention::Impl {};
CudnnAttention::CudnnAttention() = default;
CudnnAttention::~CudnnAttention() = default;
bool CudnnAttention::built() {
  return false;
}
bool CudnnAttention::takes(const Attention&, bool, int) {
  return false;
}
void CudnnAttention::prepare(const Attention&, bool, int64_t) {
  throw std::logic_error("built without cuDNN's frontend");
}
void CudnnAttention::forward(const Attention&, const void*, const void*, const void*, void*, float*, void*,
                             cudaStream_t) {
  throw std::logic_error("built without cuDNN's frontend");
}
void CudnnAttention::backward(const Attention&, const void*, const void*, const void*, const void*,
                              const float*, const void*, void*, void*, void*, void*, cudaStream_t) {
  throw std::logic_error("built without cuDNN's frontend");
}
std::string CudnnAttention::version() {
  return "";
}

}  // namespace isobar::cuda

#endif
