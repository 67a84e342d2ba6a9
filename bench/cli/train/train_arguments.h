// Arguments of isobar train.
#pragma once
#include <string>
#include <vector>

#include "bench/cli/words/options.h"
#include "model/base/spec/spec.h"

namespace isobar {

struct TrainArguments {
  std::string config, trace, resume, rank_output = "first", launcher = "local", machine, results, fit, time;
  std::vector<std::string> set;
  int64_t ranks = 0;
  bool json = false, no_wait = false, dry_run = false, set_aside = false;
  About about;
};

RunSpec loaded(const TrainArguments& a);
/// Turns the requested ranks into data parallelism.
void take_ranks(TrainArguments& a, const LayoutSpec& layout);

}  // namespace isobar
