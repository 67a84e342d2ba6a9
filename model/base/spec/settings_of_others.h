// Settings of runs that other engines make and published tables hold: Isobar's own engine neither runs nor
// prices them, `isobar predict --engine` does.
#pragma once
#include "model/base/spec/spec.h"

namespace isobar {

constexpr bool is_block_scaled(Amp amp) {
  return amp == Amp::mxfp8 || amp == Amp::nvfp4;
}
bool has_settings_of_others(const RunSpec& spec);
/// Throws ConfigError for policy.amp mxfp8 and nvfp4, policy.offloaded_layers and net.attended_tokens.
void refuse_settings_of_others(const RunSpec& spec);
/// The nearest run without them: fp8, all activations on the device, whole samples.
RunSpec without_settings_of_others(RunSpec spec);

}  // namespace isobar
