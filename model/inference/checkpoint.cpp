#include "model/inference/checkpoint.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "model/base/error.h"
#include "model/base/files.h"
#include "model/inference/file_digest.h"
#include "model/inference/params.h"

namespace isobar {
namespace {

namespace fs = std::filesystem;

// Before a parameter's name in the optimizer's file; the words are PyTorch's.
const std::string kFirst = "exp_avg.", kSecond = "exp_avg_sq.", kMomentum = "momentum_buffer.";
constexpr const char *kModel = "model.safetensors", *kOptimizer = "optimizer.safetensors",
                     *kAverage = "average.safetensors";

std::vector<const char*> files_of(const CheckpointState& state) {
  std::vector<const char*> files = {kModel, kOptimizer};
  if (state.spec.train.ema > 0) files.push_back(kAverage);
  return files;
}

// SGD has no second moment.
const std::string& first_of(const float* second) {
  return second ? kFirst : kMomentum;
}

// The state, after all ranks together have compared the digests of these files ({}: all).
CheckpointState read_whole(const fs::path& checkpoint, std::vector<const char*> files, const Meeting& all) {
  CheckpointState state = read_state(checkpoint);
  if (files.empty()) files = files_of(state);
  if (all.rank == 0) check_files(checkpoint, state);
  if (state.checkable())
    for (const char* name : files)
      if (const std::string now = digest_of(checkpoint / name, all);
          all.rank == 0 && now != state.files.at(name).digest)
        throw ConfigError((checkpoint / name).string(), "",
                          "is damaged: its digest is not the one that it was written with",
                          "take another checkpoint");
  all.barrier();  // rank 0 has found nothing
  return state;
}

void sync_directory(const fs::path& dir) {
  OpenFile(dir, O_RDONLY | O_DIRECTORY).sync();
}

}  // namespace

fs::path save_checkpoint(const fs::path& run_dir, const Plan& plan, const float* params, const float* m,
                         const float* v, CheckpointState state, const Meeting& all, const void* params16,
                         const float* average) {
  const int64_t step = state.train.step;
  char name[32];
  std::snprintf(name, sizeof name, "step-%08ld", step);
  const fs::path parent = run_dir / "checkpoints";
  fs::path final = parent / name;
  const fs::path temp = parent / (std::string(name) + ".tmp");
  const fs::path model = temp / kModel, optimizer = temp / kOptimizer, mean = temp / kAverage;
  const Metadata about = {{"format", "pt"}, {"step", std::to_string(step)}};
  std::vector<Tensor> moments = prefixed(trained(plan.tensors), first_of(v));
  if (v)
    for (Tensor& t : prefixed(trained(plan.tensors), kSecond)) moments.push_back(std::move(t));
  if (all.rank == 0) {
    if (fs::exists(final))
      throw ConfigError(final.string(), "", "is another training's checkpoint of this step",
                        "give this run a run.out of its own");
    fs::remove_all(temp);
    fs::create_directories(temp);
    sync_directory(run_dir);  // knows `checkpoints`
    create_safetensors(model, plan.tensors, about);
    create_safetensors(optimizer, moments, about);
    if (average) create_safetensors(mean, trained(plan.tensors), about);
  }
  all.barrier();  // the files are there

  const SafetensorsWriter to_model(model, plan.tensors, about);
  write_weights(plan, to_model, {const_cast<float*>(params), const_cast<void*>(params16)});
  to_model.sync();
  const SafetensorsWriter to_optimizer(optimizer, moments, about);
  write_tensors(plan, to_optimizer, first_of(v), &Shard::moments, m);
  if (v) write_tensors(plan, to_optimizer, kSecond, &Shard::moments, v);
  to_optimizer.sync();
  if (average) {
    const SafetensorsWriter to_mean(mean, trained(plan.tensors), about);
    write_tensors(plan, to_mean, "", &Shard::moments, average);
    to_mean.sync();
  }
  all.barrier();  // everybody's parts are on disk

  std::vector<fs::path> files = {model, optimizer};
  if (average) files.push_back(mean);
  for (const fs::path& file : files)
    state.files[file.filename()] = {static_cast<int64_t>(fs::file_size(file)), digest_of(file, all)};
  if (all.rank == 0) {
    write_atomically(temp / "state.json", text_of(state));  // syncs the directory too
    fs::rename(temp, final);
    sync_directory(parent);
  }
  all.barrier();  // it has its name: who returns may rely on it
  return final;
}

void name_best(const fs::path& checkpoint) {
  const fs::path parent = checkpoint.parent_path(), fresh = parent / "best.tmp";
  fs::remove(fresh);
  fs::create_directory_symlink(checkpoint.filename(), fresh);
  fs::rename(fresh, parent / "best");
  sync_directory(parent);
}

void keep_last(const fs::path& run_dir, int64_t keep) {
  const fs::path parent = run_dir / "checkpoints";
  std::error_code none;
  const fs::path best = fs::read_symlink(parent / "best", none);
  std::vector<fs::path> whole;
  for (const auto& entry : fs::directory_iterator(parent))
    if (!entry.is_symlink() && entry.path().filename().string().starts_with("step-") &&
        entry.path().extension() != ".tmp" && fs::exists(entry.path() / "state.json"))
      whole.push_back(entry.path());
  std::sort(whole.begin(), whole.end());
  for (size_t i = 0; i + static_cast<size_t>(keep) < whole.size(); ++i) {
    if (whole[i].filename() == best) continue;
    // Without its name first: what is half deleted is no checkpoint.
    const fs::path going = whole[i].string() + ".tmp";
    fs::rename(whole[i], going);
    fs::remove_all(going);
  }
  sync_directory(parent);
}

fs::path find_checkpoint(const fs::path& dir, const std::string& option) {
  if (fs::exists(dir / "state.json")) return dir;
  fs::path best;
  if (fs::is_directory(dir / "checkpoints"))
    for (const auto& entry : fs::directory_iterator(dir / "checkpoints"))
      if (entry.path().extension() != ".tmp" && fs::exists(entry.path() / "state.json"))
        if (best.empty() || entry.path().filename() > best.filename()) best = entry.path();
  if (best.empty())
    throw ConfigError(dir.string(), option, "holds no checkpoint",
                      "name a run directory that was trained with train.checkpoint_every");
  return best;
}

void check_files(const fs::path& checkpoint, const CheckpointState& state) {
  const std::string mend = "take another checkpoint";
  for (const char* name : files_of(state)) {
    const fs::path path = checkpoint / name;
    if (!fs::is_regular_file(path)) throw ConfigError(path.string(), "", "is missing", mend);
    if (const auto said = state.files.find(name); said != state.files.end()) {
      const auto bytes = static_cast<int64_t>(fs::file_size(path));
      if (bytes != said->second.bytes)
        throw ConfigError(path.string(), "",
                          "holds " + std::to_string(bytes) + " bytes, and was written with " +
                              std::to_string(said->second.bytes),
                          mend);
    } else if (state.checkable()) {
      throw ConfigError((checkpoint / "state.json").string(), std::string("files.") + name, "is missing",
                        mend);
    }
    const SafetensorsReader file(path);
    const auto step = file.metadata().find("step");
    const std::string now = step == file.metadata().end() ? "none" : step->second;
    if (now != std::to_string(state.train.step))
      throw ConfigError(
          path.string(), "step",
          "is " + now + ", and state.json beside it is of step " + std::to_string(state.train.step),
          "put the files of one checkpoint together, or " + mend);
  }
}

CheckpointState load_checkpoint(const fs::path& checkpoint, const Plan& plan, float* params, float* m,
                                float* v, const Meeting& all, void* params16, float* average) {
  CheckpointState state = read_whole(checkpoint, {}, all);
  load_weights(plan, SafetensorsReader(checkpoint / kModel), "", {params, params16});
  const SafetensorsReader moments(checkpoint / kOptimizer);
  load_tensors(plan, moments, first_of(v), &Shard::moments, m);
  if (v) load_tensors(plan, moments, kSecond, &Shard::moments, v);
  if (average) load_tensors(plan, SafetensorsReader(checkpoint / kAverage), "", &Shard::moments, average);
  return state;
}

void load_first_weights(const fs::path& from, const Plan& plan, float* params, void* params16,
                        const Meeting& all) {
  fs::path weights = from;
  if (!fs::is_regular_file(from)) {
    const fs::path checkpoint = find_checkpoint(from, "train.init_from");
    read_whole(checkpoint, {kModel}, all);
    weights = checkpoint / kModel;
  }
  load_weights(plan, SafetensorsReader(weights), "", {params, params16}, Absent::adapters_stay);
}

}  // namespace isobar
