// The transformers: equal pre-norm blocks (block.h) between two ends, images for the ViT (pixels.h: the NERSC
// 6-hour ERA5 forecast), tokens for gpt and llama (language.h).
#pragma once
#include <memory>

#include "model/nets/layout/legal_layout.h"
#include "model/nets/net.h"

namespace isobar::nets {

std::unique_ptr<Net> make_net(const VitSpec& n, Emission& e, const Sharding& at);
std::unique_ptr<Net> make_net(const GptSpec& n, Emission& e, const Sharding& at);
std::unique_ptr<Net> make_net(const LlamaSpec& n, Emission& e, const Sharding& at);

std::vector<plan::Part> parts_of(const VitSpec& n);
std::vector<plan::Part> parts_of(const WordsSpec& n);
std::vector<plan::Part> parts_of(const LlamaSpec& n);

template <class Spec>
Spec distinct_parts(Spec n) {
  n.depth = std::min<int64_t>(n.depth, 2);
  return n;
}
LlamaSpec distinct_parts(LlamaSpec n);

NetLimits limits_of(const VitSpec& n);
NetLimits limits_of(const WordsSpec& n);
NetLimits limits_of(const LlamaSpec& n);

/// "block07"
std::string block_path(int64_t i);

}  // namespace isobar::nets
