// A layout written for other software: options of Megatron-LM, NeMo and torchtitan, a file of DeepSpeed, or a
// configuration of Isobar.
//
//   std::fputs(emitted(choice.spec, "megatron", "predicted: 5.1 s a step").c_str(), stdout);
//
// Only net, batch, layout and policy are written: data, learning rates and paths stay the user's. Throws
// ConfigError for what that software lacks, with the key and its nearest equivalent.
#pragma once
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "perfmodel/ask/constraints.h"

namespace isobar::perf {

/// isobar, megatron, nemo, torchtitan, deepspeed
std::vector<std::string> emit_targets();
/// `comment`: one line, of what is emitted.
std::string emitted(const RunSpec& spec, const std::string& target, const std::string& comment = "");
/// Constraints of a search for this target, beside its engine's axes.
std::vector<Constraint> said_by(const std::string& target);

}  // namespace isobar::perf
