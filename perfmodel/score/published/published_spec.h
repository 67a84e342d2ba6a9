// A published run as a specification of this program, computing what its engine did, and a specification as a
// run of another engine.
//
//   RunSpec spec = spec_of(table.runs[0]);
//   LayoutModel(spec, load_machine("configs/machines/dgx-a100.yaml")).cost(layout_of(spec))
//   PublishedRun r = run_of(spec, machine, chip_of(machine), engine_named("nemo").habits);
//
// Throws ConfigError for runs that no specification expresses (a ViT of unknown images, adapters of unknown
// rank, zb-2p), and for settings that other engines' closed forms do not cover.
#pragma once
#include <string>

#include "model/base/spec/spec.h"
#include "perfmodel/score/published/published_run.h"

namespace isobar::perf {

/// A net that is no chain of equal transformer blocks, which no row of a table describes.
struct AskedNet {
  RunSpec spec;
  std::string text;  // equal for equal nets
};

/// Its net; of a ViT whose images the run does not say, one of as many patches.
NetSpec net_of(const PublishedRun& run);
RunSpec spec_of(const PublishedRun& run);
/// True for nets that are counted whole, as AskedNet.
bool is_asked_whole(const NetSpec& net);
/// Puts it into one campaign with the runs of run_of().
void as_asked(PublishedRun& run);
/// `chip` is the machine's accelerator and must outlive the run.
PublishedRun run_of(const RunSpec& spec, const Machine& machine, const ChipSpec& chip, const Habits& habits);

}  // namespace isobar::perf
