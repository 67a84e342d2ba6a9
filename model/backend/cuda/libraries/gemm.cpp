#include "model/backend/cuda/libraries/gemm.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>

#include "model/backend/cuda/kernels/workspace.h"
#include "model/backend/cuda/runtime/device.h"

namespace isobar::cuda {
namespace {

constexpr int kCandidates = 8;  // algorithms that are timed

cudaDataType_t type_of(DType t) {
  switch (t) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    case DType::i32:
      break;
  }
  throw std::logic_error("matrix products take no integers");
}

}  // namespace

// ---- cuBLASLt ----

struct Gemms::Api {
  Library lib{"libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR)};
// NOLINTNEXTLINE(bugprone-macro-parentheses): it declares a member
#define ISOBAR_CUBLAS_FUNCTION(member, name) decltype(&name) member = lib.function<decltype(&name)>(#name)
  ISOBAR_CUBLAS_FUNCTION(create, cublasLtCreate);
  ISOBAR_CUBLAS_FUNCTION(destroy, cublasLtDestroy);
  ISOBAR_CUBLAS_FUNCTION(version, cublasLtGetVersion);
  ISOBAR_CUBLAS_FUNCTION(status_text, cublasLtGetStatusString);
  ISOBAR_CUBLAS_FUNCTION(desc_create, cublasLtMatmulDescCreate);
  ISOBAR_CUBLAS_FUNCTION(desc_destroy, cublasLtMatmulDescDestroy);
  ISOBAR_CUBLAS_FUNCTION(desc_set, cublasLtMatmulDescSetAttribute);
  ISOBAR_CUBLAS_FUNCTION(desc_get, cublasLtMatmulDescGetAttribute);
  ISOBAR_CUBLAS_FUNCTION(layout_create, cublasLtMatrixLayoutCreate);
  ISOBAR_CUBLAS_FUNCTION(layout_destroy, cublasLtMatrixLayoutDestroy);
  ISOBAR_CUBLAS_FUNCTION(preference_create, cublasLtMatmulPreferenceCreate);
  ISOBAR_CUBLAS_FUNCTION(preference_destroy, cublasLtMatmulPreferenceDestroy);
  ISOBAR_CUBLAS_FUNCTION(preference_set, cublasLtMatmulPreferenceSetAttribute);
  ISOBAR_CUBLAS_FUNCTION(heuristic, cublasLtMatmulAlgoGetHeuristic);
  ISOBAR_CUBLAS_FUNCTION(matmul, cublasLtMatmul);
#undef ISOBAR_CUBLAS_FUNCTION

  void must(cublasStatus_t status, const std::string& what) const {
    if (status != CUBLAS_STATUS_SUCCESS) throw Failure("cuBLASLt: " + what + ": " + status_text(status));
  }
};

struct Gemms::Product {
  const Api& api;
  std::string text;
  bool bias, accumulate;
  Fused fused;
  float scale;
  float milliseconds = -1;  // of a run, if timed
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, out = nullptr;
  cublasLtMatmulAlgo_t algorithm{};

  Product(const Api& a, const GemmKey& key, int sms)
      : api(a),
        text(text_of(key)),
        bias(key.bias),
        accumulate(key.accumulate),
        fused(key.fused),
        scale(key.scale) {
    const ColumnMajor c = column_major(key);
    const cublasComputeType_t compute = key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    api.must(api.desc_create(&desc, compute, CUDA_R_32F), text);
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
      api.must(api.desc_set(desc, attribute, &value, sizeof value), text);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, c.trans_first ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, c.trans_second ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(key));
    if (sms > 0) set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, static_cast<int32_t>(sms));
    if (key.fused == Fused::gelu || key.fused == Fused::gelu_gradient)
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, c.ld_out);
    const auto matrix = [&](cublasLtMatrixLayout_t* m, DType t, int64_t rows, int64_t cols, int64_t ld) {
      api.must(api.layout_create(m, type_of(t), static_cast<uint64_t>(rows), static_cast<uint64_t>(cols), ld),
               text);
    };
    matrix(&first, key.in, c.trans_first ? c.inner : c.rows, c.trans_first ? c.rows : c.inner, c.ld_first);
    matrix(&second, key.in, c.trans_second ? c.cols : c.inner, c.trans_second ? c.inner : c.cols,
           c.ld_second);
    matrix(&out, key.out, c.rows, c.cols, c.ld_out);
  }
  ~Product() {
    for (cublasLtMatrixLayout_t m : {first, second, out})
      if (m) api.layout_destroy(m);
    if (desc) api.desc_destroy(desc);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  // Some algorithms depend on the addresses, so they are also set when algorithms are chosen.
  void point_to(const GemmOperands& x) const {
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const void* p) {
      api.must(api.desc_set(desc, attribute, &p, sizeof p), text);
    };
    if (bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, x.bias);
    if (fused == Fused::bias_gradient) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, x.sums);
    if (fused == Fused::gelu || fused == Fused::gelu_gradient)
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, x.aux);
  }

  // Best by cuBLASLt's estimate first; empty if it knows none
  std::vector<cublasLtMatmulHeuristicResult_t> candidates(cublasLtHandle_t handle, int most, int align,
                                                          int64_t bytes) const {
    cublasLtMatmulPreference_t preference = nullptr;
    api.must(api.preference_create(&preference), text);
    const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, decltype(api.preference_destroy)>
        owner(preference, api.preference_destroy);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      api.must(api.preference_set(preference, attribute, &value, sizeof value), text);
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(bytes));
    const auto lie_on = static_cast<uint32_t>(align);
    for (const auto operand :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      set(operand, lie_on);
    std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(most));
    int n = 0;
    const cublasStatus_t status =
        api.heuristic(handle, desc, first, second, out, out, preference, most, found.data(), &n);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
    api.must(status, "algorithms of " + text);
    found.resize(static_cast<size_t>(n));
    std::erase_if(found, [](const auto& r) { return r.state != CUBLAS_STATUS_SUCCESS; });
    return found;
  }
};

Gemms::Gemms(GemmChoice choice, int sms) : api_(std::make_unique<Api>()), choice_(choice), sms_(sms) {
  api_->must(api_->create(&handle_), "cublasLtCreate");
}

Gemms::~Gemms() {
  table_.clear();
  api_->destroy(handle_);
}

std::string Gemms::library_version() {
  const size_t v = Api().version();  // 130100: 13.1.0
  return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
}

int Gemms::sms_in_descriptor(const GemmKey& key, int sms) {
  const Api api;
  const Product product(api, key, sms);
  int32_t count = -1;
  size_t written = 0;
  api.must(api.desc_get(product.desc, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &count, sizeof count, &written),
           product.text);
  return count;
}

bool Gemms::prepare(const GemmKey& key, const GemmOperands& x, void* workspace, int64_t bytes,
                    cudaStream_t stream) {
  if (key.m * key.n == 0) return key.fused == Fused::none;
  if (table_.contains(key)) return true;
  auto product = std::make_unique<Product>(*api_, key, sms_);
  product->point_to(x);
  const bool timed = choice_ == GemmChoice::timed;
  const auto candidates = product->candidates(handle_, timed ? kCandidates : 1, key.align, bytes);
  if (candidates.empty()) return false;
  product->algorithm = candidates[0].algo;
  const auto begin = std::chrono::steady_clock::now();
  if (timed)
    for (const auto& candidate : candidates) {
      const float ms =
          milliseconds_of(stream, [&] { launch(*product, candidate.algo, x, workspace, bytes, stream); });
      if (product->milliseconds >= 0 && ms >= product->milliseconds) continue;
      product->milliseconds = ms;
      product->algorithm = candidate.algo;
    }
  timing_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  table_.emplace(key, std::move(product));
  return true;
}

float Gemms::milliseconds(const GemmKey& key) const {
  return table_.at(key)->milliseconds;
}

void Gemms::run(const GemmKey& key, const GemmOperands& x, void* workspace, int64_t bytes,
                cudaStream_t stream) const {
  if (key.m * key.n == 0) return;
  const auto at = table_.find(key);
  if (at == table_.end()) throw std::logic_error("no algorithm was chosen for the product " + text_of(key));
  launch(*at->second, at->second->algorithm, x, workspace, bytes, stream);
}

void Gemms::launch(const Product& p, const cublasLtMatmulAlgo_t& algorithm, const GemmOperands& x,
                   void* workspace, int64_t bytes, cudaStream_t stream) const {
  p.point_to(x);
  const float beta = p.accumulate ? 1.0f : 0.0f;
  const cublasStatus_t status =
      api_->matmul(handle_, p.desc, &p.scale, x.b, p.first, x.a, p.second, &beta, x.c, p.out, x.c, p.out,
                   &algorithm, workspace, static_cast<size_t>(bytes), stream);
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Failure("cuBLASLt: " + p.text + ": " + api_->status_text(status));
}

}  // namespace isobar::cuda
