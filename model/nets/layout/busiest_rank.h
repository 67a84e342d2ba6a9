// The rank on which the others wait, whose plan prices a layout.
//
//   build_plan(spec, busiest_rank(spec), {});
#pragma once
#include "model/base/spec/spec.h"

namespace isobar::nets {

/// The busiest rank, on which the others wait, among those that share the first samples on the first stage:
/// its edges are updated most often in a step, or its queries see most keys; all else is split evenly.
int busiest_rank(const RunSpec& spec);

}  // namespace isobar::nets
