// The NERSC ViT: 6-hour ERA5 forecast, image to image. Patchify, learned positions, pre-norm blocks with
// separate q, k, v, exact GELU, final norm, head without bias; relative L2 loss. Forward and backward are
// written side by side by hand; what each block emits is listed there, in execution order.
#pragma once
#include "model/base/spec.h"
#include "model/plan/builder.h"

namespace isobar {
Plan build_vit(const RunSpec& spec, int rank, const Workspace& workspace);
}
