#include "model/inference/weights/checkpoint.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <vector>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/inference/weights/file_digest.h"
#include "model/inference/weights/params.h"
#include "model/nets/transformer/adapter.h"

namespace isobar::inference {
namespace {

namespace fs = std::filesystem;

// Prefixes of parameter names in the optimizer's file, from PyTorch.
const std::string kFirst = "exp_avg.", kSecond = "exp_avg_sq.", kMomentum = "momentum_buffer.";
// SGD has no second moment.
const std::string& first_of(const float* second) {
  return second ? kFirst : kMomentum;
}

void sync_directory(const fs::path& dir) {
  OpenFile(dir, O_RDONLY | O_DIRECTORY).sync();
}

/// Throws for weights in the file that the net does not have; counters are passed over.
void refuse_other_weights(const plan::Plan& plan, const SafetensorsReader& file) {
  std::set<std::string> own;
  for (const plan::Tensor& t : plan.tensors) own.insert(t.name);
  for (const auto& [name, t] : file.tensors()) {
    if (!t.floating() || own.contains(name)) continue;
    const bool adapter = name.ends_with(nets::kLoraA) || name.ends_with(nets::kLoraB);
    throw ConfigError(file.path().string(), name, "is nothing that this net has",
                      adapter ? "set train.lora_rank as there, or merge the adapters: isobar export"
                              : "train the net that the file is of, or leave the tensor out of the file");
  }
}

}  // namespace

fs::path save_checkpoint(const fs::path& run_dir, const plan::Plan& plan, const float* params, const float* m,
                         const float* v, CheckpointState state, const Meeting& all, const void* params16,
                         const float* average) {
  const int64_t step = state.train.step;
  const std::string name = checkpoint_name(step);
  const fs::path parent = run_dir / "checkpoints";
  fs::path final = parent / name;
  const fs::path temp = parent / (name + ".tmp");
  const fs::path model = temp / kModelFile, optimizer = temp / kOptimizerFile, mean = temp / kAverageFile;
  const Metadata about = {{"format", "pt"}, {"step", std::to_string(step)}};
  std::vector<plan::Tensor> moments = prefixed(trained(plan.tensors), first_of(v));
  if (v)
    for (plan::Tensor& t : prefixed(trained(plan.tensors), kSecond)) moments.push_back(std::move(t));
  if (all.rank == 0) {
    if (fs::exists(final))
      throw ConfigError(final.string(), "", "is another training's checkpoint of this step",
                        "give this run a run.out of its own");
    fs::remove_all(temp);
    fs::create_directories(temp);
    sync_directory(run_dir);  // makes the entry `checkpoints` durable
    create_safetensors(model, plan.tensors, about);
    create_safetensors(optimizer, moments, about);
    if (average) create_safetensors(mean, trained(plan.tensors), about);
  }
  all.barrier();  // the files exist

  const SafetensorsWriter to_model(model, plan.tensors, about);
  write_weights(plan, to_model, {const_cast<float*>(params), const_cast<void*>(params16)});
  to_model.sync();
  const SafetensorsWriter to_optimizer(optimizer, moments, about);
  write_tensors(plan, to_optimizer, first_of(v), &plan::Shard::moments, m);
  if (v) write_tensors(plan, to_optimizer, kSecond, &plan::Shard::moments, v);
  to_optimizer.sync();
  if (average) {
    const SafetensorsWriter to_mean(mean, trained(plan.tensors), about);
    write_tensors(plan, to_mean, "", &plan::Shard::moments, average);
    to_mean.sync();
  }
  all.barrier();  // all parts are on disk

  std::vector<fs::path> files = {model, optimizer};
  if (average) files.push_back(mean);
  for (const fs::path& file : files)
    state.files[file.filename()] = {static_cast<int64_t>(fs::file_size(file)), digest_of(file, all)};
  if (all.rank == 0) {
    write_atomically(temp / "state.json", text_of(state));  // also syncs the directory
    fs::rename(temp, final);
    sync_directory(parent);
  }
  all.barrier();  // the checkpoint is visible when any rank returns
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
  const std::vector<fs::path> whole = checkpoints_of(run_dir);
  for (size_t i = 0; i + static_cast<size_t>(keep) < whole.size(); ++i) {
    if (whole[i].filename() == best) continue;
    // Rename first, so that a half deleted directory is not taken for a checkpoint.
    const fs::path going = whole[i].string() + ".tmp";
    fs::rename(whole[i], going);
    fs::remove_all(going);
  }
  sync_directory(parent);
}

void load_checkpoint(const OpenCheckpoint& checkpoint, const plan::Plan& plan, float* params, float* m,
                     float* v, void* params16, float* average) {
  load_weights(plan, *checkpoint.model(), "", {params, params16});
  load_tensors(plan, *checkpoint.optimizer(), first_of(v), &plan::Shard::moments, m);
  if (v) load_tensors(plan, *checkpoint.optimizer(), kSecond, &plan::Shard::moments, v);
  if (!average) return;
  if (!checkpoint.average())
    throw ConfigError(checkpoint.path().string(), "train.ema",
                      "is set, and the checkpoint has no moving average", "resume with the same train.ema");
  load_tensors(plan, *checkpoint.average(), "", &plan::Shard::moments, average);
}

CheckpointState load_checkpoint(const fs::path& checkpoint, const plan::Plan& plan, float* params, float* m,
                                float* v, const Meeting& all, void* params16, float* average) {
  const OpenCheckpoint opened(checkpoint, CheckpointPart::all, all);
  load_checkpoint(opened, plan, params, m, v, params16, average);
  return opened.state();
}

void load_first_weights(const fs::path& from, const plan::Plan& plan, float* params, void* params16,
                        const Meeting& all) {
  const auto take = [&](const SafetensorsReader& file) {
    load_weights(plan, file, "", {params, params16}, Absent::adapters_stay);
    refuse_other_weights(plan, file);
  };
  if (!fs::is_regular_file(from))
    return take(
        *OpenCheckpoint(find_checkpoint(from, "train.init_from"), CheckpointPart::model, all).model());
  if (!fs::exists(from.parent_path() / "state.json")) return take(SafetensorsReader(from));
  const OpenCheckpoint of(from.parent_path(), CheckpointPart::all, all);
  const OpenCheckpoint::Reader file = of.file(from.filename().string());
  file ? take(*file) : take(SafetensorsReader(from));  // another file in a checkpoint's directory
}

}  // namespace isobar::inference
