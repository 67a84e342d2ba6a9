// Arguments of isobar train.
//
// The step time that a training is compared with as it goes (model/records/advice.h): predicted by --machine,
// or by settings alone with --fit.
//
// Names of run directories: run.out may hold {name} and, in its last part, {n}, the next free number.
//
//   RunFolder folder(spec.run.out, "vit-tiny", false);      // runs/{name}-{n}: makes runs/vit-tiny-3
//   a.set.push_back("run.out=" + folder.path());
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench/cli/words/options.h"
#include "model/base/spec/spec.h"
#include "model/records/advice.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/step/conditions.h"

namespace isobar::cli {

bool names_a_pattern(const std::string& out);
/// Makes the directory of a new run, which no other process then takes; removes it again if it stays empty.
class RunFolder {
 public:
  /// `beside`: out names no pattern, and if it exists, out-2, out-3, … is taken.
  RunFolder(const std::string& out, const std::string& name, bool beside);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

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

std::optional<records::ExpectedStep> expected_on(const perf::Machine& machine, const RunSpec& spec,
                                                 const perf::HostShare& host);
/// The same of a run.command; nothing where neither option is given. Throws ConfigError for the wrong one of
/// the two.
std::optional<records::ExpectedStep> expected_of(const TrainArguments& a, const RunSpec& spec);

}  // namespace isobar::cli
