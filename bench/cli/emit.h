// A layout as other software is told it: options of Megatron-LM, NeMo and torchtitan, a file of DeepSpeed, or
// a configuration of Isobar.
//
//   std::fputs(emitted(choice.spec, "megatron").c_str(), stdout);
//
// Only net, batch, layout and policy are said: data, learning rates and paths stay the user's. Throws
// ConfigError where that software has no such thing, naming the key and what it has instead.
#pragma once
#include <string>
#include <vector>

#include "model/base/spec.h"

namespace isobar {

/// isobar, megatron, nemo, torchtitan, deepspeed
std::vector<std::string> emit_targets();
std::string emitted(const RunSpec& spec, const std::string& target);

}  // namespace isobar
