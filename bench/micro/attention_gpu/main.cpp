// Our attention on Hopper (model/backend/cuda/kernels/hopper): its results against f32 arithmetic, and its
// speed beside cuDNN's, by turns on the same operands. One JSON line a case.
//
//   build/gpu_attention          # checks of all widths, and the speed of weather nets'
//   build/gpu_attention --all    # the speed of all
//   build/gpu_attention --only speed/backward/d192   # those whose names begin so
//   build/gpu_attention --list
//
// Each case has a process of its own, since it may crash or hang. Checks run side by side; then the speed of
// those that passed, one by one. Options: --seconds N (25), of a case; --tokens N (4050). Exit codes: 0 all
// right, 1 a case failed, 2 bad arguments, 77 no Hopper GPU.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <vector>

#include "model/backend/cuda/kernels/hopper/attention.h"
#include "model/backend/cuda/kernels/hopper/products.h"
#include "model/backend/cuda/libraries/attention_cudnn.h"
#include "model/backend/cuda/runtime/device.h"

namespace isobar::micro {
namespace {

using cuda::Attention;
using Arena = cuda::DeviceArena;
using nlohmann::json;

constexpr double kForwardAllowed = 5e-3, kBackwardAllowed = 1e-2;  // |got - want| / |want|

// ---- operands ----
Attention shape_of(int64_t batch, int64_t heads, int64_t kv_heads, int64_t tq, int64_t tk, int64_t d,
                   bool causal, DType act, int64_t pad) {
  return {.batch = batch,
          .heads = heads,
          .kv_heads = kv_heads,
          .tq = tq,
          .tk = tk,
          .d = d,
          .scale = 1 / std::sqrt(static_cast<float>(d)),
          .causal = causal,
          .act = act,
          .ld_q = heads * d + pad,
          .ld_kv = 2 * kv_heads * d + pad,  // k and v side by side
          .ld_o = heads * d + pad,
          .tf32 = false};
}

uint16_t to_16(float x, DType t) {
  uint16_t bits;
  if (t == DType::bf16) {
    const bf16 y = to_bf16(x);
    std::memcpy(&bits, &y, 2);
  } else {
    const auto y = static_cast<_Float16>(x);
    std::memcpy(&bits, &y, 2);
  }
  return bits;
}
float from_16(uint16_t bits, DType t) {
  if (t == DType::bf16) return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
  return static_cast<float>(__builtin_bit_cast(_Float16, bits));
}

// N(0, 1) in 16 bits, with a period of a prime number of elements
std::vector<uint16_t> normal_numbers(int64_t n, DType t, unsigned seed) {
  constexpr int64_t kPeriod = 262139;
  std::vector<uint16_t> x(static_cast<size_t>(n));
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < n; ++i)
    x[static_cast<size_t>(i)] = i < kPeriod ? to_16(normal(engine), t) : x[static_cast<size_t>(i - kPeriod)];
  return x;
}
void put(const Arena& to, const void* from, size_t bytes) {
  ISOBAR_CUDA(cudaMemcpy(to.data(), from, bytes, cudaMemcpyHostToDevice));
}
std::vector<float> floats_of(const std::vector<uint16_t>& x, DType t) {
  std::vector<float> y(x.size());
  std::transform(x.begin(), x.end(), y.begin(), [t](uint16_t bits) { return from_16(bits, t); });
  return y;
}
std::vector<float> read_16(const Arena& from, int64_t n, DType t) {
  std::vector<uint16_t> x(static_cast<size_t>(n));
  ISOBAR_CUDA(cudaMemcpy(x.data(), from.data(), x.size() * 2, cudaMemcpyDeviceToHost));
  return floats_of(x, t);
}
std::vector<float> read_f32(const Arena& from, int64_t n) {
  std::vector<float> x(static_cast<size_t>(n));
  ISOBAR_CUDA(cudaMemcpy(x.data(), from.data(), x.size() * 4, cudaMemcpyDeviceToHost));
  return x;
}
// Over the columns [first, first + columns) of rows ld apart; NaN if one is
double distance(const std::vector<float>& got, const std::vector<float>& want, int64_t ld, int64_t first,
                int64_t columns) {
  double error = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (const int64_t c = static_cast<int64_t>(i) % ld; c < first || c >= first + columns) continue;
    const double x = got[i], y = want[i];
    error += (x - y) * (x - y);
    size += y * y;
  }
  return std::sqrt(error / size);
}

// Operands and results in 16 bits (or, of the reference, f32), and their sizes in elements
struct Problem {
  explicit Problem(const Attention& shape)
      : a(shape),
        queries(a.batch * a.tq * a.ld_q),
        keys(a.batch * a.tk * a.ld_kv),
        rows(a.batch * a.heads * a.tq),
        bytes(a.act == DType::f32 ? 4 : 2),
        q(queries * bytes),
        kv(keys * bytes),
        o(queries * bytes),
        d_o(queries * bytes),
        dq(queries * bytes),
        dkv(keys * bytes),
        lse(rows * 4) {}
  std::byte* k() const { return kv.data(); }
  std::byte* v() const { return kv.data() + a.kv_heads * a.d * bytes; }
  std::byte* dk() const { return dkv.data(); }
  std::byte* dv() const { return dkv.data() + a.kv_heads * a.d * bytes; }
  void poison_gradients() const {
    ISOBAR_CUDA(cudaMemset(dq.data(), 0xff, static_cast<size_t>(dq.bytes())));
    ISOBAR_CUDA(cudaMemset(dkv.data(), 0xff, static_cast<size_t>(dkv.bytes())));
  }
  Attention a;
  int64_t queries, keys, rows, bytes;
  Arena q, kv, o, d_o, dq, dkv, lse;
};

// ---- results against f32 ----
struct Gradients {
  std::vector<float> dq, dkv;
};
Gradients gradients_of(const Problem& x) {
  if (x.a.act == DType::f32) return {read_f32(x.dq, x.queries), read_f32(x.dkv, x.keys)};
  return {read_16(x.dq, x.queries, x.a.act), read_16(x.dkv, x.keys, x.a.act)};
}
json differences(const Attention& a, const Gradients& got, const Gradients& want) {
  const int64_t keys = a.kv_heads * a.d;
  return {{"dq", distance(got.dq, want.dq, a.ld_q, 0, a.heads * a.d)},
          {"dk", distance(got.dkv, want.dkv, a.ld_kv, 0, keys)},
          {"dv", distance(got.dkv, want.dkv, a.ld_kv, keys, keys)}};
}
bool within(const json& differences, double allowed) {
  return std::all_of(differences.begin(), differences.end(),
                     [&](const json& x) { return x.get<double>() <= allowed; });
}

// The same operands in 16 bits and exact, and what f32 arithmetic makes of them
struct Exact {
  explicit Exact(const Attention& shape) : a(shape), got(a), want(in_f32(a)) {
    fill(got.q, want.q, normal_numbers(got.queries, a.act, 1));
    fill(got.kv, want.kv, normal_numbers(got.keys, a.act, 2));
    fill(got.d_o, want.d_o, normal_numbers(got.queries, a.act, 3));
    const Arena workspace(got.rows * 4);
    auto* const lse = reinterpret_cast<float*>(want.lse.data());
    cuda::attention_simt(want.a, want.q.data(), want.k(), want.v(), want.o.data(), lse, nullptr);
    cuda::attention_simt_backward(want.a, want.q.data(), want.k(), want.v(), want.o.data(), lse,
                                  want.d_o.data(), want.dq.data(), want.dk(), want.dv(),
                                  reinterpret_cast<float*>(workspace.data()), nullptr);
    ISOBAR_CUDA(cudaDeviceSynchronize());
  }
  static Attention in_f32(Attention a) {
    a.act = DType::f32;
    return a;
  }
  void fill(const Arena& rounded, const Arena& f32, const std::vector<uint16_t>& x) const {
    put(rounded, x.data(), x.size() * 2);
    put(f32, floats_of(x, a.act).data(), x.size() * 4);
  }
  Attention a;
  Problem got, want;
};

json check_forward(const Exact& x) {
  const Attention& a = x.a;
  const std::vector<float> o = read_f32(x.want.o, x.got.queries), lse = read_f32(x.want.lse, x.got.rows);
  json result{{"shape", text_of(a, false)}};
  std::vector<float> first;
  bool passed = true;
  for (int run = 0; run < 4; ++run) {
    ISOBAR_CUDA(cudaMemset(x.got.o.data(), 0xff, static_cast<size_t>(x.got.o.bytes())));
    ISOBAR_CUDA(cudaMemset(x.got.lse.data(), 0xff, static_cast<size_t>(x.got.lse.bytes())));
    cuda::attention_hopper(a, x.got.q.data(), x.got.k(), x.got.v(), x.got.o.data(),
                           reinterpret_cast<float*>(x.got.lse.data()), nullptr);
    ISOBAR_CUDA(cudaDeviceSynchronize());
    std::vector<float> now = read_16(x.got.o, x.got.queries, a.act);
    const std::vector<float> its_lse = read_f32(x.got.lse, x.got.rows);
    double worst = 0;
    for (size_t i = 0; i < lse.size(); ++i)
      if (std::isfinite(lse[i]) || its_lse[i] != lse[i])  // -infinity of queries that see no key
        worst = std::isnan(its_lse[i]) ? INFINITY
                                       : std::max(worst, std::abs(static_cast<double>(its_lse[i] - lse[i])));
    const double off = distance(now, o, a.ld_o, 0, a.heads * a.d);
    passed = passed && off <= kForwardAllowed && worst <= 1e-3;
    if (run == 0) {
      result["off"] = {{"o", off}, {"lse", worst}};
      first = std::move(now);
    } else {
      const double differ = distance(now, first, a.ld_o, 0, a.heads * a.d);
      passed = passed && differ == 0;
      result["runs differ"] = differ;
    }
  }
  result["passed"] = passed;
  return result;
}

json check_backward(const Exact& x) {
  const Attention& a = x.a;
  const Problem &got = x.got, &want = x.want;
  std::vector<uint16_t> o;
  for (const float y : read_f32(want.o, got.queries)) o.push_back(to_16(y, a.act));
  put(got.o, o.data(), o.size() * 2);

  // A pattern after the workspace must stay.
  constexpr int64_t kGuard = 4096;
  const int64_t needed = cuda::hopper_backward_workspace(a);
  const Arena own(needed + kGuard);
  ISOBAR_CUDA(cudaMemset(own.data(), 0xff, static_cast<size_t>(own.bytes())));
  const Gradients exact_ones = gradients_of(want);
  json result{{"shape", text_of(a, true)}};
  bool passed = true;
  Gradients first;
  for (int run = 0; run < 4; ++run) {
    got.poison_gradients();
    cuda::attention_hopper_backward(
        a, got.q.data(), got.k(), got.v(), got.o.data(), reinterpret_cast<const float*>(want.lse.data()),
        got.d_o.data(), got.dq.data(), got.dk(), got.dv(), reinterpret_cast<float*>(own.data()), nullptr);
    ISOBAR_CUDA(cudaDeviceSynchronize());
    Gradients now = gradients_of(got);
    if (run == 0) {
      result["off"] = differences(a, now, exact_ones);
      passed = within(result["off"], kBackwardAllowed);
      first = std::move(now);
    } else {  // dk and dv have a fixed order
      json again = differences(a, now, first);
      passed = passed && again["dk"] == 0.0 && again["dv"] == 0.0 && again["dq"] <= 2e-3;
      result["runs differ"] = again;
    }
  }
  std::vector<unsigned char> guard(kGuard);
  ISOBAR_CUDA(cudaMemcpy(guard.data(), own.data() + needed, kGuard, cudaMemcpyDeviceToHost));
  if (std::any_of(guard.begin(), guard.end(), [](unsigned char x) { return x != 0xff; })) {
    result["guard"] = "overwritten";
    passed = false;
  }
  result["passed"] = passed;
  return result;
}

int64_t tokens = 4050;  // of speed's cases and the largest checks

json check(int64_t d, bool backward) {
  const auto takes = backward ? cuda::hopper_takes_backward : cuda::hopper_takes_forward;
  json all = json::array();
  bool passed = true;
  for (const Attention& a :
       {shape_of(1, 1, 1, 64, 128, d, false, DType::bf16, 0),
        shape_of(2, 3, 3, 333, 333, d, false, DType::bf16, 0),
        shape_of(1, 4, 2, 260, 517, d, true, DType::bf16, 8),
        shape_of(1, 2, 1, 517, 260, d, true, DType::f16, 0), shape_of(1, 1, 1, 3, 5, d, false, DType::f16, 0),
        shape_of(1, 4, 4, tokens, tokens, d, false, DType::bf16, 0),
        shape_of(1, 2, 2, tokens / 2, tokens / 2, d, true, DType::f16, 0)}) {
    if (!takes(a)) throw std::logic_error("not taken: " + text_of(a, false));
    all.push_back(backward ? check_backward(Exact(a)) : check_forward(Exact(a)));
    passed = passed && all.back()["passed"];
  }
  return {{"passed", passed}, {"checks", all}};
}

// The instructions one by one: where these are wrong, so is all the rest.
json check_products() {
  constexpr int64_t kRows = 60, kColumns = 112;  // the rest of 64 x 128 is zeros
  const auto x = normal_numbers(kRows * kColumns, DType::bf16, 1),
             y = normal_numbers(kRows * kColumns, DType::bf16, 2);
  const Arena gx(kRows * kColumns * 2), gy(kRows * kColumns * 2),
      gz(int64_t{cuda::kProductForms} * 64 * 128 * 4);
  put(gx, x.data(), x.size() * 2);
  put(gy, y.data(), y.size() * 2);
  cuda::hopper_products(gx.data(), gy.data(), kRows, kColumns, reinterpret_cast<float*>(gz.data()), nullptr);
  ISOBAR_CUDA(cudaDeviceSynchronize());
  const std::vector<float> z = read_f32(gz, int64_t{cuda::kProductForms} * 64 * 128);
  const auto in = [&](const std::vector<uint16_t>& m, int64_t r, int64_t c) {
    return r < kRows && c < kColumns ? from_16(m[static_cast<size_t>(r * kColumns + c)], DType::bf16) : 0.0f;
  };
  std::vector<float> scores(64 * 64);
  json result;
  bool passed = true;
  for (int form = 0; form < cuda::kProductForms; ++form) {
    const int64_t columns = form == 0 ? 64 : 128, inner = form == 0 ? 128 : 64;
    std::vector<float> want, got;
    for (int64_t r = 0; r < 64; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        float sum = 0;
        for (int64_t k = 0; k < inner; ++k)
          sum += (form == 2   ? in(x, k, r)
                  : form == 4 ? scores[static_cast<size_t>(r * 64 + k)]
                              : in(x, r, k)) *
                 (form == 0 ? in(y, c, k) : in(y, k, c));
        if (form == 0)
          scores[static_cast<size_t>(r * 64 + c)] = from_16(to_16(sum, DType::bf16), DType::bf16);
        want.push_back(sum);
        got.push_back(z[static_cast<size_t>((form * 64 + r) * 128 + c)]);
      }
    const double off = distance(got, want, columns, 0, columns);
    result[cuda::name_of_product(form)] = off;
    passed = passed && off <= 1e-3;
  }
  return {{"off", result}, {"passed", passed}};
}

// ---- speed ----
struct Rates {
  std::vector<double> ms;
  json summary(double flops) {
    std::sort(ms.begin(), ms.end());
    const double median = ms[ms.size() / 2];
    return {{"ms", median}, {"least_ms", ms.front()}, {"tflops", flops / median * 1e-9}};
  }
};

json speed(int64_t d, bool causal, bool backward) {
  const Attention a = shape_of(d <= 64 ? 16 : 4, 8, 8, tokens, tokens, d, causal, DType::bf16, 0);
  const Problem x(a), theirs(a);
  const auto fill = [&](const Arena& to, int64_t n, unsigned seed) {
    put(to, normal_numbers(n, a.act, seed).data(), static_cast<size_t>(n) * 2);
  };
  fill(x.q, x.queries, 1);
  fill(x.kv, x.keys, 2);
  fill(x.d_o, x.queries, 3);
  const cuda::Streams streams;
  cudaStream_t stream = streams[plan::Lane::compute];
  auto* const lse = reinterpret_cast<float*>(x.lse.data());
  const Arena workspace(std::max(cuda::attention_workspace(a, true, 9), cuda::hopper_backward_workspace(a)));
  json result{{"shape", text_of(a, backward)}};
  std::unique_ptr<cuda::CudnnAttention> cudnn;
  try {
    cudnn = std::make_unique<cuda::CudnnAttention>();
    cudnn->prepare(a, false, workspace.bytes());
    if (backward) cudnn->prepare(a, true, workspace.bytes());
    result["cudnn"] = {{"version", cuda::CudnnAttention::version()},
                       {"engine", cudnn->plan(a, backward).engine}};
  } catch (const std::exception& e) {
    cudnn.reset();
    result["cudnn"] = {{"error", e.what()}};
  }
  ISOBAR_CUDA(cudaDeviceSynchronize());
  const auto library_forward = [&] {
    cudnn->forward(a, x.q.data(), x.k(), x.v(), theirs.o.data(), reinterpret_cast<float*>(theirs.lse.data()),
                   workspace.data(), stream);
  };
  const auto own = [&] {
    if (backward)
      cuda::attention_hopper_backward(a, x.q.data(), x.k(), x.v(), x.o.data(), lse, x.d_o.data(), x.dq.data(),
                                      x.dk(), x.dv(), reinterpret_cast<float*>(workspace.data()), stream);
    else
      cuda::attention_hopper(a, x.q.data(), x.k(), x.v(), x.o.data(), lse, stream);
  };
  const auto library = [&] {
    if (backward)
      cudnn->backward(a, x.q.data(), x.k(), x.v(), x.o.data(), lse, x.d_o.data(), theirs.dq.data(),
                      theirs.dk(), theirs.dv(), workspace.data(), stream);
    else
      library_forward();
  };
  if (backward) cuda::attention_mma(a, x.q.data(), x.k(), x.v(), x.o.data(), lse, stream);
  bool passed = true;
  if (cudnn) {
    x.poison_gradients();
    ISOBAR_CUDA(cudaDeviceSynchronize());
    own();
    library();
    ISOBAR_CUDA(cudaStreamSynchronize(stream));
    result["from cudnn"] =
        backward ? differences(a, gradients_of(x), gradients_of(theirs))
                 : json{{"o", distance(read_16(x.o, x.queries, a.act), read_16(theirs.o, x.queries, a.act),
                                       a.ld_o, 0, a.heads * a.d)}};
    passed = within(result["from cudnn"], backward ? kBackwardAllowed : kForwardAllowed);
  }
  Rates ours, cudnns;
  for (int round = 0; round < 5; ++round) {
    ours.ms.push_back(static_cast<double>(cuda::milliseconds_of(stream, own)));
    if (cudnn) cudnns.ms.push_back(static_cast<double>(cuda::milliseconds_of(stream, library)));
  }
  const double seen = causal ? 0.5 : 1.0, products = backward ? 5 : 2;
  const double flops =
      2 * products * seen * static_cast<double>(a.batch * a.heads * a.tq) * static_cast<double>(a.tk * a.d);
  result["own"] = ours.summary(flops);
  if (cudnn) {
    result["cudnn"].update(cudnns.summary(flops));
    result["times cudnn"] = result["cudnn"]["ms"].get<double>() / result["own"]["ms"].get<double>();
  }
  result["passed"] = passed;
  return result;
}

// ---- cases ----
struct Case {
  std::string name;
  std::function<json()> run;
  std::string check;  // the case without which this one is not run; "" of a check
};
bool is_common(int64_t d) {
  return d == 48 || d == 64 || d == 96 || d == 128 || d == 192;
}
// Checks of all widths; the speed of those of weather nets, or of `all`
std::vector<Case> all_cases(bool all_speeds) {
  std::vector<Case> checks{{"check/products", check_products, ""}}, speeds;
  for (const int64_t d : {192, 48, 64, 128, 96, 32, 80, 112, 160, 256})
    for (const bool backward : {true, false}) {
      if (backward && d > 192) continue;
      const std::string name = std::string(backward ? "backward" : "forward") + "/d" + std::to_string(d);
      checks.push_back({"check/" + name, [=] { return check(d, backward); }, ""});
      for (const bool causal : {false, true})
        if (all_speeds || (is_common(d) && (!causal || d == 64 || d == 128)))
          speeds.push_back({(causal ? "causal/" : "speed/") + name,
                            [=] { return speed(d, causal, backward); }, "check/" + name});
    }
  std::vector<Case> all = checks;
  all.insert(all.end(), speeds.begin(), speeds.end());
  return all;
}

int run_here(const Case& c) {
  json line{{"case", c.name}};
  try {
    line["device"] = cuda::use_device("gpu_attention", 0).name;
    line.update(c.run());
  } catch (const std::exception& e) {
    line["passed"] = false;
    line["error"] = e.what();
  }
  std::printf("%s\n", line.dump().c_str());
  return line["passed"] ? 0 : 1;
}

void tell(const Case& c, const char* key, const std::string& why) {
  std::printf("%s\n", json{{"case", c.name}, {"passed", false}, {key, why}}.dump().c_str());
  std::fflush(stdout);
}

// Runs cases side by side, each in a process of its own that is killed after `seconds`; returns the names of
// those that failed.
std::vector<std::string> run_apart(const std::vector<Case>& cases, double seconds) {
  std::vector<std::string> failed;
  std::vector<std::pair<const Case*, pid_t>> left;
  std::fflush(stdout);
  for (const Case& c : cases) {
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
    if (child == 0) {
      const std::string n = std::to_string(tokens);
      execl("/proc/self/exe", "gpu_attention", "--here", c.name.c_str(), "--tokens", n.c_str(), nullptr);
      std::_Exit(127);
    }
    left.emplace_back(&c, child);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!left.empty()) {
    const bool late = std::chrono::steady_clock::now() > end;
    for (auto it = left.begin(); it != left.end();) {
      int status = 0;
      if (late) kill(it->second, SIGKILL);
      if (waitpid(it->second, &status, late ? 0 : WNOHANG) == 0) {
        ++it;
        continue;
      }
      if (late)
        tell(*it->first, "error", "took more than " + std::to_string(seconds) + " s");
      else if (WIFSIGNALED(status))
        tell(*it->first, "error", std::string("killed by ") + strsignal(WTERMSIG(status)));
      else if (WEXITSTATUS(status) > 1)
        tell(*it->first, "error", "exit code " + std::to_string(WEXITSTATUS(status)));
      if (late || status != 0) failed.push_back(it->first->name);
      it = left.erase(it);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return failed;
}

// The checks first, all at once; then the speed of those that passed, one by one. Returns whether all did.
bool run_all(const std::vector<Case>& cases, double seconds) {
  std::vector<Case> checks;
  std::copy_if(cases.begin(), cases.end(), std::back_inserter(checks),
               [](const Case& c) { return c.check.empty(); });
  const std::vector<std::string> failed = run_apart(checks, seconds);
  bool passed = failed.empty();
  for (const Case& c : cases) {
    if (c.check.empty()) continue;
    if (std::find(failed.begin(), failed.end(), c.check) != failed.end())
      tell(c, "skipped", c.check + " failed");
    else
      passed = run_apart({c}, seconds).empty() && passed;
  }
  return passed;
}

}  // namespace
}  // namespace isobar::micro

int main(int argc, char** argv) {
  using namespace isobar;
  std::string only, here;
  double seconds = 25;
  bool list = false, all = false;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const bool value = i + 1 < argc;
    if (arg == "--list") {
      list = true;
    } else if (arg == "--all") {
      all = true;
    } else if (arg == "--only" && value) {
      only = argv[++i];
    } else if (arg == "--here" && value) {
      here = argv[++i];
    } else if (arg == "--tokens" && value && (micro::tokens = std::atoll(argv[++i])) > 1) {
    } else if (arg == "--seconds" && value && (seconds = std::atof(argv[++i])) > 0) {
    } else {
      std::fprintf(stderr,
                   "gpu_attention: '%s': want --list, --all, --only NAME, --tokens N or --seconds N\n",
                   argv[i]);
      return 2;
    }
  }
  const auto found = cuda::find_devices();
  if (!list && (found.all.empty() || found.all[0].major != 9)) {
    std::fprintf(stderr, "gpu_attention: no GPU of compute capability 9.0%s%s\n",
                 found.all.empty() ? ": " : "", found.why_none.c_str());
    return 77;
  }
  std::vector<micro::Case> chosen;
  for (const micro::Case& c : micro::all_cases(all || !here.empty() || !only.empty())) {
    if (c.name == here) return micro::run_here(c);
    if (here.empty() && c.name.rfind(only, 0) == 0) chosen.push_back(c);
  }
  if (chosen.empty()) {
    std::fprintf(stderr, "gpu_attention: no case is named '%s%s' (see --list)\n", here.c_str(), only.c_str());
    return 2;
  }
  if (list) {
    for (const micro::Case& c : chosen) std::printf("%s\n", c.name.c_str());
    return 0;
  }
  return micro::run_all(chosen, seconds) ? 0 : 1;
}
