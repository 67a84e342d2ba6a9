// A published run as a specification of this program: what its engine computed, as our plans would.
//
//   RunSpec spec = spec_of(table.runs[0]);
//   LayoutModel(spec, load_machine("configs/machines/dgx-a100.yaml")).cost(layout_of(spec))
//
// Throws ConfigError for what no plan of ours says: mixtures of experts, a ViT of unknown images, fp4, zb-2p.
#pragma once
#include "model/base/spec.h"
#include "perfmodel/score/published_run.h"

namespace isobar {

RunSpec spec_of(const PublishedRun& run);

}  // namespace isobar
