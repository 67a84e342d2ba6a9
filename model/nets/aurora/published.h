// Aurora's tensors in microsoft-aurora's form (published.h): one qkv, and one weight per variable of a patch
// embedding. Its first files have one weight for all variables, also of the heads [points, variables, D], in
// those nets' order of variables.
#pragma once
#include "model/nets/published/published.h"

namespace isobar::nets {

PublishedForm published_form(const AuroraSpec& n, const std::vector<plan::Tensor>& own);

}  // namespace isobar::nets
