// Which layouts a net can be cut into, whatever it runs on.
//
//   check_layout(spec);      // ConfigError names the key and the nearest sizes that can be run
#pragma once
#include "model/base/spec.h"

namespace isobar {

/// `spec` is valid (validate) beforehand.
void check_layout(const RunSpec& spec);

}  // namespace isobar
