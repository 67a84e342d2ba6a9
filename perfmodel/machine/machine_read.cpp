// Reads machine files; every field is checked, and errors name file and key.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/base/names/did_you_mean.h"
#include "model/base/text/yaml.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/machine/machine_keys.h"

namespace isobar::perf {
namespace {

using nlohmann::json;

class Reader {
 public:
  Reader(const json& j, std::string file, std::string key)
      : j_(j), file_(std::move(file)), key_(std::move(key)) {
    if (!j_.is_object()) fail("", "is not a map of keys", "give `key: value` lines below it");
  }

  [[noreturn]] void fail(const std::string& key, const std::string& what, const std::string& mend) const {
    throw ConfigError(file_, path(key), what, mend);
  }
  std::string path(const std::string& key) const {
    return key_.empty() || key.empty() ? key_ + key : key_ + "." + key;
  }
  void only(const std::vector<std::string>& allowed) const {
    for (const auto& [key, value] : j_.items())
      if (std::find(allowed.begin(), allowed.end(), key) == allowed.end())
        fail(key, "is not a known key", "did you mean " + nearest(key, allowed) + "?");
  }
  const std::string& file() const { return file_; }
  bool has(const std::string& key) const { return j_.contains(key); }
  const json& at(const std::string& key, const std::string& mend) const {
    if (!has(key)) fail(key, "is missing", mend);
    return j_.at(key);
  }
  Reader section(const std::string& key, const std::string& mend) const {
    return {at(key, mend), file_, path(key)};
  }
  double positive(const std::string& key, const std::string& mend) const {
    const json& v = at(key, mend);
    if (!v.is_number()) fail(key, "must be a number", mend);
    const double x = v.get<double>();
    if (!(x > 0) || !std::isfinite(x)) fail(key, "must be positive", mend);
    if (const auto wrong = implausible(path(key), x)) fail(key, wrong->what, wrong->mend);
    return x;
  }
  int64_t whole(const std::string& key, const std::string& mend) const {
    const double x = positive(key, mend);
    if (x != std::floor(x) || x > 9e15) fail(key, "must be a whole number", mend);
    return static_cast<int64_t>(x);
  }
  std::string text(const std::string& key) const {
    if (!has(key) || j_.at(key).is_null()) return "";
    if (!j_.at(key).is_string()) fail(key, "must be text", "put it in quotes");
    return j_.at(key).get<std::string>();
  }
  std::vector<std::string> words(const std::string& key) const {
    if (!has(key)) return {};
    const json& v = j_.at(key);
    if (v.is_string()) return {v.get<std::string>()};
    std::vector<std::string> out;
    if (!v.is_array()) fail(key, "must be a list of words", "e.g. [spec]");
    for (const json& w : v) {
      if (w.is_number()) {  // a run id of digits only
        out.push_back(w.dump());
        continue;
      }
      if (!w.is_string()) fail(key, "must be a list of words", "e.g. [spec]");
      out.push_back(w.get<std::string>());
    }
    return out;
  }
  std::vector<double> numbers(const std::string& key) const {
    std::vector<double> out;
    const json& v = at(key, "run isobar fit again");
    if (!v.is_array()) fail(key, "must be a list of numbers", "run isobar fit again");
    for (const json& x : v) {
      if (!x.is_number()) fail(key, "must be a list of numbers", "run isobar fit again");
      out.push_back(x.get<double>());
    }
    return out;
  }
  const json& value() const { return j_; }

 private:
  const json& j_;
  std::string file_, key_;
};

void check_unit(const Reader& r, const std::string& expected) {
  const std::string unit = r.text("unit");
  if (unit != expected)
    r.fail("unit", "is '" + unit + "' where '" + expected + "' is meant",
           "convert the value and write unit: " + expected);
}

Identity read_identity(const Reader& r) {
  r.only(machine_keys_below("identity"));
  Identity id;
  id.host = r.text("host");
  id.cpu = r.text("cpu");
  id.isa = r.text("isa");
  id.cores = r.whole("cores", "give the number of cores, e.g. 2");
  id.memory_bytes = r.whole("memory_bytes", "give the host's memory in bytes, e.g. 16000000000");
  id.cache_bytes = r.whole("cache_bytes", "give the last-level cache in bytes, e.g. 32000000");
  return id;
}

// A file system's nominal rate under a checkpoint: within a factor of two in 80 % of cases.
constexpr double kStoredLogSigma = 0.5;

Tier read_tier(const Reader& r, const std::string& name, bool last) {
  r.only(machine_keys_below("accelerator.tiers." + name));
  Tier t;
  t.name = name;
  if (!last) t.ranks = r.whole("ranks", "give how many ranks it connects, e.g. 8");
  t.bandwidth = r.positive("bandwidth", "give B/s of one link in one direction, e.g. 25e9");
  if (r.has("links")) t.links = r.positive("links", "give links of each rank, e.g. 1");
  t.latency = r.positive("latency", "give seconds of one message, e.g. 5e-6");
  const auto truth = [&](const char* key, const char* mend) {
    if (!r.has(key)) return false;
    if (!r.value()[key].is_boolean()) r.fail(key, "must be true or false", mend);
    return r.value()[key].get<bool>();
  };
  t.reduction = truth("reduction", "true: NVLS or SHARP");
  t.sockets = truth("sockets", "true: it joins the sockets of a host");
  t.provenance = r.words("provenance");
  return t;
}

Accelerator read_accelerator(const Reader& r) {
  r.only(machine_keys_below("accelerator"));
  Accelerator a;
  a.called = r.words("called");
  a.name = r.text("name");
  a.vendor = r.text("vendor");
  const std::vector<std::string> vendors{"nvidia", "amd", "intel", "google"};
  if (!a.vendor.empty() && std::find(vendors.begin(), vendors.end(), a.vendor) == vendors.end())
    r.fail("vendor", "is '" + a.vendor + "', which is none of nvidia, amd, intel and google",
           "did you mean " + nearest(a.vendor, vendors) + "?");
  a.memory_bytes = r.whole("memory_bytes", "give the memory of one in bytes, e.g. 80000000000");
  a.reported_bytes = a.memory_bytes;
  if (r.has("reported_bytes"))
    a.reported_bytes = r.whole("reported_bytes", "give the total that a process sees of it, in bytes");
  a.processors = r.whole("processors", "give its SMs or compute units, e.g. 108");
  if (r.has("power_w")) a.power_w = r.positive("power_w", "give W of one, e.g. 400");
  if (r.has("host_bandwidth"))
    a.host_bandwidth =
        r.positive("host_bandwidth", "give B/s to the host's memory, e.g. 32e9 (PCIe 4.0 x16)");
  if (r.has("price_per_hour"))
    a.price_per_hour = r.positive("price_per_hour", "give the price of one for an hour");
  if (r.has("currency")) a.currency = r.text("currency");
  if (r.has("mtbf_hours"))
    a.mtbf_hours = r.positive("mtbf_hours", "give the hours of one between failures that end a job");
  a.provenance = r.words("provenance");
  const Reader tiers = r.section("tiers", "give host: and net:, see configs/machines/dgx-a100.yaml");
  tiers.only(machine_keys_below("accelerator.tiers"));
  a.host = read_tier(tiers.section("host", "give the ranks that NVLink or the like connects"), "host", false);
  a.net = read_tier(tiers.section("net", "give the network between hosts"), "net", true);
  return a;
}

Storage read_storage(const Reader& r) {
  r.only(machine_keys_below("storage"));
  Storage s;
  if (r.has("host_bandwidth"))
    s.host_bandwidth = r.positive("host_bandwidth", "give B/s that one host writes, e.g. 5e9");
  if (r.has("filesystem_bandwidth"))
    s.filesystem_bandwidth =
        r.positive("filesystem_bandwidth", "give B/s of the whole file system, e.g. 1e12");
  s.provenance = r.words("provenance");
  return s;
}

Coefficient read_coefficient(const Reader& r, const CoefficientInfo& info, double floor) {
  r.only(machine_keys_below("coefficients.*"));
  check_unit(r, info.unit);
  Coefficient c;
  c.value = r.positive("value", std::string("give it in ") + info.unit);
  c.lower = r.positive("lower", "give the lower end of its 80 % interval");
  c.upper = r.positive("upper", "give the upper end of its 80 % interval");
  if (!(c.lower <= c.value && c.value <= c.upper && c.lower < c.upper))
    r.fail("", "has a value outside of its interval, or an empty interval", "make lower <= value <= upper");
  if (c.lower < c.value * 1e-6) r.fail("lower", "is below a millionth of the value", "run isobar fit again");
  if (c.upper > c.value * 1e6) r.fail("upper", "is above a million times the value", "run isobar fit again");
  if (c.value < floor * (1 - 1e-9))
    r.fail("value", std::string("is faster than peaks.") + info.peak + " allows",
           "correct the coefficient or the peak");
  c.provenance = r.words("provenance");
  return c;
}

constexpr double kMostOfLogs =
    1e6;  // of logarithms, their spreads and products: beyond it prices are no numbers

// Lower triangle, rows by name, so that files survive a reordering of coefficients.
void read_covariance(const Reader& r, FitRecord& fit) {
  constexpr size_t kIgnored = std::numeric_limits<size_t>::max();
  std::vector<size_t> place;
  for (const std::string& name : r.words("names")) {
    if (is_former(name)) {
      place.push_back(kIgnored);
      continue;
    }
    const auto c = coef_named(name);
    const auto e =
        std::find_if(fit.effects.begin(), fit.effects.end(), [&](const auto& x) { return x.first == name; });
    if (!c && e == fit.effects.end())
      r.fail("names", "'" + name + "' is no coefficient and no effect", "run isobar fit again");
    place.push_back(c ? index_of(*c) : kCoefs + static_cast<size_t>(e - fit.effects.begin()));
  }
  const json& rows = r.at("covariance", "run isobar fit again");
  if (!rows.is_array() || rows.size() != place.size())
    r.fail("covariance", "must have one row for each of fit.names", "run isobar fit again");
  const size_t size = kCoefs + fit.effects.size();
  fit.covariance.assign(size * size, 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].is_array() || rows[i].size() != i + 1)
      r.fail("covariance", "must be a lower triangle", "run isobar fit again");
    for (size_t j = 0; j <= i; ++j) {
      if (!rows[i][j].is_number()) r.fail("covariance", "must hold numbers", "run isobar fit again");
      const double v = rows[i][j].get<double>();
      if (std::abs(v) > kMostOfLogs)
        r.fail("covariance", "holds a number beyond 1e6", "run isobar fit again");
      if (place[i] == kIgnored || place[j] == kIgnored) continue;
      fit.covariance[place[i] * size + place[j]] = v;
      fit.covariance[place[j] * size + place[i]] = v;
    }
  }
}

Ranges read_ranges(const Reader& r) {
  Ranges out;
  for (const auto& [name, value] : r.value().items()) {
    out[name] = r.numbers(name);
    if (out[name].size() != 2 || !(0 < out[name][0] && out[name][0] <= out[name][1]))
      r.fail(name, "must be [lowest, highest], above zero", "run isobar fit or calibrate again");
  }
  return out;
}

FitRecord read_fit(const Reader& r) {
  r.only(machine_keys_below("fit"));
  FitRecord fit;
  fit.runs = r.words("runs");
  if (r.has("statistic")) fit.statistic = statistic_of(r.text("statistic"), r.file(), r.path("statistic"));
  fit.notes = r.words("notes");
  const auto bounded = [](const Reader& of, const std::string& key) {
    const double x = of.positive(key, "run isobar fit again");
    if (x > kMostOfLogs) of.fail(key, "is above 1e6", "run isobar fit again");
    return x;
  };
  fit.quantile = bounded(r, "quantile");
  const Reader spread = r.section("spread", "run isobar fit again");
  for (const auto& [kind, value] : spread.value().items()) fit.spread[kind] = bounded(spread, kind);
  if (!fit.spread.contains("all")) spread.fail("all", "is missing", "run isobar fit again");
  if (r.has("range")) fit.range = read_ranges(r.section("range", ""));
  const Reader effects = r.section("effects", "run isobar fit again");
  for (const auto& [name, value] : effects.value().items()) {
    if (!value.is_number() || std::abs(value.get<double>()) > kMostOfLogs)
      effects.fail(name, "must be a number up to 1e6", "run isobar fit again");
    fit.effects.emplace_back(name, value.get<double>());
  }
  const Reader sigma = r.section("effect_sigma", "run isobar fit again");
  for (const auto& [family, value] : sigma.value().items()) fit.effect_sigma[family] = bounded(sigma, family);
  read_covariance(r, fit);
  return fit;
}

// Older files include the softmax's and packing's prices in that of attention's FLOPs.
void leave_rest_to_attention(const Reader& coefficients, Machine& m) {
  struct Part {
    Coef flops, rest;
    double none;  // almost zero, in its unit
  };
  for (const auto& [flops, rest, none] : {Part{Coef::attention_f32, Coef::softmax_f32, 1e-12},
                                          {Coef::attention_bf16, Coef::softmax_bf16, 1e-12},
                                          {Coef::attention_backward_f32, Coef::softmax_backward_f32, 1e-12},
                                          {Coef::attention_backward_bf16, Coef::softmax_backward_bf16, 1e-12},
                                          {Coef::attention_f32, Coef::attention_bytes, 1e-15}})
    if (coefficients.has(info_of(flops).name) && !coefficients.has(info_of(rest).name))
      m[rest] = Coefficient::make(none, 0.1, {std::string("in ") + info_of(flops).name});
}

Machine from_json(const json& j, const std::string& file) {
  const Reader r(j, file, "");
  r.only(machine_keys_below(""));
  std::optional<Accelerator> accelerator;
  if (r.has("accelerator")) accelerator = read_accelerator(r.section("accelerator", ""));
  Identity identity{.cores = 1, .memory_bytes = 1, .cache_bytes = 1};
  if (accelerator) identity.memory_bytes = accelerator->memory_bytes;
  if (!accelerator || r.has("identity"))
    identity =
        read_identity(r.section("identity", "say what the machine is: host, cpu, cores, memory_bytes, ..."));
  const Reader peaks = r.section("peaks", "give f32, bf16 and memory; isobar calibrate measures them");
  peaks.only({std::begin(kPeaks), std::end(kPeaks)});
  std::map<std::string, Peak> read;
  for (const std::string name : kPeaks) {
    const std::string unit = peak_unit(name, accelerator.has_value());
    if (!peaks.has(name) && may_be_absent(name)) continue;
    const Reader p = peaks.section(name, "give {value: ..., unit: " + unit + "}");
    p.only(machine_keys_below("peaks.*"));
    check_unit(p, unit);
    read[name] = {p.positive("value", "give it in " + unit), p.words("provenance")};
  }
  Machine m = machine_from_spec(r.text("name"), identity, read, accelerator);
  m.file = file;
  if (r.has("storage")) m.storage = read_storage(r.section("storage", ""));
  if (m.storage.host_bandwidth > 0)  // before coefficients, so that a measured one overrides it
    m[Coef::checkpoint] = Coefficient::make(
        1 / m.storage.host_bandwidth, kStoredLogSigma,
        m.storage.provenance.empty() ? std::vector<std::string>{"storage"} : m.storage.provenance);
  if (r.has("coefficients")) {
    std::vector<std::string> known;
    for (size_t i = 0; i < kCoefs; ++i) known.emplace_back(info_of(i).name);
    const Reader all = r.section("coefficients", "");
    for (const auto& [name, value] : all.value().items())
      if (is_former(name)) known.push_back(name);
    all.only(known);
    for (const auto& [name, value] : all.value().items()) {
      if (is_former(name)) continue;
      const size_t i = index_of(*coef_named(name));
      m.coefficients[i] = read_coefficient(all.section(name, ""), info_of(i), m.floor_of(i));
    }
    leave_rest_to_attention(all, m);
  }
  if (r.has("shapes")) {
    const Reader shapes = r.section("shapes", "");
    ShapeFactors factors;
    for (const auto& [name, value] : shapes.value().items())
      factors[name] = shapes.positive(name, "run isobar calibrate --for again");
    m.shapes = std::make_shared<const ShapeFactors>(std::move(factors));
  }
  if (r.has("timed")) m.timed = read_ranges(r.section("timed", ""));
  if (r.has("fit")) m.fit = read_fit(r.section("fit", ""));
  m.engine = r.text("engine");
  if (r.has("cluster")) m.cluster = r.section("cluster", "").value().dump();
  return m;
}

}  // namespace

Machine load_machine(const std::string& path) {
  return from_json(load_yaml(path), path);
}

Machine parse_machine(const std::string& yaml, const std::string& file) {
  return from_json(parse_yaml(yaml, file), file);
}

}  // namespace isobar::perf
