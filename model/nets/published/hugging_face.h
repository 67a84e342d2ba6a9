// Names and shapes of the weights of GPT-2, Llama, Mixtral and DeepSeekMoE in Hugging Face's transformers;
// config.json: base/names/hugging_face_config.h.
//
//   published_form(spec.net, plan.tensors)                    // nets/published/published.h, for the weights
//
// transformers turns a head's halves by its rotary positions, as we do, so queries and keys keep their order.
#pragma once
#include "model/nets/published/published.h"

namespace isobar::nets {

PublishedForm published_form(const GptSpec& n, const std::vector<plan::Tensor>& own);
PublishedForm published_form(const LlamaSpec& n, const std::vector<plan::Tensor>& own);

}  // namespace isobar::nets
