#include "bench/cli/train/train_arguments.h"

#include <filesystem>

#include "model/base/error.h"

namespace isobar::cli {
namespace {

int64_t other_axes(const LayoutSpec& l) {
  return l.tp * l.cp * l.pp;
}

}  // namespace

RunSpec loaded(const TrainArguments& a) {
  return load_run_spec(a.config, a.set);
}

void name_run(TrainArguments& a, RunSpec& spec, std::optional<RunFolder>& folder) {
  std::string& out = spec.run.out;
  if (a.fresh && out.empty())
    throw ConfigError("--new", "", "is of a run that is written, and run.out is empty",
                      "add --set run.out=runs/first");
  require_pattern(spec);
  if (!a.fresh && !names_a_pattern(out)) return;
  if (a.fresh || a.resume.empty()) {
    const std::string name =
        a.about.name.empty() ? std::filesystem::path(a.config).stem().string() : a.about.name;
    folder.emplace(out, name, a.fresh);
    out = folder->path();
  } else {
    out = run_resumed(a.resume);
  }
  a.set.push_back("run.out=" + out);
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

}  // namespace isobar::cli
