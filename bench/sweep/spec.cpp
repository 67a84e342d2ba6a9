#include "bench/sweep/spec.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "bench/sweep/compose.h"
#include "bench/sweep/sweep_reader.h"
#include "model/base/error.h"
#include "model/base/names/did_you_mean.h"
#include "model/base/spec/spec.h"
#include "model/base/spec/validate.h"
#include "model/base/system/files.h"
#include "model/base/text/yaml.h"

namespace isobar::sweep {
namespace {

using nlohmann::json;

int64_t batch_of(const SweepSpec& s) {
  for (const auto& [key, value] : s.set)
    if (key == "train.global_batch") return value.get<int64_t>();
  return run_spec_from_json(s.base_json, s.base).train.global_batch;
}

// With weak scaling the global batch grows with the ranks; with strong scaling it is constant.
void read_scaling(const SweepReader& in, const json& j, SweepSpec& s) {
  std::vector<Assignments> points;
  for (const char* key : {"weak_scaling", "strong_scaling"}) {
    if (!j.contains(key)) continue;
    const bool weak = key[0] == 'w';
    const std::vector<int64_t> sizes = in.sizes(key);
    const int64_t batch = batch_of(s);
    for (const int64_t n : sizes) {
      if (weak && (batch > (int64_t{1} << 30) || batch * n % sizes[0] != 0))
        in.fail(key,
                "cannot share train.global_batch = " + std::to_string(batch) + " out in proportion to " +
                    std::to_string(n),
                "give a global batch that is a multiple of " + std::to_string(sizes[0]));
      points.push_back({{kRanksKey, n}, {"train.global_batch", weak ? batch * n / sizes[0] : batch}});
    }
    for (const Axis& a : s.axes)
      if (a.key == kRanksKey || a.key == "layout.dp" || a.key == "train.global_batch")
        in.fail("axes." + a.key, std::string("is set by ") + key, "keep one of the two");
    for (const auto& fixed : s.set)
      if (fixed.first == kRanksKey || fixed.first == "layout.dp")
        in.fail("set." + fixed.first, std::string("is set by ") + key, "keep one of the two");
  }
  if (!points.empty()) s.zipped.push_back(std::move(points));
}

// `zip: [{gpus: [1, 2], policy.micro_batch: [4, 2]}]`: keys whose values advance together.
void read_zip(const SweepReader& in, const json& v, SweepSpec& s) {
  const char* example = "write e.g. - {gpus: [1, 2], policy.micro_batch: [4, 2]}";
  if (!v.is_array() || v.empty()) in.fail("zip", "is not a list of maps", example);
  for (size_t i = 0; i < v.size(); ++i) {
    const std::string shown = "zip[" + std::to_string(i) + "]";
    const std::vector<Axis> keys = in.axes(v[i], shown);
    if (keys.size() < 2) in.fail(shown, "has one key, and nothing to go in step with", "make it an axis");
    std::vector<Assignments> points(keys[0].values.size());
    for (const Axis& a : keys) {
      if (a.any) in.fail(shown + "." + a.key, "is any", "list its values");
      if (a.values.size() != points.size())
        in.fail(shown + "." + a.key,
                "has " + std::to_string(a.values.size()) + " values, and " + keys[0].key + " has " +
                    std::to_string(points.size()),
                "give all keys as many values");
      for (size_t k = 0; k < points.size(); ++k) points[k].emplace_back(a.key, a.values[k]);
    }
    s.zipped.push_back(std::move(points));
  }
}

// `when: [{if: {policy.amp: bf16}, axes: {policy.bucket_mb: [1, 4]}}]`
void read_when(const SweepReader& in, const json& v, SweepSpec& s) {
  const char* example = "write e.g. - {if: {policy.amp: bf16}, axes: {policy.bucket_mb: [1, 4]}}";
  if (!v.is_array() || v.empty()) in.fail("when", "is not a list of rules", example);
  for (size_t i = 0; i < v.size(); ++i) {
    const std::string shown = "when[" + std::to_string(i) + "]";
    if (!v[i].is_object()) in.fail(shown, "is not a map of `if` and `axes`", example);
    for (const auto& item : v[i].items())
      if (item.key() != "if" && item.key() != "axes")
        in.fail(shown + "." + item.key(), "is not part of a rule", "a rule has `if` and `axes`");
    for (const char* part : {"if", "axes"})
      if (!v[i].contains(part)) in.fail(shown, std::string("has no `") + part + "`", example);
    ConditionalAxes rule{in.condition(v[i]["if"], shown + ".if"), in.axes(v[i]["axes"], shown + ".axes")};
    if (rule.axes.empty()) in.fail(shown + ".axes", "is empty", example);
    for (const Axis& a : rule.axes) {
      const std::string key = shown + ".axes." + (a.key == kRanksKey ? "gpus" : a.key);
      if (a.key == kRanksKey || a.key == "layout.dp")
        in.fail(key, "says how many ranks there are, which no condition may change",
                "make gpus an axis, and leave out what is not wanted with `exclude:`");
      if (a.any) in.fail(key, "is any", "list its values");
      if (std::any_of(s.axes.begin(), s.axes.end(), [&](const Axis& b) { return b.key == a.key; }))
        in.fail(key, "is an axis as well",
                "keep one of the two; what no rule sets is as in `set:` or the base");
      for (const std::vector<Assignments>& points : s.zipped)
        for (const auto& one : points[0])
          if (one.first == a.key)
            in.fail(key, "is given by `zip:` or by scaling as well", "keep one of the two");
    }
    s.when.push_back(std::move(rule));
  }
}

// Checks expressions against one run of the sweep, so that unknown keys are reported before anything runs.
void check_expressions(const SweepSpec& s) {
  json j = s.base_json;
  for (const auto& [key, value] : s.set)
    if (key != kRanksKey) assign(j, key, value);
  const RunSpec example = run_spec_from_json(j, s.base);
  for (const Condition& c : s.exclude) check_expression(c, example, s.file);
  for (const ConditionalAxes& rule : s.when) check_expression(rule.condition, example, s.file);
}

// `gpus: any`: every number of ranks within the constraints; `tp: any`: every divisor of the world sizes.
void resolve_any(const SweepReader& in, SweepSpec& s) {
  if (std::none_of(s.axes.begin(), s.axes.end(), [](const Axis& a) { return a.any; })) return;
  std::set<int64_t> sizes;
  const auto take = [&](const std::string& key, const json& value) {
    if (key == kRanksKey) sizes.insert(value.get<int64_t>());
  };
  for (Axis& a : s.axes) {
    if (!a.any || a.key != kRanksKey) continue;
    if (s.max_ranks == 0 || s.max_ranks - s.min_ranks >= kMostRanks)
      in.fail("axes.gpus", "is any, and nothing says up to how many", "give constraints: {max_ranks: 8}");
    a.values.clear();
    for (int64_t n = s.min_ranks; n <= s.max_ranks; ++n) a.values.emplace_back(n);
  }
  for (const Axis& a : s.axes)
    for (const json& v : a.values) take(a.key, v);
  for (const auto& [key, value] : s.set) take(key, value);
  for (const std::vector<Assignments>& points : s.zipped)
    for (const Assignments& point : points)
      for (const auto& [key, value] : point) take(key, value);
  for (Axis& a : s.axes) {
    if (!a.any || a.key == kRanksKey) continue;
    if (sizes.empty())
      in.fail("axes." + a.key, "is any, and nothing says how many ranks there are",
              "give gpus, e.g. gpus: [8]");
    std::set<int64_t> divisors;
    for (const int64_t n : sizes)
      for (int64_t d = 1; d <= n; ++d)
        if (n % d == 0) divisors.insert(d);
    a.values.assign(divisors.begin(), divisors.end());
  }
}

// Steps of the sweep would be ignored where its base counts epochs.
void refuse_two_lengths(const SweepReader& in, const SweepSpec& s) {
  const auto given = [&](const std::string& key) {
    return std::any_of(s.set.begin(), s.set.end(), [&](const auto& one) { return one.first == key; }) ||
           std::any_of(s.axes.begin(), s.axes.end(), [&](const Axis& a) { return a.key == key; });
  };
  const int64_t epochs = run_spec_from_json(s.base_json, s.base).train.epochs;
  if (epochs > 0 && given("train.steps") && !given("train.epochs"))
    in.fail("steps", "is given, and the base counts train.epochs: " + std::to_string(epochs),
            "add train.epochs: 0 to `set:`, or leave the steps out");
}

void refuse_two_sizes(const SweepReader& in, const SweepSpec& s) {
  std::map<std::string, std::string> places;  // key -> place where it is given
  const auto take = [&](const std::string& key, const std::string& place) {
    const auto [it, fresh] = places.emplace(key, place);
    if (!fresh && (it->second == "zip" || place == "zip"))
      in.fail("zip",
              "gives " + key + ", which " + (it->second == place ? "it" : "`" + it->second + ":`") +
                  " gives as well",
              "keep one of the two");
  };
  for (const auto& fixed : s.set) take(fixed.first, "set");
  for (const Axis& a : s.axes) take(a.key, "axes");
  for (const std::vector<Assignments>& points : s.zipped)
    for (const auto& one : points[0]) take(one.first, "zip");
  const auto has = [&](const std::string& key) { return places.contains(key); };
  if (has(kRanksKey) && has("layout.dp"))
    in.fail("layout.dp", "and gpus (ranks) both say how many ranks there are",
            "keep one: dp = gpus / (tp * cp * pp)");
  for (const Axis& a : s.axes)
    if (std::any_of(s.set.begin(), s.set.end(), [&](const auto& fixed) { return fixed.first == a.key; }))
      in.fail("set." + a.key, "is an axis as well", "remove it from `set:` or from `axes:`");
}

}  // namespace

void assign(json& j, const std::string& key, const json& value) {
  const size_t dot = key.find('.');
  j[key.substr(0, dot)][key.substr(dot + 1)] = value;
}

SweepSpec load_sweep_spec(const std::string& path, const std::vector<std::string>& words) {
  const json j = compose_sweep(path, words);
  const SweepReader in(j, path);
  for (const auto& item : j.items())
    if (std::find(sweep_keys().begin(), sweep_keys().end(), item.key()) == sweep_keys().end())
      in.fail(item.key(), "is not a key of a sweep file",
              "did you mean '" + nearest(item.key(), sweep_keys()) + "'?");

  SweepSpec s;
  s.file = path;
  if (!j.contains("base") || !j["base"].is_string())
    in.fail("base", j.contains("base") ? "is not a file name" : "is missing",
            "name a run configuration relative to this file, e.g. base: ../models/vit-384.yaml");
  const std::filesystem::path base = std::filesystem::path(path).parent_path() / j["base"].get<std::string>();
  s.base = base.lexically_normal().string();
  std::error_code unreadable;
  if (std::filesystem::status(s.base, unreadable).type() == std::filesystem::file_type::not_found)
    in.fail("base", "there is no file " + s.base, "paths are relative to the sweep file");
  const InputFile readable(s.base, "base");
  s.base_json = load_yaml(s.base);
  validate_values(run_spec_from_json(s.base_json, s.base));  // report once, not for every trial

  if (j.contains("set")) s.set = in.assignments(j["set"], "set");
  if (j.contains("axes")) s.axes = in.axes(j["axes"], "axes");
  if (j.contains("zip")) read_zip(in, j["zip"], s);
  if (j.contains("include")) {
    if (!j["include"].is_array()) in.fail("include", "is not a list", "write e.g. - {gpus: 2, layout.tp: 2}");
    for (size_t i = 0; i < j["include"].size(); ++i)
      s.include.push_back(in.assignments(j["include"][i], "include[" + std::to_string(i) + "]"));
  }
  if (j.contains("baselines")) {
    if (!j["baselines"].is_array())
      in.fail("baselines", "is not a list", "write e.g. - {gpus: 1, policy.amp: none}");
    for (size_t i = 0; i < j["baselines"].size(); ++i)
      s.baselines.push_back(in.assignments(j["baselines"][i], "baselines[" + std::to_string(i) + "]"));
  }
  if (j.contains("exclude")) {
    // A single rule needs no list: `isobar sweep … exclude="tp * pp > 4"`
    const json rules = j["exclude"].is_string() ? json::array({j["exclude"]}) : j["exclude"];
    if (!rules.is_array())
      in.fail("exclude", "is not a list", "write e.g. - {gpus: 2, policy.amp: bf16}, or - tp * pp > 4");
    for (size_t i = 0; i < rules.size(); ++i)
      s.exclude.push_back(in.condition(rules[i], "exclude[" + std::to_string(i) + "]"));
  }
  if (j.contains("constraints")) {
    const json& c = j["constraints"];
    if (!c.is_object()) in.fail("constraints", "does not hold a map of keys", "e.g. {max_ranks: 8}");
    for (const auto& item : c.items())
      if (item.key() != "max_ranks" && item.key() != "min_ranks")
        in.fail("constraints." + item.key(), "is not a known constraint", "use max_ranks or min_ranks");
    s.max_ranks = in.integer(c, "max_ranks", "constraints.max_ranks", 0, 1, int64_t{1} << 32);
    s.min_ranks = in.integer(c, "min_ranks", "constraints.min_ranks", 1, 1, int64_t{1} << 32);
  }
  refuse_two_sizes(in, s);
  read_scaling(in, j, s);
  resolve_any(in, s);
  if (j.contains("when")) read_when(in, j["when"], s);
  check_expressions(s);
  if (s.axes.empty() && s.include.empty() && s.set.empty() && j.contains("axes"))
    in.fail("axes", "is empty", "give at least one axis, e.g. gpus: [1, 2]");

  s.repetitions = in.integer(j, "repetitions", "repetitions", 1, 1, 10000);
  s.repeat_contended = in.integer(j, "repeat_contended", "repeat_contended", s.repeat_contended, 0, 10);
  s.warmup = in.integer(j, "warmup", "warmup", 2, 0, 1 << 30);
  s.seed = static_cast<uint64_t>(in.integer(j, "seed", "seed", 0, 0, INT64_MAX));
  if (j.contains("steps")) {
    const int64_t steps = in.integer(j, "steps", "steps", 0, 1, 1 << 30);
    if (steps <= s.warmup)
      in.fail("steps",
              std::to_string(steps) + " leaves nothing to measure after warmup = " + std::to_string(s.warmup),
              "give more steps, or a smaller `warmup:`");
    for (const auto& fixed : s.set)
      if (fixed.first == "train.steps") in.fail("steps", "is given in `set:` as well", "keep one of the two");
    s.set.emplace_back("train.steps", steps);
  }
  refuse_two_lengths(in, s);
  if (j.contains("order")) {
    if (j["order"] != "random" && j["order"] != "listed")
      in.fail("order", j["order"].dump() + " is unknown", "use random or listed");
    s.random_order = j["order"] == "random";
  }
  s.limits.timeout_s = in.seconds("timeout_s", s.limits.timeout_s, false);
  s.limits.timeout_given = j.contains("timeout_s");
  if (j.contains("hang_s")) s.limits.hang_s = in.seconds("hang_s", 0, true);
  s.limits.grace_s = in.seconds("grace_s", s.limits.grace_s, true);
  s.limits.noise_limit = in.share("noise_limit", 100);
  s.probe_infeasible = in.share("probe_infeasible", 1);
  if (j.contains("machine")) {
    if (!j["machine"].is_string())
      in.fail("machine", "is not a file name", "e.g. machine: ../machines/local.yaml");
    const std::filesystem::path named = j["machine"].get<std::string>(),
                                beside = std::filesystem::path(path).parent_path() / named;
    const bool there =
        std::filesystem::status(beside, unreadable).type() != std::filesystem::file_type::not_found;
    const bool shipped = !there && !named.empty() && !named.has_parent_path() && !named.has_extension();
    s.machine = shipped ? named.string() : beside.lexically_normal().string();
    if (!there && !shipped)
      in.fail("machine", "there is no file " + s.machine, "paths are relative to the sweep file");
    if (there) const InputFile readable(s.machine, "machine");
  }
  s.limits.memory_limit_mb = in.integer(j, "memory_limit_mb", "memory_limit_mb", 0, 0, int64_t{1} << 40);
  return s;
}

}  // namespace isobar::sweep
