#include "bench/cli/train/train_arguments.h"

#include "model/base/error.h"

namespace isobar {
namespace {

int64_t other_axes(const LayoutSpec& l) {
  return l.tp * l.cp * l.pp;
}

}  // namespace

RunSpec loaded(const TrainArguments& a) {
  return load_run_spec(a.config, a.set);
}

void take_ranks(TrainArguments& a, const LayoutSpec& layout) {
  const int64_t others = other_axes(layout);
  if (a.ranks % others != 0)
    throw ConfigError("--ranks", "",
                      std::to_string(a.ranks) + " is no multiple of tp*cp*pp = " + std::to_string(others),
                      "give a multiple");
  refuse_contradiction(a.set, "layout.dp", a.ranks / others, "--ranks " + std::to_string(a.ranks));
  a.set.push_back("layout.dp=" + std::to_string(a.ranks / others));
}

}  // namespace isobar
