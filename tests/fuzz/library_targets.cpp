// The inference library's open(): a changed checkpoint opens or returns an error code with a message. Digests
// detect nearly every change, so half of the inputs get matching digests, as a malicious author would write
// them.
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/hash.h"
#include "model/inference/arena.h"
#include "model/inference/library/isobar.h"
#include "model/inference/weights/checkpoint.h"
#include "model/inference/weights/file_digest.h"
#include "model/inference/weights/params.h"
#include "model/nets/build.h"
#include "tests/fuzz/fuzz.h"

namespace isobar::fuzz {
namespace {

namespace fs = std::filesystem;

// Turns the library's error code into an exception, as other readers throw
void open_net(const fs::path& checkpoint) {
  isobar_net* net = nullptr;
  const int code = isobar_open(checkpoint.c_str(), nullptr, &net);
  const std::string text = isobar_last_error();
  if (code == ISOBAR_OK) {
    const isobar_shape a = isobar_input_shape(net), b = isobar_output_shape(net);
    const std::vector<float> in(a.channels * a.height * a.width, 0.5f);
    std::vector<float> out(b.channels * b.height * b.width);
    const int ran = isobar_run(net, 1, in.data(), out.data());
    isobar_close(net);
    if (ran != ISOBAR_OK)
      throw std::runtime_error(std::string("opened, does not run: ") + isobar_last_error());
    return;
  }
  if (net != nullptr) throw std::runtime_error("refused, and yet there is a net");
  if (text.empty()) throw std::runtime_error("code " + std::to_string(code) + " without a text");
  if (code == ISOBAR_BAD_INPUT) throw ConfigError::from_line(text);
  if (code != ISOBAR_OUT_OF_MEMORY)  // returned for nets that are too large
    throw std::runtime_error("code " + std::to_string(code) + ": " + text);
}

bool with_digests(const std::string& bytes) {
  return std::hash<std::string>{}(bytes) % 2 == 0;
}

fs::path saved_net(const fs::path& folder) {
  const RunSpec spec = run_spec_from_json({{"net",
                                            {{"kind", "mlp"},
                                             {"in_features", 3},
                                             {"out_features", 2},
                                             {"hidden", {16, 8}},
                                             {"activation", "gelu"}}},
                                           {"train", {{"global_batch", 1}, {"loss", "mse"}}}},
                                          "checkpoint");
  const plan::Plan plan = nets::build_plan(spec, 0, {});
  const inference::Arena arena(plan.memory.arena);
  const auto at = [&](const plan::View& v) {
    return reinterpret_cast<float*>(arena.data() + plan.buffers[v.buffer].offset) + v.offset;
  };
  inference::init_params(plan, 1, at(plan.params_all));
  const inference::NetChannels channels{{{"a", "m", 1, 2}, {"b", "", 0, 1}, {"c", "K", 280, 20}},
                                        {{"y", "W", -1, 3}, {"z", "", 0, 1}}};
  return inference::save_checkpoint(folder, plan, at(plan.params_all), at(plan.adam_m), at(plan.adam_v),
                                    {.train = {.step = 2}, .spec = spec, .channels = channels}, {});
}

}  // namespace

std::vector<Target> library_targets(const fs::path& folder) {
  // Two checkpoints: in each one file is mutated and the other must be intact.
  const fs::path text = saved_net(folder / "lib_state"), weights = saved_net(folder / "lib_weights");
  const std::string of_text = read_file(text / "state.json"), of_weights = read_file(weights / "state.json");
  return {{"lib state",
           text.lexically_relative(folder) / "state.json",
           {of_text},
           true,
           [](const std::string& file) {
             const std::string changed = read_file(file);
             auto j = nlohmann::json::parse(changed, nullptr, false);
             if (j.is_object() && with_digests(changed)) {
               j.erase("sha256");
               j["sha256"] = sha256_hex(j.dump());
               put(file, j.dump(1));
             }
             open_net(fs::path(file).parent_path());
           }},
          {"lib weights",
           weights.lexically_relative(folder) / "model.safetensors",
           {read_file(weights / "model.safetensors")},
           false,
           [of_weights](const std::string& file) {
             const fs::path checkpoint = fs::path(file).parent_path();
             put(checkpoint / "state.json", of_weights);
             const std::string changed = read_file(file);
             if (!changed.empty() && with_digests(changed)) {
               inference::CheckpointState state = inference::read_state(checkpoint);
               state.files["model.safetensors"] = {static_cast<int64_t>(changed.size()),
                                                   inference::digest_of(file, {})};
               put(checkpoint / "state.json", inference::text_of(state));
             }
             open_net(checkpoint);
           }}};
}

}  // namespace isobar::fuzz
