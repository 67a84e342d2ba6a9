// A published run as a specification of this program, what its engine computed as our plans would, and a
// specification as a run of another engine.
//
//   RunSpec spec = spec_of(table.runs[0]);
//   LayoutModel(spec, load_machine("configs/machines/dgx-a100.yaml")).cost(layout_of(spec))
//   PublishedRun r = run_of(spec, machine, chip_of(machine), engine_named("nemo").habits);
//
// Throws ConfigError for what no plan of ours says (mixtures of experts, a ViT of unknown images, fp4,
// zb-2p), and for what closed forms of other engines say nothing about.
#pragma once
#include "model/base/spec.h"
#include "perfmodel/score/published_run.h"

namespace isobar {

RunSpec spec_of(const PublishedRun& run);
/// Makes it one campaign with the runs that run_of() makes.
void as_asked(PublishedRun& run);
/// `chip`, which has to outlive the run, is the machine's accelerator.
PublishedRun run_of(const RunSpec& spec, const Machine& machine, const ChipSpec& chip, const Habits& habits);

}  // namespace isobar
