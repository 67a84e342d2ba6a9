#include "model/base/net_specs/mlp.h"

#include "model/base/spec/spec_check.h"

namespace isobar {

void MlpSpec::add_rows(KeyRows& to) {
  to.insert(to.end(), {{"net.in_features", in_features, kNetSize, "Numbers read."},
                       {"net.out_features", out_features, kNetSize,
                        "Numbers predicted, or classes with train.loss cross_entropy."},
                       {"net.hidden", hidden, kNetSize, "Widths of the hidden layers, 1 to 1024 of them."},
                       {"net.activation", activation, "Activation after each hidden layer."},
                       {"net.dropout", dropout, within("[)", 0, 1, "e.g. 0.2"),
                        "Dropout of each hidden layer's results, drawn independently of the layout."}});
}

void MlpSpec::check_lists(const SpecCheck& check) const {
  check.that(!hidden.empty(), "net.hidden", "names no hidden layer", "give a width or more, e.g. [64, 64]");
  check.that(blocks() <= 1024, "net.hidden", "has " + std::to_string(blocks()) + " widths, above 1024",
             "give fewer");
}

RoughSize MlpSpec::rough_size(bool) const {
  const auto real = [](int64_t v) { return static_cast<double>(v); };
  RoughSize all;
  double in = real(in_features);
  for (const int64_t width : hidden) {
    all.weights += (in + 1) * real(width);
    all.sample += 4 * real(width);
    in = real(width);
  }
  all.weights += (in + 1) * real(out_features);
  return all;
}

}  // namespace isobar
