#include "model/inference/weights/checkpoint_state.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/hash.h"

namespace isobar::inference {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kTakeAnother = "take another checkpoint";
constexpr int64_t kMostSteps = int64_t{1} << 53;  // integers that JSON readers represent exactly

json to_json(const Plateau& p) {
  json j = {{"bad", p.bad}, {"cooldown", p.cooldown}, {"factor", p.factor}};
  if (std::isfinite(p.best)) j["best"] = p.best;  // JSON has no infinity: absent before the first validation
  return j;
}

json to_json(const EarlyStop& e) {
  json j = {{"bad", e.bad}, {"norms", e.norms}, {"reason", e.reason}};
  if (std::isfinite(e.best)) j["best"] = e.best;
  return j;
}

class Fields {  // reads fields of a JSON object: present, of the right type and within bounds
 public:
  Fields(const json& object, std::string file, std::string within)
      : object_(object), file_(std::move(file)), within_(std::move(within)) {}

  [[noreturn]] void refuse(const std::string& key, const std::string& what) const {
    throw ConfigError(file_, within_ + key, what, kTakeAnother);
  }
  const json& any(const std::string& key) const {
    const auto at = object_.find(key);
    if (at == object_.end()) refuse(key, "is missing");
    return *at;
  }
  Fields object(const std::string& key) const {
    if (!any(key).is_object()) refuse(key, "is " + shown(key) + ", not a map of keys");
    return {any(key), file_, within_ + key + "."};
  }
  std::string word(const std::string& key) const {
    if (!any(key).is_string()) refuse(key, "is " + shown(key) + ", not a word");
    return any(key);
  }
  int64_t count(const std::string& key, int64_t least, int64_t most = kMostSteps) const {
    const json& j = any(key);
    if (!j.is_number_integer()) refuse(key, "is " + shown(key) + ", not a whole number");
    // JSON integers beyond int64_t are stored as unsigned.
    const bool over = j.is_number_unsigned() && j.get<uint64_t>() > static_cast<uint64_t>(most);
    if (over || j.get<int64_t>() < least || j.get<int64_t>() > most)
      refuse(key, "is " + shown(key) + ", not in " + std::to_string(least) + " to " + std::to_string(most));
    return j;
  }
  double number(const std::string& key, double least, double most) const {
    const json& j = any(key);
    if (!j.is_number()) refuse(key, "is " + shown(key) + ", not a number");
    const double x = j;
    if (!(x >= least && x <= most)) refuse(key, "is " + shown(key) + ", which no run writes");
    return x;
  }
  std::vector<double> numbers(const std::string& key, double least, double most) const {
    if (!any(key).is_array()) refuse(key, "is " + shown(key) + ", not a list of numbers");
    std::vector<double> out;
    for (const json& j : any(key)) {
      if (!j.is_number() || !(j.get<double>() >= least && j.get<double>() <= most))
        refuse(key, "holds " + j.dump().substr(0, 60) + ", which no run writes");
      out.push_back(j);
    }
    return out;
  }
  std::vector<std::string> words(const std::string& key) const {
    if (!any(key).is_array()) refuse(key, "is " + shown(key) + ", not a list of words");
    std::vector<std::string> out;
    for (const json& j : any(key)) {
      if (!j.is_string()) refuse(key, "holds " + j.dump().substr(0, 60) + ", which is no word");
      out.push_back(j);
    }
    return out;
  }
  bool has(const std::string& key) const { return object_.contains(key); }
  const json& all() const { return object_; }

 private:
  std::string shown(const std::string& key) const { return any(key).dump().substr(0, 60); }
  const json& object_;
  std::string file_, within_;
};

Plateau plateau_of(const Fields& f) {
  Plateau p;
  if (f.has("best")) p.best = f.number("best", -1e300, 1e300);
  p.bad = f.count("bad", 0);
  p.cooldown = f.count("cooldown", 0);
  p.factor = f.number("factor", 0, 1e300);
  return p;
}

EarlyStop early_stop_of(const Fields& f) {
  EarlyStop e;
  if (f.has("best")) e.best = f.number("best", -1e300, 1e300);
  e.bad = f.count("bad", 0);
  e.norms = f.numbers("norms", 0, 1e300);
  e.reason = f.word("reason");
  return e;
}

json to_json(const std::vector<NetChannel>& channels) {
  json j = json::array();
  for (const NetChannel& c : channels) {
    j.push_back({{"name", c.name}, {"units", c.units}, {"mean", c.mean}, {"std", c.std}});
    if (!c.classes.empty()) j.back()["classes"] = c.classes;
  }
  return j;
}

std::vector<NetChannel> channels_from(const Fields& f, const std::string& key, const std::string& file) {
  constexpr double kMost = std::numeric_limits<float>::max(), kLeast = std::numeric_limits<float>::min();
  if (!f.any(key).is_array()) f.refuse(key, "is no list of channels");
  std::vector<NetChannel> channels;
  for (const json& entry : f.any(key)) {
    if (!entry.is_object()) f.refuse(key, "lists something else than channels");
    const Fields c(entry, file, "channels." + key + ".");
    channels.push_back({c.word("name"), c.word("units"), static_cast<float>(c.number("mean", -kMost, kMost)),
                        static_cast<float>(c.number("std", kLeast, kMost))});
    if (c.has("classes")) channels.back().classes = c.words("classes");
  }
  return channels;
}

json to_json(const NetPlaces& p) {
  json j = {{"latitude", p.latitude}, {"longitude", p.longitude}, {"rows", p.rows}, {"columns", p.columns}};
  if (std::isfinite(p.hours)) j["hours"] = p.hours;
  return j;
}

NetPlaces places_from(const Fields& f) {
  NetPlaces p{f.numbers("latitude", -1e300, 1e300), f.numbers("longitude", -1e300, 1e300)};
  if (f.has("rows")) p.rows = f.count("rows", 0), p.columns = f.count("columns", 0);
  if (f.has("hours")) p.hours = f.number("hours", -1e300, 1e300);
  return p;
}

std::string own_digest(json j) {
  j.erase("sha256");
  return sha256_hex(j.dump());
}

RunSpec spec_of(const Fields& f, int schema, const std::string& file) {
  if (schema > 1) return run_spec_from_record(f.object("spec").all(), file);
  RunSpec s;
  s.train.seed = f.count("seed", -kMostSteps);
  s.train.global_batch = f.count("global_batch", 1);
  return s;
}

CheckpointState state_from(const json& j, const std::string& file) {
  const Fields f(j, file, "");
  CheckpointState state;
  state.schema = static_cast<int>(f.count("schema", 1, 2));
  TrainState& t = state.train;
  t.step = f.count("step", 0);
  t.updates = t.step;
  if (f.has("loss_scale")) {
    t.loss_scale = f.number("loss_scale", 0, 1e300);
    t.updates = f.count("updates", 0, t.step);
    t.good_steps = f.count("good_steps", 0, t.step);
  }
  if (f.has("early_stop")) t.early = early_stop_of(f.object("early_stop"));
  if (f.has("plateau")) t.plateau = plateau_of(f.object("plateau"));
  state.spec = spec_of(f, state.schema, file);
  if (!state.checkable()) return state;
  if (f.has("channels")) {
    const Fields channels = f.object("channels");
    state.channels = {channels_from(channels, "inputs", file), channels_from(channels, "targets", file)};
    if (f.has("places")) state.channels.places = places_from(f.object("places"));
  }
  const Fields files = f.object("files");
  for (const auto& [name, entry] : files.all().items()) {
    const Fields about = files.object(name);
    state.files[name] = {about.count("bytes", 1), about.word("digest")};
  }
  f.word("sha256");
  return state;
}

}  // namespace

std::string text_of(const CheckpointState& state) {
  const TrainState& t = state.train;
  json j = {{"schema", state.schema},         {"step", t.step},
            {"spec", to_json(state.spec)},    {"plateau", to_json(t.plateau)},
            {"early_stop", to_json(t.early)}, {"files", json::object()}};
  if (state.channels.known()) {
    j["channels"] = {{"inputs", to_json(state.channels.inputs)},
                     {"targets", to_json(state.channels.targets)}};
    j["places"] = to_json(state.channels.places);
  }
  if (t.loss_scale > 0)
    j.update({{"updates", t.updates}, {"loss_scale", t.loss_scale}, {"good_steps", t.good_steps}});
  for (const auto& [name, f] : state.files) j["files"][name] = {{"bytes", f.bytes}, {"digest", f.digest}};
  j["sha256"] = own_digest(j);
  return j.dump(1) + "\n";
}

CheckpointState read_state(const fs::path& checkpoint) {
  const std::string file = (checkpoint / "state.json").string();
  // Values nested deeper than in any valid file are dropped, and the file is then rejected as damaged.
  const json j = json::parse(
      read_file(file), [](int depth, json::parse_event_t, json&) { return depth < 8; },
      /*allow_exceptions=*/false);
  if (!j.is_object())
    throw DamagedCheckpoint(
        ConfigError(file, "", "is no JSON object: cut off or damaged", kTakeAnother).what());
  if (const auto at = j.find("schema"); at != j.end() && at->is_number_integer() && *at > 2)
    throw ConfigError(file, "schema", "is " + at->dump() + ": a later Isobar wrote it",
                      "read it with that version, or take another checkpoint");
  const auto digest = j.find("sha256");
  const bool unchanged = digest != j.end() && *digest == own_digest(j);
  try {
    CheckpointState state = state_from(j, file);
    if (state.checkable() && !unchanged)
      Fields(j, file, "").refuse("sha256", "does not fit: the file was changed since it was written");
    return state;
  } catch (const ConfigError& e) {
    if (unchanged) throw;
    throw DamagedCheckpoint(e.what());
  }
}

}  // namespace isobar::inference
