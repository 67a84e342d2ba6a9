#include "perfmodel/machine/machine_keys.h"

#include <algorithm>

#include "model/base/spec/spec_schema.h"
#include "model/base/text/printed.h"
#include "perfmodel/machine/coefficient.h"
#include "perfmodel/machine/machine.h"

namespace isobar::perf {
namespace {

struct MachineKey {
  enum class Form { section, text, words, positive, whole, truth, any };
  const char* path;
  Form form;
  bool required = false;  // within its section
  const char* help = "";
};

using nlohmann::json;
using Form = MachineKey::Form;

json of_form(Form form) {
  switch (form) {
    case Form::section:
      return {{"type", "object"}};
    case Form::text:
      return {{"type", json::array({"string", "null"})}};
    case Form::words:
      return {{"type", json::array({"array", "string"})},
              {"items", {{"type", json::array({"string", "number"})}}}};
    case Form::positive:
      return {{"type", "number"}, {"exclusiveMinimum", 0}};
    case Form::whole:
      return {{"type", "number"}, {"exclusiveMinimum", 0}, {"multipleOf", 1}};
    case Form::truth:
      return {{"type", "boolean"}};
    case Form::any:
      return json::object();
  }
  return json::object();
}

const std::vector<MachineKey>& machine_key_rows() {
  static const std::vector<MachineKey> rows = {
      {"name", Form::text, false, "Name shown in tables and reports."},
      {"identity", Form::section, false, "A host of processors."},
      {"identity.host", Form::text, false, "Its name."},
      {"identity.cpu", Form::text, false, "Its processor's name."},
      {"identity.isa", Form::text, false, "Its instruction set."},
      {"identity.cores", Form::whole, true, "Cores of a host."},
      {"identity.memory_bytes", Form::whole, true, "Memory of a host."},
      {"identity.cache_bytes", Form::whole, true, "Last-level cache."},
      {"identity.core_trip_ns", Form::any, false, "Of older files; ignored."},
      {"accelerator", Form::section, false, "An accelerator and its links."},
      {"accelerator.called", Form::words, false, "Names by which published tables know it, word for word."},
      {"accelerator.name", Form::text, false, "Its name."},
      {"accelerator.vendor", Form::text, false, "nvidia, amd, intel or google."},
      {"accelerator.memory_bytes", Form::whole, true, "Nominal memory of one."},
      {"accelerator.reported_bytes", Form::whole, false,
       "The total that a process sees of it, which predictions fill [the nominal]."},
      {"accelerator.processors", Form::whole, true, "SMs or compute units."},
      {"accelerator.power_w", Form::positive, false, "W of one."},
      {"accelerator.host_bandwidth", Form::positive, false, "B/s to the host's memory."},
      {"accelerator.price_per_hour", Form::positive, false, "Price of one for an hour."},
      {"accelerator.currency", Form::text, false, "Currency of the price."},
      {"accelerator.mtbf_hours", Form::positive, false, "Hours of one between failures that end a job."},
      {"accelerator.provenance", Form::words, false, "Where the figures are from."},
      {"accelerator.tiers", Form::section, true, "Links within a host and between hosts."},
      {"accelerator.tiers.host", Form::section, true, "Links that NVLink or others give within a host."},
      {"accelerator.tiers.host.ranks", Form::whole, true, "Ranks that it connects."},
      {"accelerator.tiers.host.bandwidth", Form::positive, true, "B/s of one link in one direction."},
      {"accelerator.tiers.host.links", Form::positive, false, "Links of each rank."},
      {"accelerator.tiers.host.latency", Form::positive, true, "Seconds of one message."},
      {"accelerator.tiers.host.reduction", Form::truth, false, "Switches reduce (NVLS, SHARP)."},
      {"accelerator.tiers.host.provenance", Form::words, false, "Where the figures are from."},
      {"accelerator.tiers.net", Form::section, true, "Network between hosts."},
      {"accelerator.tiers.net.ranks", Form::whole, false, "Ranks that it connects."},
      {"accelerator.tiers.net.bandwidth", Form::positive, true, "B/s of one link in one direction."},
      {"accelerator.tiers.net.links", Form::positive, false, "Links of each rank."},
      {"accelerator.tiers.net.latency", Form::positive, true, "Seconds of one message."},
      {"accelerator.tiers.net.reduction", Form::truth, false, "Switches reduce (NVLS, SHARP)."},
      {"accelerator.tiers.net.sockets", Form::truth, false, "It joins sockets of a host, not hosts."},
      {"accelerator.tiers.net.provenance", Form::words, false, "Where the figures are from."},
      {"storage", Form::section, false, "Storage, for checkpoints."},
      {"storage.host_bandwidth", Form::positive, false, "B/s that one host writes."},
      {"storage.filesystem_bandwidth", Form::positive, false, "B/s of the whole file system."},
      {"storage.provenance", Form::words, false, "Where the figures are from."},
      {"peaks", Form::section, false, "Peak rates; f32, bf16 and memory are needed."},
      {"peaks.*.value", Form::positive, true, "The peak."},
      {"peaks.*.unit", Form::text, true, "Its unit."},
      {"peaks.*.provenance", Form::words, false, "Where it is from."},
      {"coefficients", Form::section, false, "Prices of units of work, each with an 80 % interval."},
      {"coefficients.*.value", Form::positive, true, "The price."},
      {"coefficients.*.unit", Form::text, true, "Its unit."},
      {"coefficients.*.lower", Form::positive, true, "Lower end of its 80 % interval."},
      {"coefficients.*.upper", Form::positive, true, "Upper end of its 80 % interval."},
      {"coefficients.*.provenance", Form::words, false, "Where it is from."},
      {"shapes", Form::section, false,
       "Ops of certain shapes as multiples of their price; by isobar calibrate."},
      {"timed", Form::section, false, "Steps that were timed; by isobar calibrate."},
      {"fit", Form::section, false, "Written by isobar fit."},
      {"fit.runs", Form::words, false, "Runs that set it."},
      {"fit.statistic", Form::text, false, "Step time of a run: median, p10 or min."},
      {"fit.notes", Form::words, false, "Remarks of the fit."},
      {"fit.quantile", Form::positive, true, "Factor of intervals."},
      {"fit.spread", Form::section, true, "Spread of predictions by kind of work."},
      {"fit.range", Form::section, false, "Ranges of the runs."},
      {"fit.effects", Form::section, true, "Effects of models and engines."},
      {"fit.effect_sigma", Form::section, true, "Their spreads."},
      {"fit.names", Form::words, false, "Names of the covariance's rows."},
      {"fit.covariance", Form::any, true, "Lower triangle of the covariance."},
      {"engine", Form::text, false, "Whose runs it prices: an engine of `isobar fit`."},
      {"cluster", Form::section, false, "How jobs are submitted."}};
  return rows;
}

bool holds_keys(const std::string& section) {
  return !machine_keys_below(section).empty();
}

json section_schema(const std::string& section) {
  json properties = json::object(), required = json::array();
  for (const MachineKey& k : machine_key_rows()) {
    const std::string path = k.path;
    const size_t dot = path.rfind('.');
    if ((dot == std::string::npos ? "" : path.substr(0, dot)) != section) continue;
    const std::string name = path.substr(dot + 1);
    json one = k.form == Form::section && holds_keys(path) ? section_schema(path) : of_form(k.form);
    if (*k.help) one["description"] = k.help;
    properties[name] = std::move(one);
    if (k.required) required.push_back(name);
  }
  json schema = object_schema(std::move(properties));
  if (!required.empty()) schema["required"] = required;
  return schema;
}

// {value, unit, …} below each name of a table
json named(const std::vector<std::pair<std::string, std::string>>& names_and_help, const json& each) {
  json properties = json::object();
  for (const auto& [name, help] : names_and_help) {
    properties[name] = each;
    properties[name]["description"] = help;
  }
  return object_schema(std::move(properties));
}

}  // namespace

std::vector<std::string> machine_keys_below(const std::string& section) {
  std::vector<std::string> out;
  for (const MachineKey& k : machine_key_rows()) {
    const std::string path = k.path;
    const size_t dot = path.rfind('.');
    if ((dot == std::string::npos ? "" : path.substr(0, dot)) == section) out.push_back(path.substr(dot + 1));
  }
  return out;
}

json machine_schema(json cluster) {
  json schema = section_schema("");
  json& sections = schema["properties"];
  std::vector<std::pair<std::string, std::string>> peaks, coefficients;
  for (const std::string name : kPeaks) peaks.emplace_back(name, "Peak of a core or an accelerator.");
  sections["peaks"] = named(peaks, section_schema("peaks.*"));
  for (size_t i = 0; i < kCoefs; ++i)
    coefficients.emplace_back(info_of(i).name, std::string("Price, in ") + info_of(i).unit + ".");
  sections["coefficients"] = named(coefficients, section_schema("coefficients.*"));
  sections["coefficients"]["additionalProperties"] = true;  // older files have some that no longer are
  sections["cluster"] = std::move(cluster);
  schema["properties"]["inherits"] = {{"type", "string"},
                                      {"description", "A file that is read first, relative to this one."}};
  return schema_file("A machine of isobar", std::move(schema));
}

namespace {

// Ranges span a core of the 1990s to an exascale node, a serial line to a wafer's memory; coefficients a
// hundredth of the best to a million times the usual price.
const std::vector<Bounds>& plain_keys() {
  static const std::vector<Bounds> keys{
      {"identity.cores", "cores", 1, 1e5},
      {"identity.memory_bytes", "B", 1e6, 1e15},
      {"identity.cache_bytes", "B", 1, 1e12},  // 1 stands for none in files of accelerators
      {"accelerator.memory_bytes", "B", 1e8, 1e14},
      {"accelerator.reported_bytes", "B", 1e8, 1e14},
      {"accelerator.processors", "processors", 1, 1e6},
      {"accelerator.power_w", "W", 1, 1e5},
      {"accelerator.host_bandwidth", "B/s", 1e8, 1e14},
      {"accelerator.price_per_hour", "a rank and hour", 1e-4, 1e5},
      {"accelerator.mtbf_hours", "h", 1, 1e8},
      {"accelerator.tiers.host.ranks", "ranks", 1, 1e6},
      {"accelerator.tiers.host.bandwidth", "B/s", 1e7, 1e14},
      {"accelerator.tiers.net.bandwidth", "B/s", 1e6, 1e14},
      {"accelerator.tiers.host.links", "links", 1e-3, 1e3},
      {"accelerator.tiers.net.links", "links", 1e-3, 1e3},
      {"accelerator.tiers.host.latency", "s", 1e-9, 1},
      {"accelerator.tiers.net.latency", "s", 1e-9, 1},
      {"storage.host_bandwidth", "B/s", 1e5, 1e13},
      {"storage.filesystem_bandwidth", "B/s", 1e5, 1e15},
      {"peaks.f32.value", "FLOP/s", 1e7, 1e18},
      {"peaks.tf32.value", "FLOP/s", 1e7, 1e18},
      {"peaks.bf16.value", "FLOP/s", 1e7, 1e18},
      {"peaks.fp8.value", "FLOP/s", 1e7, 1e18},
      {"peaks.fp4.value", "FLOP/s", 1e7, 1e18},
      {"peaks.memory.value", "B/s", 1e7, 1e15},
  };
  return keys;
}
// Coefficients by their unit.
const std::vector<Bounds>& prices_by_unit() {
  static const std::vector<Bounds> prices{{"", "s/FLOP", 1e-19, 1e-5},
                                          {"", "s/B", 1e-19, 1e-3},
                                          {"", "s", 1e-12, 1e4},
                                          {"", "1", 1e-12, 1e6},
                                          {"", "B", 1, 1e14}};
  return prices;
}

std::string shown(double v) {
  return printed("%g", v);
}

const Bounds* bounds_of(const std::string& key) {
  for (const Bounds& b : plain_keys())
    if (key == b.key) return &b;
  const std::string prices = "coefficients.";
  if (!key.starts_with(prices) || !key.ends_with(".value")) return nullptr;
  const auto c = coef_named(key.substr(prices.size(), key.size() - prices.size() - 6));
  if (!c) return nullptr;
  for (const Bounds& b : prices_by_unit())
    if (info_of(*c).unit == b.unit) return &b;
  return nullptr;
}

}  // namespace

std::vector<Bounds> machine_keys() {
  std::vector<Bounds> out = plain_keys();
  for (size_t i = 0; i < kCoefs; ++i) {
    const std::string key = std::string("coefficients.") + info_of(i).name + ".value";
    if (const Bounds* b = bounds_of(key)) out.push_back({key, b->unit, b->least, b->most});
  }
  return out;
}

std::optional<Implausible> implausible(const std::string& key, double value) {
  const Bounds* b = bounds_of(key);
  if (!b || (b->least <= value && value <= b->most)) return std::nullopt;
  Implausible out{"is " + shown(value) + " " + b->unit + ", which no machine has: plausible is " +
                      shown(b->least) + " to " + shown(b->most) + " " + b->unit,
                  "give it in " + b->unit};
  // Tries powers of a thousand in order of likelihood: a wrong unit is the usual mistake.
  for (const int power : {9, 12, 6, 3, -9, -6, -3}) {
    const std::string text = printed("%ge%d", value, power);
    double meant = 0;
    if (std::sscanf(text.c_str(), "%lf", &meant) != 1 || meant < b->least || meant > b->most) continue;
    out.mend = "did you mean " + text + "? " + out.mend;
    break;
  }
  return out;
}

}  // namespace isobar::perf
