// The learned bias of attention's scores in windows, by head and by the distance from key to query (Liu
// 2021).
//
//   RelativeBias bias(e, at, "block03", "encoder.1.blocks.0", windows, heads);
//   bias.forward(pass);            // gathers of(run) [heads, keys, queries] f32, an operand of attention
//   bias.backward_begins();        // gathers them again; attention_backward writes gradient_of(run)
//   bias.backward();               // sums them by distance into the table's gradient
//
// The table is [heads, distances]: PyTorch's, transposed. Segments smaller than a window read a part of it.
#pragma once
#include <string>
#include <vector>

#include "model/nets/layers.h"
#include "model/nets/windows/windows.h"

namespace isobar::nets {

class Declare;
struct Windows;

class RelativeBias {
 public:
  RelativeBias(Emission& e, const Sharding& at, std::string path, std::string name, Windows& windows,
               int64_t heads);
  void declare(Declare& d);
  void forward(const std::string& pass);
  void backward_begins();
  void backward();
  plan::View of(size_t run) const { return matrices_[run]; }
  plan::View gradient_of(size_t run) const { return gradients_[run]; }  // absent if the table is frozen

 private:
  Emission& e_;
  plan::Builder& b_;
  const std::string path_, name_;
  Windows& windows_;
  const int64_t all_heads_, heads_, distances_;  // of the net, of this rank
  plan::View table_;
  std::vector<plan::View> matrices_, gradients_;  // by run; absent if it has no rows
};

/// The distance, as an index into the table, of each pair [keys, queries] of a segment.
std::vector<int32_t> distances_of(const Sizes3& window, const Sizes3& segment);
int64_t distances(const Sizes3& window);

}  // namespace isobar::nets
