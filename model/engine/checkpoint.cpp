#include "model/engine/checkpoint.h"

#include <fcntl.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/base/files.h"
#include "model/engine/params.h"

namespace isobar {
namespace {

namespace fs = std::filesystem;

// Before a parameter's name in the optimizer's file; the words are PyTorch's.
const std::string kFirst = "exp_avg.", kSecond = "exp_avg_sq.", kMomentum = "momentum_buffer.";

// SGD has no second moment.
const std::string& first_of(const float* second) {
  return second ? kFirst : kMomentum;
}

void sync_directory(const fs::path& dir) {
  OpenFile(dir, O_RDONLY | O_DIRECTORY).sync();
}

nlohmann::json to_json(const Plateau& p) {
  nlohmann::json j = {{"bad", p.bad}, {"cooldown", p.cooldown}, {"factor", p.factor}};
  if (std::isfinite(p.best)) j["best"] = p.best;  // JSON has no infinity: absent before the first validation
  return j;
}

Plateau plateau_of(const nlohmann::json& j) {
  const Plateau p;
  return {j.value("best", p.best), j.value("bad", p.bad), j.value("cooldown", p.cooldown),
          j.value("factor", p.factor)};
}

}  // namespace

fs::path save_checkpoint(const fs::path& run_dir, const Plan& plan, const float* params, const float* m,
                         const float* v, const TrainState& state, const Meeting& all) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%08ld", state.step);
  const fs::path parent = run_dir / "checkpoints";
  fs::path final = parent / name;
  // A resumed run comes past its own checkpoints again, with the same content. Rank 0 decides for all:
  // another rank's file system may show the directory later.
  if (all.from_first(fs::exists(final) ? "exists" : "") == "exists") return final;

  const fs::path temp = parent / (std::string(name) + ".tmp");
  const fs::path model = temp / "model.safetensors", optimizer = temp / "optimizer.safetensors";
  const Metadata about = {{"format", "pt"}, {"step", std::to_string(state.step)}};
  std::vector<Tensor> moments = prefixed(plan.tensors, first_of(v));
  if (v)
    for (Tensor& t : prefixed(plan.tensors, kSecond)) moments.push_back(std::move(t));
  if (all.rank == 0) {
    fs::remove_all(temp);
    fs::create_directories(temp);
    create_safetensors(model, plan.tensors, about);
    create_safetensors(optimizer, moments, about);
  }
  all.barrier();  // the files are there

  const SafetensorsWriter to_model(model, plan.tensors, about);
  write_tensors(plan, to_model, "", &Shard::params, params);
  to_model.sync();
  const SafetensorsWriter to_optimizer(optimizer, moments, about);
  write_tensors(plan, to_optimizer, first_of(v), &Shard::moments, m);
  if (v) write_tensors(plan, to_optimizer, kSecond, &Shard::moments, v);
  to_optimizer.sync();
  all.barrier();  // everybody's parts are on disk

  if (all.rank == 0) {
    nlohmann::json j = {{"schema", 1},
                        {"step", state.step},
                        {"seed", state.seed},
                        {"global_batch", state.global_batch},
                        {"plateau", to_json(state.plateau)}};
    if (state.loss_scale > 0)
      j.update(
          {{"updates", state.updates}, {"loss_scale", state.loss_scale}, {"good_steps", state.good_steps}});
    write_atomically(temp / "state.json", j.dump(1) + "\n");  // syncs the directory too
    fs::rename(temp, final);
    sync_directory(parent);
  }
  all.barrier();  // it has its name: who returns may rely on it
  return final;
}

fs::path find_checkpoint(const fs::path& dir) {
  if (fs::exists(dir / "state.json")) return dir;
  fs::path best;
  if (fs::is_directory(dir / "checkpoints"))
    for (const auto& entry : fs::directory_iterator(dir / "checkpoints"))
      if (entry.path().extension() != ".tmp" && fs::exists(entry.path() / "state.json"))
        if (best.empty() || entry.path().filename() > best.filename()) best = entry.path();
  if (best.empty())
    throw ConfigError(dir.string(), "--resume", "holds no checkpoint",
                      "name a run directory that was trained with train.checkpoint_every");
  return best;
}

TrainState load_checkpoint(const fs::path& checkpoint, const Plan& plan, float* params, float* m, float* v) {
  const fs::path file = checkpoint / "state.json";
  const nlohmann::json j = nlohmann::json::parse(read_file(file), nullptr, false);
  if (!j.is_object() || !j.contains("step") || !j["step"].is_number_integer())
    throw ConfigError(file.string(), "step", "cannot be read", "take another checkpoint");
  load_tensors(plan, SafetensorsReader(checkpoint / "model.safetensors"), "", &Shard::params, params);
  const SafetensorsReader moments(checkpoint / "optimizer.safetensors");
  load_tensors(plan, moments, first_of(v), &Shard::moments, m);
  if (v) load_tensors(plan, moments, kSecond, &Shard::moments, v);
  const int64_t step = j["step"];
  return {step,
          j.value("seed", int64_t{0}),
          j.value("global_batch", int64_t{0}),
          j.value("updates", step),
          j.value("loss_scale", 0.0),
          j.value("good_steps", int64_t{0}),
          plateau_of(j.value("plateau", nlohmann::json::object()))};
}

}  // namespace isobar
