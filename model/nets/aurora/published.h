// Aurora's tensors as microsoft-aurora has them (published.h): attention's q, k and v are one there, a patch
// embedding has a weight for each variable. Its first files have one weight for all variables, of the heads,
// too, [points, variables, D], in the order of the variables that those nets had.
#pragma once
#include "model/nets/published.h"

namespace isobar {

PublishedForm published_form(const AuroraSpec& n, const std::vector<Tensor>& own);

}  // namespace isobar
