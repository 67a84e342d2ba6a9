#include "model/nets/windows/relative_bias.h"

#include <algorithm>
#include <numeric>

#include "model/nets/declare.h"
#include "model/nets/windows/attention.h"

namespace isobar::nets {

int64_t distances(const Sizes3& window) {
  return (2 * window[0] - 1) * (2 * window[1] - 1) * (2 * window[2] - 1);
}

std::vector<int32_t> distances_of(const Sizes3& window, const Sizes3& segment) {
  const int64_t length = segment[0] * segment[1] * segment[2];
  const auto place = [&](int64_t i) {
    return Sizes3{i / (segment[1] * segment[2]), i / segment[2] % segment[1], i % segment[2]};
  };
  std::vector<int32_t> out;
  out.reserve(static_cast<size_t>(length * length));
  for (int64_t k = 0; k < length; ++k)
    for (int64_t q = 0; q < length; ++q) {
      const Sizes3 key = place(k), query = place(q);
      int64_t index = 0;
      for (size_t axis = 0; axis < 3; ++axis)
        index = index * (2 * window[axis] - 1) + query[axis] - key[axis] + window[axis] - 1;
      out.push_back(static_cast<int32_t>(index));
    }
  return out;
}

namespace {

std::string label(const WindowRun& run) {
  return run.text() + (run.shared ? "/shared" : "");
}
// A buffer's name has no slash after its dot.
std::string buffer_of(const std::string& path, const char* what, const WindowRun& run) {
  return path + (run.shared ? "/shared." : ".") + what + run.text();
}

}  // namespace

RelativeBias::RelativeBias(Emission& e, const Sharding& at, std::string path, std::string name,
                           Windows& windows, int64_t heads)
    : e_(e),
      b_(e.b),
      path_(std::move(path)),
      name_(std::move(name)),
      windows_(windows),
      all_heads_(heads),
      heads_(heads / at.tp),
      distances_(distances(windows.window)),
      matrices_(windows.runs.size()),
      gradients_(windows.runs.size()) {}

void RelativeBias::declare(Declare& d) {
  d.tensor(table_, false,
           {{name_ + ".attn.relative_position_bias_table",
             {all_heads_, distances_},
             plan::Init::normal,
             kSigma,
             0}});
}

void RelativeBias::forward(const std::string& pass) {
  for (size_t i = 0; i < matrices_.size(); ++i) {
    const WindowRun& run = windows_.runs[i];
    const int64_t pairs = run.length * run.length;
    if (run.sides[0] * run.sides[1] * run.sides[2] == 0) continue;  // a rank without windows
    matrices_[i] = b_.scratch(buffer_of(path_, "bias", run), DType::f32, heads_ * pairs);
    b_.emit<plan::OpKind::gather>(
        path_ + "/attn/bias" + label(run) + pass, {.rows = heads_ * pairs, .cols = 1, .batch = heads_},
        {plan::View{}, table_, windows_.distances(i), plan::View{}, plan::View{}}, {matrices_[i]});
  }
}

void RelativeBias::backward_begins() {
  forward("/recompute");
  for (size_t i = 0; i < matrices_.size(); ++i)
    gradients_[i] =
        matrices_[i] && b_.trained(table_)
            ? b_.scratch(buffer_of(path_, "dbias", windows_.runs[i]), DType::f32, matrices_[i].count)
            : plan::View{};
}

void RelativeBias::backward() {
  if (!b_.trained(table_)) return;
  const std::string path = path_ + "/attn/bias";
  const plan::View sum = b_.grad(table_);
  bool adds = e_.accumulates();
  for (size_t i = 0; i < gradients_.size(); ++i) {
    if (!gradients_[i]) continue;
    const WindowRun& run = windows_.runs[i];
    const plan::View part = adds ? b_.scratch(buffer_of(path_, "dtable", run), DType::f32, sum.count) : sum;
    const auto [offsets, order] = windows_.pairs_by_distance(i);
    b_.emit<plan::OpKind::segment_sum>(path + label(run) + "/backward",
                                       {.rows = gradients_[i].count, .cols = 1, .batch = heads_},
                                       {gradients_[i], offsets, order}, {part});
    if (adds)
      b_.emit<plan::OpKind::cast>(path + label(run) + "/backward_add",
                                  {.count = sum.count, .accumulate = true}, {part}, {sum});
    adds = true;
  }
  if (!adds) b_.emit<plan::OpKind::zero>(path + "/backward_zero", {.count = sum.count}, {}, {sum});
}

}  // namespace isobar::nets
