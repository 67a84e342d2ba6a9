// A net that PyTorch recorded (base/spec/traced_net.h): its parts emit the recorded ops, forward and
// backward. It is priced and placed like any other, and not run.
//
// A value that autograd keeps is saved; the 16-bit copies of weights are those of autocast, made in each
// pass. A value that several later parts read goes along them, one stream from each to the next.
#pragma once
#include <memory>
#include <vector>

#include "model/nets/layout/legal_layout.h"
#include "model/nets/net.h"

namespace isobar::nets {

std::unique_ptr<Net> make_net(const TracedSpec& n, Emission& e, const Sharding& at);
std::vector<plan::Part> parts_of(const TracedSpec& n);
TracedSpec distinct_parts(TracedSpec n);
NetLimits limits_of(const TracedSpec& n);

/// Throws ConfigError for ops without a price, with their modules and lines.
void check_priced(const TracedSpec& n);

}  // namespace isobar::nets
