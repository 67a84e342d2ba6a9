#include "model/engine/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>

#include "model/base/error.h"
#include "model/base/files.h"
#include "model/engine/params.h"

namespace isobar {
namespace {

namespace fs = std::filesystem;

void sync_directory(const fs::path& dir) {
  const int fd = ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 || ::fsync(fd) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot sync " + dir.string());
  ::close(fd);
}

}  // namespace

fs::path save_checkpoint(const fs::path& run_dir, const Plan& plan, const float* params, const float* m,
                         const float* v, const TrainState& state) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%08ld", state.step);
  const fs::path parent = run_dir / "checkpoints";
  fs::path final = parent / name;
  if (fs::exists(final))
    return final;  // a resumed run comes past its own checkpoints again, with the same content
  const fs::path temp = parent / (std::string(name) + ".tmp");
  fs::remove_all(temp);
  fs::create_directories(temp);
  const std::map<std::string, std::string> about = {{"format", "pt"}, {"step", std::to_string(state.step)}};
  write_safetensors(temp / "model.safetensors", named_tensors(plan, params), about);
  std::vector<TensorView> moments = named_tensors(plan, m, "exp_avg.");
  for (TensorView& t : named_tensors(plan, v, "exp_avg_sq.")) moments.push_back(std::move(t));
  write_safetensors(temp / "optimizer.safetensors", moments, about);
  const nlohmann::json j = {
      {"schema", 1}, {"step", state.step}, {"seed", state.seed}, {"global_batch", state.global_batch}};
  write_atomically(temp / "state.json", j.dump(1) + "\n");
  fs::rename(temp, final);
  sync_directory(parent);
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
  const fs::path model = checkpoint / "model.safetensors", optimizer = checkpoint / "optimizer.safetensors";
  load_tensors(plan, read_safetensors(model), model.string(), "", params);
  const TensorFile moments = read_safetensors(optimizer);
  load_tensors(plan, moments, optimizer.string(), "exp_avg.", m);
  load_tensors(plan, moments, optimizer.string(), "exp_avg_sq.", v);
  return {j["step"], j.value("seed", int64_t{0}), j.value("global_batch", int64_t{0})};
}

}  // namespace isobar
