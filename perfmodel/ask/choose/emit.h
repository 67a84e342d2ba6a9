// A layout written for other software: options of Megatron-LM, NeMo and torchtitan, a file of DeepSpeed, or a
// configuration of Isobar.
//
//   std::fputs(emitted(choice.spec, "megatron").c_str(), stdout);
//
// Only net, batch, layout and policy are written: data, learning rates and paths stay the user's. Throws
// ConfigError for what that software lacks, with the key and its nearest equivalent.
#pragma once
#include <string>
#include <vector>

#include "model/base/spec/spec.h"

namespace isobar {

/// isobar, megatron, nemo, torchtitan, deepspeed
std::vector<std::string> emit_targets();
std::string emitted(const RunSpec& spec, const std::string& target);

}  // namespace isobar
