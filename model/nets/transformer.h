// The transformers: equal pre-norm blocks (block.h) between two ends, images for the ViT (pixels.h: the NERSC
// 6-hour ERA5 forecast), tokens for gpt and llama (language.h).
#pragma once
#include <memory>

#include "model/nets/net.h"

namespace isobar {
std::unique_ptr<Net> make_vit(Emission& e, const Sharding& at);
std::unique_ptr<Net> make_language_model(Emission& e, const Sharding& at);
}  // namespace isobar
