// Arguments of isobar train.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "bench/cli/train/run_name.h"
#include "bench/cli/words/options.h"
#include "model/base/spec/spec.h"

namespace isobar::cli {

struct TrainArguments {
  std::string config, trace, resume, rank_output = "first", launcher = "local", machine, results, fit, time;
  std::vector<std::string> set;
  int64_t ranks = 0;
  bool json = false, no_wait = false, dry_run = false, fresh = false, set_aside = false;
  About about;
};

RunSpec loaded(const TrainArguments& a);
/// Decides run.out where it is a pattern, or a new one is wanted: the run that --resume names, else a folder
/// that is made and kept in `folder`.
void name_run(TrainArguments& a, RunSpec& spec, std::optional<RunFolder>& folder);
/// Turns the requested ranks into data parallelism.
void take_ranks(TrainArguments& a, const LayoutSpec& layout);

}  // namespace isobar::cli
