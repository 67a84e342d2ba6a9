#include "model/forecast/net_and_data.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "model/base/error.h"
#include "model/engine/channels_of_data.h"
#include "model/inference/weights/open_checkpoint.h"

namespace isobar::forecast {
namespace {

// The spec with other data, or with its own validation data, normalised as in training.
RunSpec with_data(RunSpec s, const std::string& from, const std::string& data, int64_t samples) {
  if (!data.empty()) s.data.valid = data;
  if (s.data.train.empty())
    throw ConfigError(from, "data.train", "is empty: this net was trained on noise",
                      "train it on data, which also say how they are normalised");
  if (!s.data.validates())
    throw ConfigError(from, "data.valid", "is empty: the run has no validation data",
                      "name data: --data PATH");
  s.data.limit_valid_samples = samples > 0 ? samples : data.empty() ? s.data.limit_valid_samples : 0;
  return s;
}

}  // namespace

NetAndData open_net_and_data(const std::string& from, const std::string& data, int64_t samples,
                             int64_t steps) {
  NetAndData n;
  n.checkpoint = inference::find_checkpoint(from, "");
  n.state = inference::state_of(n.checkpoint);
  if (!n.state.checkable())
    throw ConfigError(n.checkpoint.string(), "", "was written before checkpoints said what their net is",
                      "train it again, or resume it for a step");
  if (n.state.spec.net.words())
    throw ConfigError(
        n.checkpoint.string(), "net.kind",
        n.state.spec.net.kind() + " predicts words, and forecasts are numbers",
        "take the checkpoint of a net of fields or numbers, or continue a text: isobar generate");
  n.state.spec = with_data(n.state.spec, from, data, samples);
  const bool own = n.state.channels.known();
  if (own && !n.state.spec.data.valid.empty()) n.state.spec.data.train.clear();  // may no longer exist
  data::require_data(n.state.spec);
  const DataSpec& d = n.state.spec.data;
  RunSpec rolled = n.state.spec;
  if (steps > 0) rolled.train.rollout = steps;
  rolled.train.rollout_gradient = RolloutGradient::all;
  const data::SampleShape shape = data::sample_shape(rolled);
  data::Statistics known;
  if (!own && data::needs_statistics(d, shape)) known = data::begin_statistics(d, shape)();
  n.set = data::open_dataset(d, d.valid, data::Split::valid, shape,
                             own || !known.mean.empty() ? &known : nullptr);
  engine::require_fit(n.state.spec, *n.set, d.valid.empty() ? d.train : d.valid);
  n.state.spec.train.latitudes = n.set->coordinates().latitude;
  if (own) {
    engine::require_channels(n.state.channels, *n.set, n.checkpoint.string());
  } else {
    n.state.channels = engine::channels_of_data(*n.set);
    std::fprintf(stderr,
                 "isobar: %s does not say how its channels are normalised: computed from data.train\n",
                 n.checkpoint.c_str());
  }
  return n;
}

void NetAndData::read(int64_t i, float* input, float* target, float* mask) const {
  if (set->shape().masked) {
    std::vector<float> unread;  // nets of one step have no further tensors
    std::vector<float*> to;
    for (const data::SampleTensor& t : set->tensors())
      to.push_back(t.name == "input"          ? input
                   : t.name == "target"       ? target
                   : t.name == "mask" && mask ? mask
                                              : nullptr);
    int64_t room = 0;
    const std::vector<data::SampleTensor> tensors = set->tensors();
    for (size_t k = 0; k < to.size(); ++k) room += to[k] ? 0 : tensors[k].size;
    unread.resize(static_cast<size_t>(room));
    for (size_t k = 0, at = 0; k < to.size(); ++k)
      if (!to[k]) to[k] = unread.data() + at, at += static_cast<size_t>(tensors[k].size);
    set->read_tensors(i, to);
  } else {
    set->read(i, input, target);
  }
  if (!set->target_statistics().mean.empty()) return;  // older checkpoints lack the target statistics
  const data::FieldShape in = set->shape().input, out = set->shape().target;
  normalised(state.channels.inputs, in.height * in.width, input, input);
  normalised(state.channels.targets, out.height * out.width, target, target);
}

void NetAndData::normalised(const std::vector<inference::NetChannel>& channels, int64_t points,
                            const float* x, float* out) const {
  inference::normalise(channels, points, 1, x, out);
  if (state.spec.data.mask.empty()) return;
  std::replace_if(
      out, out + static_cast<int64_t>(channels.size()) * points, [](float v) { return std::isnan(v); }, 0.0f);
}

}  // namespace isobar::forecast
