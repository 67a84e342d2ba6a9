#include "model/inference/weights/open_checkpoint.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <thread>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/inference/weights/file_digest.h"

namespace isobar::inference {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> files_of(const CheckpointState& state) {
  std::vector<std::string> files = {kModelFile, kOptimizerFile};
  if (state.spec.train.ema > 0) files.emplace_back(kAverageFile);
  return files;
}

std::vector<std::string> files_of(const CheckpointState& state, CheckpointPart part) {
  if (part == CheckpointPart::all) return files_of(state);
  std::vector<std::string> files = {kModelFile};
  if (part == CheckpointPart::weights && state.spec.train.ema_valid) files.emplace_back(kAverageFile);
  return files;
}

std::string without_mend(const std::string& line) {
  return line.substr(0, line.rfind(" -> "));
}

DamagedCheckpoint damaged(const fs::path& file, const std::string& key, const std::string& what) {
  return DamagedCheckpoint(ConfigError(file.string(), key, what, "").what());
}

CheckpointState named_state(const fs::path& checkpoint) {
  if (!fs::exists(checkpoint / "state.json")) throw damaged(checkpoint / "state.json", "", "is missing");
  CheckpointState state = read_state(checkpoint);
  const int64_t named = step_named(checkpoint), step = state.train.step;
  if (named < 0 || named == step) return state;
  throw damaged(checkpoint, "step",
                "is " + std::to_string(step) + " inside it, and " + std::to_string(named) +
                    " by its name: it was renamed from " + checkpoint_name(step));
}

void check_step(const fs::path& path, int64_t expected) {
  std::string now = "none";
  try {
    const SafetensorsReader file(path);
    const auto step = file.metadata().find("step");
    if (step != file.metadata().end()) now = step->second;
  } catch (const ConfigError& e) {
    throw DamagedCheckpoint(without_mend(e.what()));
  }
  if (now != std::to_string(expected))
    throw damaged(path, "step",
                  "is " + now + ", and state.json beside it is of step " + std::to_string(expected));
}

void files_fit(const fs::path& checkpoint, const CheckpointState& state) {
  for (const std::string& name : files_of(state)) {
    const fs::path path = checkpoint / name;
    if (!fs::is_regular_file(path)) throw damaged(path, "", "is missing");
    const InputFile may_be_read(path);
    if (const auto said = state.files.find(name); said != state.files.end()) {
      if (may_be_read.size() != said->second.bytes)
        throw damaged(path, "",
                      "holds " + std::to_string(may_be_read.size()) + " bytes, and was written with " +
                          std::to_string(said->second.bytes));
    } else if (state.checkable()) {
      throw damaged(checkpoint / "state.json", "files." + name, "is missing");
    }
    check_step(path, state.train.step);
  }
}

/// Collective: returns on rank 0 the error for the first file whose bytes have changed.
std::optional<DamagedCheckpoint> changed_file(const fs::path& checkpoint, const CheckpointState& state,
                                              CheckpointPart part, const Meeting& all) {
  if (!state.checkable()) return std::nullopt;
  std::optional<DamagedCheckpoint> first;
  for (const std::string& name : files_of(state, part))
    if (const std::string now = digest_of(checkpoint / name, all);
        all.rank == 0 && !first && now != state.files.at(name).digest)
      first =
          damaged(checkpoint / name, "", "is damaged: its digest is not the one that it was written with");
  return first;
}

Meeting alone() {
  Meeting one;
  one.threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 16u));
  return one;
}

std::optional<DamagedCheckpoint> looked_at(const fs::path& checkpoint) {
  try {
    const CheckpointState state = named_state(checkpoint);
    files_fit(checkpoint, state);
    return changed_file(checkpoint, state, CheckpointPart::all, alone());
  } catch (const DamagedCheckpoint& e) {
    return e;
  }
}

bool in_a_run(const fs::path& checkpoint) {
  std::error_code none;
  return fs::weakly_canonical(checkpoint, none).parent_path().filename() == "checkpoints";
}

/// The last checkpoint in the same run from which a training can continue.
std::optional<fs::path> last_whole_beside(const fs::path& checkpoint) {
  std::error_code none;
  if (!in_a_run(checkpoint)) return std::nullopt;
  const fs::path own = fs::weakly_canonical(checkpoint, none);
  std::vector<fs::path> others = checkpoints_of(own.parent_path().parent_path());
  std::reverse(others.begin(), others.end());
  for (const fs::path& other : others) try {
      if (other != own && !looked_at(other)) return other;
    } catch (const ConfigError&) {
      continue;  // of another version: not one to recommend
    }
  return std::nullopt;
}

// The path in the caller's spelling, without resolved links
fs::path shown(const fs::path& found, const fs::path& checkpoint) {
  const fs::path given = checkpoint.has_filename() ? checkpoint : checkpoint.parent_path();
  return given.has_parent_path() && step_named(given) >= 0 ? given.parent_path() / found.filename() : found;
}

/// The same error with a fix.
DamagedCheckpoint advised(const DamagedCheckpoint& e, const fs::path& checkpoint) {
  std::string mend = "take another checkpoint";
  if (const auto whole = last_whole_beside(checkpoint)) {
    const std::string name = shown(*whole, checkpoint).string();
    mend = "take " + name + ", the last whole one: isobar train CONFIG --resume " + name +
           " goes on from it and sets this one aside";
  } else if (in_a_run(checkpoint)) {
    mend = "no other checkpoint of this run is whole: train it anew, with a run.out of its own";
  }
  DamagedCheckpoint out(without_mend(e.what()) + " -> " + mend);
  out.checkpoint = checkpoint;
  return out;
}

}  // namespace

fs::path find_checkpoint(const fs::path& dir, const std::string& option) {
  if (fs::exists(dir / "state.json")) return dir;
  const std::vector<fs::path> all = checkpoints_of(dir);
  if (!all.empty()) return all.back();
  std::error_code none;
  if (step_named(dir) >= 0 && fs::is_directory(dir, none) && in_a_run(dir))
    throw advised(damaged(dir / "state.json", "", "is missing"), dir);
  if (!fs::exists(dir, none))
    throw ConfigError(dir.string(), option, "holds no checkpoint: there is no such file or directory",
                      "check the path (relative paths start in the working directory)");
  const bool aside = any_set_aside(dir);
  throw ConfigError(dir.string(), option,
                    aside ? "holds no whole checkpoint: damaged ones were set aside (checkpoints/*.damaged)"
                          : "holds no checkpoint",
                    aside ? "train it anew, with a run.out of its own"
                          : "name a run directory that was trained with train.checkpoint_every");
}

CheckpointState state_of(const fs::path& checkpoint) {
  try {
    return named_state(checkpoint);
  } catch (const DamagedCheckpoint& e) {
    throw advised(e, checkpoint);
  }
}

void check_files(const fs::path& checkpoint, const CheckpointState& state) {
  try {
    files_fit(checkpoint, state);
  } catch (const DamagedCheckpoint& e) {
    throw advised(e, checkpoint);
  }
}

OpenCheckpoint::OpenCheckpoint(const fs::path& checkpoint, CheckpointPart part, const Meeting& all)
    : path_(checkpoint) {
  std::optional<DamagedCheckpoint> why;
  const auto opened = if_whole(checkpoint, part, all, why);
  if (why) throw DamagedCheckpoint(*why);
  if (!opened) {
    all.barrier();  // rank 0 throws and ends the run
    throw std::logic_error("rank 0 went on from a damaged checkpoint");
  }
  if (all.rank == 0 && !opened->state().checkable())
    std::fprintf(stderr,
                 "isobar: %s was written before checkpoints carried digests: its bytes are not checked\n",
                 checkpoint.c_str());
  *this = *opened;
}

std::shared_ptr<const OpenCheckpoint> OpenCheckpoint::if_whole(const fs::path& checkpoint,
                                                               CheckpointPart part, const Meeting& all,
                                                               std::optional<DamagedCheckpoint>& why) {
  const auto whole = [&] { return all.from_first(why ? "damaged" : "whole") == "whole"; };
  CheckpointState state;
  if (all.rank == 0) try {
      state = named_state(checkpoint);
      files_fit(checkpoint, state);
    } catch (const DamagedCheckpoint& e) {
      why = advised(e, checkpoint);
    }
  if (!whole()) return nullptr;
  if (all.rank != 0) state = named_state(checkpoint);
  if (const auto changed = changed_file(checkpoint, state, part, all)) why = advised(*changed, checkpoint);
  if (!whole()) return nullptr;
  return std::shared_ptr<const OpenCheckpoint>(new OpenCheckpoint(checkpoint, std::move(state), part));
}

OpenCheckpoint::OpenCheckpoint(const fs::path& checkpoint, CheckpointState state, CheckpointPart part)
    : path_(checkpoint), state_(std::move(state)) {
  for (const std::string& name : files_of(state_, part)) {
    auto reader = std::make_shared<const SafetensorsReader>(checkpoint / name);
    (name == kModelFile ? model_ : name == kAverageFile ? average_ : optimizer_) = std::move(reader);
  }
}

OpenCheckpoint::Reader OpenCheckpoint::file(const std::string& name) const {
  return name == kModelFile       ? model_
         : name == kOptimizerFile ? optimizer_
         : name == kAverageFile   ? average_
                                  : nullptr;
}

std::optional<std::string> damage_of(const fs::path& checkpoint) {
  const auto why = looked_at(checkpoint);
  return why ? std::optional<std::string>(why->what()) : std::nullopt;
}

fs::path set_aside(const fs::path& checkpoint, const std::string& why) {
  const fs::path to = name_set_aside(checkpoint);
  fs::rename(checkpoint, to);
  OpenFile(checkpoint.parent_path(), O_RDONLY | O_DIRECTORY).sync();
  std::fprintf(stderr, "isobar: %s; set aside as %s\n", without_mend(why).c_str(), to.filename().c_str());
  return to;
}

}  // namespace isobar::inference
