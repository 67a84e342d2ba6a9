#include "model/records/records.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <type_traits>

#include "model/base/error.h"

namespace isobar::records {

// A record's keys are listed once, in a function `fields(visitor, record)`: a FieldWriter turns the record
// into an object, a FieldReader fills it from one.

template <class T, class R>
concept Is = std::same_as<std::remove_const_t<T>, R>;  // R or const R: one list serves writing and reading

template <class T>
constexpr bool is_plain =
    std::is_arithmetic_v<T> || std::same_as<T, std::string> || std::same_as<T, nlohmann::json> ||
    std::same_as<T, std::vector<double>> || std::same_as<T, std::map<std::string, int64_t>> ||
    std::same_as<T, std::map<std::string, double>>;

class FieldWriter {
 public:
  explicit FieldWriter(nlohmann::json& out) : out_(out) {}

  template <class T>
  void operator()(const char* key, const T& value) {
    out_[key] = written(value);
  }
  template <class T>
  void operator()(const char* key, const std::optional<T>& value) {
    if (value) out_[key] = written(*value);
  }
  void operator()(const char* key, const std::vector<double>& values) {  // empty: absent
    if (!values.empty()) out_[key] = values;
  }

 private:
  template <class T>
  static nlohmann::json written(const T& value) {
    if constexpr (is_plain<T>) {
      return value;
    } else {
      nlohmann::json object = nlohmann::json::object();
      FieldWriter f(object);
      fields(f, value);
      return object;
    }
  }
  template <class T>
  requires(!is_plain<std::vector<T>>) static nlohmann::json written(const std::vector<T>& list) {
    nlohmann::json out = nlohmann::json::array();
    for (const T& item : list) out.push_back(written(item));
    return out;
  }

  nlohmann::json& out_;
};

class FieldReader {
 public:
  FieldReader(const nlohmann::json& in, const Place& place, std::string prefix = "")
      : in_(in), place_(place), prefix_(std::move(prefix)) {}

  template <class T>
  void operator()(const char* key, T& value) {
    if (const auto it = in_.find(key); it != in_.end() && !it->is_null()) read(*it, prefix_ + key, value);
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& value) {
    const auto it = in_.find(key);
    if (it == in_.end() || it->is_null()) return;
    if (T taken{}; read(*it, prefix_ + key, taken)) value = std::move(taken);
  }

 private:
  // Returns whether the value has the expected type.
  bool read(const nlohmann::json& j, const std::string& key, bool& out) const {
    if (!j.is_boolean()) return wrong(j, key, "true or false");
    out = j.get<bool>();
    return true;
  }
  bool read(const nlohmann::json& j, const std::string& key, int64_t& out) const {
    constexpr double kLargest = 9.2e18;
    const double d = j.is_number() ? j.get<double>() : kLargest;
    if (std::abs(d) >= kLargest || d != std::floor(d)) return wrong(j, key, "a whole number");
    out = j.is_number_float() ? static_cast<int64_t>(d) : j.get<int64_t>();
    return true;
  }
  bool read(const nlohmann::json& j, const std::string& key, double& out) const {
    if (!j.is_number()) return wrong(j, key, "a number");
    out = j.get<double>();
    return true;
  }
  bool read(const nlohmann::json& j, const std::string& key, std::string& out) const {
    if (!j.is_string()) return wrong(j, key, "a text");
    out = j.get<std::string>();
    return true;
  }
  bool read(const nlohmann::json& j, const std::string& key, nlohmann::json& out) const {
    if (!j.is_object()) return wrong(j, key, "an object");
    out = j;
    return true;
  }
  bool read(const nlohmann::json& j, const std::string& key, std::vector<double>& out) const {
    if (!j.is_array()) return wrong(j, key, "a list of numbers");
    for (const nlohmann::json& item : j) {
      out.push_back(or_nan({}));
      if (!item.is_null()) read(item, key, out.back());
    }
    return true;
  }
  template <class N>
  bool read(const nlohmann::json& j, const std::string& key, std::map<std::string, N>& out) const {
    if (!j.is_object()) return wrong(j, key, "an object");
    for (const auto& [name, value] : j.items())
      if (N number = 0; read(value, key + "." + name, number)) out[name] = number;
    return true;
  }
  template <class T>
  requires(!is_plain<std::vector<T>>) bool read(const nlohmann::json& j, const std::string& key,
                                                std::vector<T>& out) const {
    if (!j.is_array()) return wrong(j, key, "a list of objects");
    for (size_t i = 0; i < j.size(); ++i)
      if (T item{}; read(j[i], key + "[" + std::to_string(i) + "]", item)) out.push_back(std::move(item));
    return true;
  }
  template <class T>
  bool read(const nlohmann::json& j, const std::string& key, T& out) const {
    if (!j.is_object()) return wrong(j, key, "an object");
    FieldReader f(j, place_, key + ".");
    fields(f, out);
    return true;
  }

  bool wrong(const nlohmann::json& j, const std::string& key, const char* must) const {
    const std::string is = j.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 60);
    const ConfigError e(place_.file + ":" + std::to_string(place_.line), key,
                        "is " + is + ", not " + std::string(must), "correct the line, or take it out");
    if (!place_.problems) throw ConfigError(e);
    place_.problems->push_back(e.what());
    return false;
  }

  const nlohmann::json& in_;
  const Place& place_;
  std::string prefix_;
};

// ---- The keys of each record, in the order of its members ------------------------------------------------

void fields(auto& f, Is<MemoryRecord> auto& r) {
  f("arena", r.arena);
  f("host", r.host);
  f("total", r.total);
  f("by_category", r.by_category);
}

void fields(auto& f, Is<StartRecord> auto& r) {
  f("schema", r.schema);
  f("time_utc", r.time_utc);
  f("resumed", r.resumed);
  f("spec", r.spec);
  f("ranks", r.ranks);
  f("ranks_on_host", r.ranks_on_host);
  f("threads", r.threads);
  f("plan_hash", r.plan_hash);
  f("parameters", r.parameters);
  f("flops_forward_per_sample", r.flops_forward_per_sample);
  f("memory", r.memory);
  f("kernels", r.kernels);
  f("provenance", r.provenance);
}

void fields(auto& f, Is<DeviceRecord> auto& r) {
  f("gpu", r.gpu);
}

void fields(auto& f, Is<SetUpRecord> auto& r) {
  f("seconds", r.seconds);
  f("channels", r.channels);
}

void fields(auto& f, Is<ResumeRecord> auto& r) {
  f("step", r.step);
  f("path", r.path);
  f("changed", r.changed);
  f("checked", r.checked);
}

void fields(auto& f, Is<StepRecord> auto& r) {
  f("step", r.step);
  f("seconds", r.seconds);
  f("samples_per_s", r.samples_per_s);
  f("epoch", r.epoch);
  f("loss", r.loss);
  f("rmse", r.rmse);
  f("mae", r.mae);
  f("accuracy", r.accuracy);
  f("imbalance", r.imbalance);
  f("dropped", r.dropped);
  f("lr", r.lr);
  f("grad_norm", r.grad_norm);
  f("data_wait_s", r.data_wait_s);
  f("rss_bytes", r.rss_bytes);
  f("loss_scale", r.loss_scale);
  f("skipped", r.skipped);
}

void fields(auto& f, Is<EpochRecord> auto& r) {
  f("epoch", r.epoch);
  f("step", r.step);
  f("steps", r.steps);
  f("seconds", r.seconds);
  f("samples_per_s", r.samples_per_s);
  f("loss", r.loss);
  f("valid_loss", r.valid_loss);
  f("valid_seconds", r.valid_seconds);
}

void fields(auto& f, Is<JacobianRecord> auto& r) {
  f("samples", r.samples);
  f("frobenius", r.frobenius);
  f("condition", r.condition);
  f("mean", r.mean);
  f("max", r.max);
  f("std", r.std);
  f("sensitivity", r.sensitivity);
}

void fields(auto& f, Is<ValidRecord> auto& r) {
  f("step", r.step);
  f("loss", r.loss);
  f("seconds", r.seconds);
  f("rmse", r.rmse);
  f("mae", r.mae);
  f("accuracy", r.accuracy);
  f("baseline_accuracy", r.baseline_accuracy);
  f("perplexity", r.perplexity);
  f("persistence_rmse", r.persistence_rmse);
  f("jacobian", r.jacobian);
}

void fields(auto& f, Is<RankRecord> auto& r) {
  f("rank", r.rank);
  f("host", r.host);
  f("step_s", r.step_s);
  f("compute_s", r.compute_s);
  f("data_wait_s", r.data_wait_s);
  f("rss_bytes", r.rss_bytes);
  f("peak_rss_bytes", r.peak_rss_bytes);
  f("mhz", r.mhz);
  f("watts", r.watts);
  f("used_cores", r.used_cores);
  f("cores", r.cores);
  f("busy_cores", r.busy_cores);
  f("busy", r.busy);
  f("celsius", r.celsius);
  f("pcie_in_bytes_s", r.pcie_in_bytes_s);
  f("pcie_out_bytes_s", r.pcie_out_bytes_s);
}

void fields(auto& f, Is<RanksRecord> auto& r) {
  f("step", r.step);
  f("steps", r.steps);
  f("ranks", r.ranks);
  f("joules_per_step", r.joules_per_step);
  f("energy", r.energy);
}

void fields(auto& f, Is<CheckpointRecord> auto& r) {
  f("step", r.step);
  f("path", r.path);
  f("seconds", r.seconds);
}

void fields(auto& f, Is<DeviceShareRecord> auto& r) {
  f("joined_share", r.joined_share);
  f("device_s", r.device_s);
  f("activities", r.activities);
  f("lost", r.lost);
  f("text", r.text);
}

void fields(auto& f, Is<PartRecord> auto& r) {
  f("kind", r.kind);
  f("path", r.path);
}

void fields(auto& f, Is<OpRecord> auto& r) {
  f("path", r.path);
  f("kind", r.kind);
  f("lane", r.lane);
  f("count", r.count);
  f("seconds", r.seconds);
  f("flops", r.flops);
  f("bytes", r.bytes);
  f("part", r.part);
}

void fields(auto& f, Is<RoutineRecord> auto& r) {
  f("name", r.name);
  f("chunk", r.chunk);
  f("count", r.count);
  f("seconds", r.seconds);
}

void fields(auto& f, Is<LastValid> auto& r) {
  f("step", r.step);
  f("loss", r.loss);
  f("rmse", r.rmse);
  f("mae", r.mae);
  f("accuracy", r.accuracy);
  f("baseline_accuracy", r.baseline_accuracy);
  f("perplexity", r.perplexity);
  f("persistence_rmse", r.persistence_rmse);
}

void fields(auto& f, Is<StepStats> auto& r) {
  f("median", r.median);
  f("p10", r.p10);
  f("p90", r.p90);
  f("min", r.min);
  f("count", r.count);
}

void fields(auto& f, Is<EndRecord> auto& r) {
  f("status", r.status);
  f("class", r.failure);
  f("message", r.message);
  f("op", r.op);
  f("signal", r.signal);
  f("rank", r.rank);
  f("steps", r.steps);
  f("trained_steps", r.trained_steps);
  f("stopped", r.stopped);
  f("seconds", r.seconds);
  f("step_s", r.step_s);
  f("samples_per_s", r.samples_per_s);
  f("final_loss", r.final_loss);
  f("valid", r.valid);
  f("checkpoint", r.checkpoint);
  f("peak_rss_bytes", r.peak_rss_bytes);
  f("file_rss_bytes", r.file_rss_bytes);
  f("unattributed_share", r.unattributed_share);
  f("ops", r.ops);
  f("routines", r.routines);
  f("notes", r.notes);
}

// ---- all records
// -------------------------------------------------------------------------------------------

namespace {

// Parses the line into `out` if it is an R.
template <class R>
bool take(const std::string& event, FieldReader& f, Record& out) {
  if (event != R::kEvent) return false;
  fields(f, out.emplace<R>());
  return true;
}

}  // namespace

std::string event_of(const Record& r) {
  return std::visit(
      [](const auto& one) -> std::string {
        if constexpr (Is<decltype(one), const UnknownRecord&>)
          return one.event;
        else
          return std::remove_cvref_t<decltype(one)>::kEvent;
      },
      r);
}

nlohmann::json to_json(const Record& r) {
  nlohmann::json out = {{"event", event_of(r)}};
  FieldWriter f(out);
  std::visit(
      [&](const auto& one) {
        if constexpr (!Is<decltype(one), const UnknownRecord&>) fields(f, one);
      },
      r);
  return out;
}

nlohmann::json to_json(const MemoryRecord& m) {
  nlohmann::json out;
  FieldWriter f(out);
  fields(f, m);
  return out;
}

Record record_from_json(const nlohmann::json& j, const Place& place) {
  FieldReader f(j, place);
  UnknownRecord unknown;
  if (j.is_object()) f("event", unknown.event);
  Record out;
  const std::string& event = unknown.event;
  if (take<StepRecord>(event, f, out) || take<StartRecord>(event, f, out) || take<EndRecord>(event, f, out) ||
      take<DeviceRecord>(event, f, out) || take<SetUpRecord>(event, f, out) ||
      take<ResumeRecord>(event, f, out) || take<EpochRecord>(event, f, out) ||
      take<ValidRecord>(event, f, out) || take<RanksRecord>(event, f, out) ||
      take<CheckpointRecord>(event, f, out) || take<DeviceShareRecord>(event, f, out))
    return out;
  return unknown;
}

std::optional<double> RanksRecord::taken() const {
  double used = 0, busy = 0, cores = 0;
  for (const RankRecord& r : ranks) {
    used += or_nan(r.used_cores);
    busy += r.busy_cores.value_or(0);
    cores += r.cores.value_or(0);
  }
  const double share = (busy - used) / cores;
  return std::isfinite(share) ? std::optional(std::clamp(share, 0.0, 1.0)) : std::nullopt;
}

std::string RanksRecord::text() const {
  char part[160];
  std::string text;
  const auto by_compute = [](const RankRecord& a, const RankRecord& b) {
    return a.compute_s.value_or(0) < b.compute_s.value_or(0);
  };
  if (ranks.size() > 1 && ranks[0].compute_s) {
    const auto [least, most] = std::minmax_element(ranks.begin(), ranks.end(), by_compute);
    std::snprintf(part, sizeof part, "compute %.4g (rank %ld) to %.4g ms (rank %ld) of a step of %.4g ms",
                  *least->compute_s * 1e3, least->rank, *most->compute_s * 1e3, most->rank,
                  most->step_s * 1e3);
    text = part;
  }
  if (joules_per_step && !ranks.empty() && ranks[0].step_s > 0) {
    std::snprintf(part, sizeof part, "%s%.4g J a step, %.4g W (%s)", text.empty() ? "" : "; ",
                  *joules_per_step, *joules_per_step / ranks[0].step_s, energy->c_str());
    text += part;
  }
  return text;
}

std::string OpRecord::path_in_kind() const {
  if (!part || part->path.empty() || part->path == part->kind || !path.starts_with(part->path)) return path;
  return part->kind + "*" + path.substr(part->path.size());
}

}  // namespace isobar::records
