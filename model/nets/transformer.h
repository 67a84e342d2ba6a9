// A transformer's plan: parameters, the routines of this rank's stages, and the order of a step. Pre-norm
// blocks (block.h) between two ends: images for the ViT (pixels.h: the NERSC 6-hour ERA5 forecast), tokens
// for gpt and llama (language.h). Forward and backward are written side by side by hand; what each emits is
// listed there, in execution order.
#pragma once
#include "model/base/spec.h"
#include "model/plan/builder.h"

namespace isobar {
Plan build_transformer(const RunSpec& spec, int rank, const Workspace& workspace);
}
