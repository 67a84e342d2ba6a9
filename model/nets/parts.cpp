#include "model/nets/parts.h"

#include <algorithm>
#include <cstdio>

#include "model/nets/transformer.h"

namespace isobar {

std::vector<Part> parts_of(const NetSpec& net) {
  std::vector<Part> parts;
  parts.push_back({"embed", "embed", 0});
  for (int64_t i = 0; i < net.depth; ++i) {
    char path[16];
    std::snprintf(path, sizeof path, "block%02d", static_cast<int>(i));
    parts.push_back({"block", path, 1});
  }
  parts.push_back({"head", "head", static_cast<int32_t>(parts.size())});
  return parts;
}

std::unique_ptr<Net> make_net(Emission& e, const Sharding& at) {
  return e.spec.net.kind == "vit" ? make_vit(e, at) : make_language_model(e, at);
}

std::vector<int32_t> cuts_of(const NetSpec& net, int64_t stages) {
  std::vector<int32_t> cuts{0};
  int64_t part = 1;
  for (int64_t j = 0; j + 1 < stages; ++j) {
    part += net.depth / stages + (j >= 1 && j <= net.depth % stages ? 1 : 0);
    cuts.push_back(static_cast<int32_t>(part));
  }
  cuts.push_back(static_cast<int32_t>(net.depth + 2));
  return cuts;
}

NetSpec distinct_parts(NetSpec net) {
  net.depth = std::min<int64_t>(net.depth, 3);
  return net;
}

}  // namespace isobar
