#include "bench/cli/train/train_arguments.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "model/base/error.h"
#include "model/base/system/shared_files.h"
#include "perfmodel/ask/predict.h"
#include "perfmodel/fitting/settings_fit.h"
#include "perfmodel/machine/shipped.h"

namespace isobar::cli {
namespace {

int64_t other_axes(const LayoutSpec& l) {
  return l.tp * l.cp * l.pp;
}

namespace fs = std::filesystem;

constexpr const char* kNumber = "{n}";
constexpr const char* kName = "{name}";

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
}

/// Highest number that an entry of `folder` has between `before` and `after`; 0: none has.
int64_t highest(const fs::path& folder, const std::string& before, const std::string& after) {
  int64_t most = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (name.size() <= before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after))
      continue;
    const char *begin = name.data() + before.size(), *end = name.data() + name.size() - after.size();
    int64_t n = 0;
    const auto [at, error] = std::from_chars(begin, end, n);
    if (error == std::errc() && at == end) most = std::max(most, n);
  }
  return most;
}

/// False where it exists already.
bool makes(const fs::path& dir) {
  std::error_code error;
  if (fs::create_directory(dir, error)) return true;
  if (error)
    throw ConfigError(dir.string(), "run.out", "cannot be made: " + error.message(),
                      "name another directory");
  return false;
}

std::string made(const fs::path& folder, const std::string& before, const std::string& after, int64_t least) {
  if (!folder.empty()) fs::create_directories(folder);
  for (int64_t n = std::max(least, highest(folder.empty() ? "." : folder, before, after) + 1);; ++n)
    if (const fs::path dir = folder / (before + std::to_string(n) + after); makes(dir)) return dir.string();
}

/// Throws ConfigError where run.out is a pattern that names no directory.
void require_pattern(const RunSpec& spec) {
  const std::string& out = spec.run.out;
  if (!names_a_pattern(out)) return;
  const size_t number = out.find(kNumber);
  if (number == std::string::npos) return;
  if (out.find('/', number) != std::string::npos || out.find(kNumber, number + 1) != std::string::npos)
    throw ConfigError(spec.file, "run.out", "is " + out + ", and a run has one number, in its last part",
                      "e.g. runs/{name}-{n}");
}

/// The run directory that `--resume` means: itself, or that of a checkpoint.
std::string run_resumed(const std::string& resume) {
  const fs::path whole = fs::path(resume).lexically_normal(),
                 path = whole.has_filename() ? whole : whole.parent_path();  // a slash behind it
  return (path.parent_path().filename() == "checkpoints" ? path.parent_path().parent_path() : path).string();
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

std::optional<records::ExpectedStep> expected_on(const perf::Machine& machine, const RunSpec& spec,
                                                 const perf::HostShare& host) {
  // Memory is not asked for, so the closed form does.
  const perf::Prediction p =
      perf::predict(spec, machine, {.host = host, .campaign = "", .closed_form = true});
  return records::ExpectedStep{p.step_s, p.lower, p.upper, "predicted by " + machine.file};
}

std::optional<records::ExpectedStep> expected_of(const TrainArguments& a, const RunSpec& spec) {
  if (a.machine.empty() && a.fit.empty()) return std::nullopt;
  const std::string wrong = spec.run.by_settings ? a.machine : a.fit;
  if (!wrong.empty())
    throw ConfigError(spec.run.by_settings ? "--machine" : "--fit", "",
                      spec.run.by_settings ? "prices a net, and none is described"
                                           : "is of runs without a net, and this one has one",
                      spec.run.by_settings ? "give --fit FITTED of isobar fit" : "give --machine");
  if (!spec.run.by_settings) return expected_on(perf::load_machine(a.machine), spec, {});
  const perf::StepRange r = perf::SettingsFit::from_json(read_json(a.fit), a.fit)(spec);
  return records::ExpectedStep{r.seconds, r.lower, r.upper, "predicted by " + a.fit};
}

bool names_a_pattern(const std::string& out) {
  return out.find(kNumber) != std::string::npos || out.find(kName) != std::string::npos;
}

RunFolder::RunFolder(const std::string& out, const std::string& name, bool beside) {
  std::string named = out;
  replace_all(named, kName, name);
  const fs::path whole = named;
  const std::string last = whole.filename().string();
  if (const size_t at = last.find(kNumber); at != std::string::npos) {
    path_ = made(whole.parent_path(), last.substr(0, at), last.substr(at + 3), 1);
    return;
  }
  if (!whole.parent_path().empty()) fs::create_directories(whole.parent_path());
  path_ = !beside || makes(whole) ? named : made(whole.parent_path(), last + "-", "", 2);
}

RunFolder::~RunFolder() {
  std::error_code none;  // a run that was refused before it began
  if (fs::exists(path_ + "/lock", none) && ++fs::directory_iterator(path_, none) == fs::directory_iterator())
    fs::remove(path_ + "/lock", none);
  fs::remove(path_, none);
}

}  // namespace isobar::cli
