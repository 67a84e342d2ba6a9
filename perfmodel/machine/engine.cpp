#include "perfmodel/machine/engine.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "model/base/error.h"
#include "model/base/names/did_you_mean.h"
#include "model/base/text/yaml.h"
#include "perfmodel/machine/coefficient.h"
#include "perfmodel/machine/name_words.h"
#include "perfmodel/machine/shipped.h"

namespace isobar::perf {
namespace {

using nlohmann::json;

/// One map of an engine's file; checks keys and types.
class Section {
 public:
  Section(const json& j, std::string file, std::string key, const std::vector<std::string>& allowed)
      : j_(j), file_(std::move(file)), key_(std::move(key)) {
    if (!j_.is_object()) fail("", "is not a map of keys", "see configs/engines/nemo.yaml");
    for (const auto& [name, value] : j_.items())
      if (std::find(allowed.begin(), allowed.end(), name) == allowed.end())
        fail(name, "is not a known key", "did you mean " + nearest(name, allowed) + "?");
  }
  [[noreturn]] void fail(const std::string& key, const std::string& what, const std::string& mend) const {
    throw ConfigError(file_, key_.empty() || key.empty() ? key_ + key : key_ + "." + key, what, mend);
  }
  const json& at(const std::string& key, const std::string& mend) const {
    if (!j_.contains(key)) fail(key, "is missing", mend);
    return j_.at(key);
  }
  bool has(const std::string& key) const { return j_.contains(key); }
  Section section(const std::string& key, const std::vector<std::string>& allowed) const {
    return {at(key, "give a map of keys"), file_, key_.empty() ? key : key_ + "." + key, allowed};
  }
  double number(const std::string& key, double least, double most) const {
    const std::string mend = "give a number from " + json(least).dump() + " to " + json(most).dump();
    const json& v = at(key, mend);
    if (!v.is_number() || !(v.get<double>() >= least && v.get<double>() <= most))
      fail(key, "is no such number", mend);
    return v.get<double>();
  }
  bool yes(const std::string& key) const {
    const json& v = at(key, "write true or false");
    if (!v.is_boolean()) fail(key, "is neither true nor false", "write true or false");
    return v.get<bool>();
  }
  std::vector<std::string> words(const std::string& key) const {
    const json& v = at(key, "give a list of words, [] for none");
    std::vector<std::string> out;
    if (!v.is_array()) fail(key, "is no list", "give a list of words, [] for none");
    for (const json& w : v) {
      if (!w.is_string()) fail(key, "holds what is no word", "give a list of words");
      out.push_back(w.get<std::string>());
    }
    return out;
  }

 private:
  const json& j_;
  std::string file_, key_;
};

MemoryHabits memory_of(const Section& engine) {
  const Section s =
      engine.section("memory", {"fp16_gradients", "bf16_gradients", "optimizer", "buckets", "stage_copies"});
  const auto bytes = [&](const char* key, double most) { return s.has(key) ? s.number(key, 0, most) : 0; };
  return {bytes("fp16_gradients", 16), bytes("bf16_gradients", 16), bytes("optimizer", 64),
          bytes("buckets", 1e12), s.has("stage_copies") && s.yes("stage_copies")};
}

Habits habits_of(const Section& s) {
  const std::vector<std::string> known = {"tensor", "pipeline", "gradients"};
  const std::vector<std::string> named = s.words("overlaps");
  for (const std::string& w : named)
    if (std::find(known.begin(), known.end(), w) == known.end())
      s.fail("overlaps", "'" + w + "' is nothing that is overlapped", "use tensor, pipeline, gradients");
  const auto has = [&](const char* w) { return std::find(named.begin(), named.end(), w) != named.end(); };
  return {has("tensor"),
          has("pipeline"),
          has("gradients"),
          s.has("sequence_parallel") && s.yes("sequence_parallel"),
          s.has("autocast") && s.yes("autocast"),
          s.has("tensor_traffic") ? s.number("tensor_traffic", 0.25, 8) : 1,
          s.has("compiled") && s.yes("compiled"),
          s.has("hopper_attention") && s.yes("hopper_attention"),
          s.has("device_memory") && s.yes("device_memory"),
          s.has("selective_operators") && s.yes("selective_operators"),
          s.has("eager_loss") && s.yes("eager_loss"),
          s.has("fully_sharded") && s.yes("fully_sharded"),
          s.has("ends_in_root") && s.yes("ends_in_root"),
          s.has("norms_apart") && s.yes("norms_apart"),
          s.has("parameter_gathers") && s.yes("parameter_gathers"),
          s.has("own_collectives") && s.yes("own_collectives"),
          s.has("memory") ? memory_of(s) : MemoryHabits{}};
}

std::map<std::string, double> prices_of(const Section& kernels, const json& j, const std::string& file,
                                        const std::string& device) {
  std::vector<std::string> known{"passes", "launches"};
  for (size_t i = 0; i < kCoefs; ++i) known.emplace_back(info_of(i).name);
  const Section s(kernels.at(device, "map coefficients to factors, {norm: 1.5}"), file, "kernels." + device,
                  known);
  std::map<std::string, double> out;
  for (const auto& [name, value] : j.at(device).items()) out[name] = s.number(name, 1e-9, 1e3);
  return out;
}

EngineKernels kernels_of(const json& j, const std::string& file) {
  const Section s(j, file, "kernels", {"accelerators", "cores", "heads", "spread"});
  EngineKernels k{
      prices_of(s, j, file, "accelerators"), prices_of(s, j, file, "cores"), {}, s.number("spread", 0.01, 2)};
  const std::string mend = "map head sizes to shares of the peak, {64: [0.4, 0.4]}";
  for (const auto& [size, shares] : s.at("heads", mend).items()) {
    const int64_t width = std::atoll(size.c_str());
    if (width <= 0 || !shares.is_array() || shares.size() != 2 || !shares[0].is_number() ||
        !shares[1].is_number() || !(shares[0] > 0) || !(shares[1] > 0) || shares[0] > 1 || shares[1] > 1)
      s.fail("heads." + size, "is no pair of shares of a head size", mend);
    k.heads[width] = {shares[0].get<double>(), shares[1].get<double>()};
  }
  return k;
}

std::vector<ForeignEngine> engines_in(const std::string& folder) {
  std::vector<ForeignEngine> out;
  std::set<std::string> taken;
  for (const std::string& file : files_in(folder, ".yaml")) {
    out.push_back(load_engine(file));
    for (const auto& [c, tuned] : out.back().campaigns)
      if (!taken.insert(c).second)
        throw ConfigError(file, "campaigns", "'" + c + "' is another engine's", "leave it to one of them");
  }
  return out;
}

}  // namespace

ForeignEngine load_engine(const std::string& path) {
  const json j = load_yaml(path);
  const Section s(j, path, "",
                  {"called",
                   "family",
                   "campaigns",
                   "tuned",
                   "overlaps",
                   "sequence_parallel",
                   "autocast",
                   "tensor_traffic",
                   "compiled",
                   "hopper_attention",
                   "device_memory",
                   "selective_operators",
                   "eager_loss",
                   "fully_sharded",
                   "ends_in_root",
                   "norms_apart",
                   "parameter_gathers",
                   "own_collectives",
                   "memory",
                   "axes",
                   "kernels",
                   "provenance"});
  ForeignEngine e;
  e.name = std::filesystem::path(path).stem().string();
  e.file = path;
  const json& family = s.at("family", "name those with which it shares most of its code, or itself");
  if (!family.is_string()) s.fail("family", "is no word", "name it");
  e.family = family.get<std::string>();
  if (s.has("called")) e.called = s.words("called");
  const json& campaigns = s.at("campaigns", "map each to how tuned it is, {mlperf: 0.95}; {} for none");
  if (!campaigns.is_object()) s.fail("campaigns", "is no map", "map each to how tuned it is, {mlperf: 0.95}");
  for (const auto& [campaign, tuned] : campaigns.items()) {
    if (!tuned.is_number() || !(tuned >= 0 && tuned <= 1))
      s.fail("campaigns." + campaign, "is no number from 0 to 1", "0: research code, 1: a tuned submission");
    e.campaigns[campaign] = tuned.get<double>();
  }
  const json& tuned = s.at("tuned", "give {mean: 0.5, sigma: 0.2}; 0: research code, 1: a tuned submission");
  const Section t(tuned, path, "tuned", {"mean", "sigma"});
  e.tuned = {t.number("mean", 0, 1), t.number("sigma", 0.01, 1)};
  e.habits = habits_of(s);
  const json& axes = s.at("axes", "say which it has: {dp: true, tp: true, …, zero: [0, 1]}");
  const Section a(axes, path, "axes", {"dp", "tp", "cp", "pp", "vpp", "ep", "offload", "zero"});
  if (s.has("kernels")) e.kernels = kernels_of(j.at("kernels"), path);
  e.axes = {a.yes("dp"),  a.yes("tp"), a.yes("cp"),      a.yes("pp"),
            a.yes("vpp"), a.yes("ep"), a.yes("offload"), {}};
  const json& stages = a.at("zero", "list the ZeRO stages it has, e.g. [0, 1]");
  if (!stages.is_array() || stages.empty()) a.fail("zero", "is no list", "list ZeRO stages, e.g. [0, 1]");
  for (const json& z : stages) {
    if (!z.is_number_integer() || z < 0 || z > 3) a.fail("zero", "holds no ZeRO stage", "use 0, 1, 2, 3");
    e.axes.zero.push_back(z.get<int>());
  }
  return e;
}

const std::vector<ForeignEngine>& shipped_engines() {
  static const std::vector<ForeignEngine> engines = engines_in(shipped("configs/engines"));
  return engines;
}

const ForeignEngine& engine_named(const std::string& name) {
  std::string all;
  for (const ForeignEngine& e : shipped_engines()) {
    if (e.name == name) return e;
    all += (all.empty() ? "" : ", ") + e.name;
  }
  throw ConfigError("--engine", "", "'" + name + "' is in no file of configs/engines",
                    "use isobar, " + all + " or unknown");
}

const ForeignEngine* engine_of(const std::string& campaign) {
  for (const ForeignEngine& e : shipped_engines())
    if (e.campaigns.contains(campaign)) return &e;
  return nullptr;
}

const ForeignEngine* engine_called(const std::string& framework) {
  const NameWords words = name_words(framework, true);
  const ForeignEngine* found = nullptr;
  size_t longest = 0;
  for (const ForeignEngine& e : shipped_engines())
    for (const std::string& name : e.called) {
      const NameWords own = name_words(name);
      if (!std::includes(words.begin(), words.end(), own.begin(), own.end())) continue;
      if (own.size() > longest)
        found = &e;
      else if (own.size() == longest && found != &e)
        found = nullptr;
      longest = std::max(longest, own.size());
    }
  return found;
}

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const ForeignEngine& e : shipped_engines()) names.push_back(e.name);
  return names;
}

Tuned tuned_of(const std::string& campaign, const ForeignEngine* engine) {
  if (!engine) return {};
  const auto own = engine->campaigns.find(campaign);
  return own == engine->campaigns.end() ? engine->tuned : Tuned{own->second, engine->tuned.sigma};
}

}  // namespace isobar::perf
