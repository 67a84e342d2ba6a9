// A net that PyTorch recorded (base/spec/traced_net.h): its parts emit the recorded ops, forward and
// backward. It is priced and placed like any other, and not run.
//
// A value that autograd keeps is saved; the 16-bit copies of weights are those of autocast, made in each
// pass. A value that several later parts read goes along them, one stream from each to the next.
#pragma once
#include "model/base/spec/net_spec.h"

namespace isobar::nets {

/// Throws ConfigError for ops without a price, with their modules and lines.
void check_priced(const TracedSpec& n);

}  // namespace isobar::nets
