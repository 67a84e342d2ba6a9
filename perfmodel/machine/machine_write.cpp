// Writing machine files.
#include <yaml-cpp/yaml.h>

#include <charconv>

#include "model/base/system/files.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/machine/machine_keys.h"

namespace isobar::perf {
namespace {

std::string number(double v) {  // shortest text that reads back as the same double
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v);
  return {buffer, end.ptr};
}

void write_words(YAML::Emitter& out, const std::vector<std::string>& words) {
  out << YAML::Flow << YAML::BeginSeq;
  for (const std::string& w : words) out << YAML::DoubleQuoted << w;
  out << YAML::EndSeq;
}

void write_accelerator(YAML::Emitter& out, const Accelerator& a) {
  const auto value = [&](const char* key, double v) { out << YAML::Key << key << YAML::Value << number(v); };
  out << YAML::Key << "accelerator" << YAML::Value << YAML::BeginMap;
  if (!a.called.empty()) {
    out << YAML::Key << "called" << YAML::Value;
    write_words(out, a.called);
  }
  out << YAML::Key << "name" << YAML::Value << YAML::DoubleQuoted << a.name;
  if (!a.vendor.empty()) out << YAML::Key << "vendor" << YAML::Value << a.vendor;
  out << YAML::Key << "memory_bytes" << YAML::Value << a.memory_bytes;
  if (a.reported_bytes > 0 && a.reported_bytes != a.memory_bytes)
    out << YAML::Key << "reported_bytes" << YAML::Value << a.reported_bytes;
  out << YAML::Key << "processors" << YAML::Value << a.processors;
  if (a.power_w > 0) value("power_w", a.power_w);
  if (a.host_bandwidth > 0) value("host_bandwidth", a.host_bandwidth);
  if (a.price_per_hour > 0) value("price_per_hour", a.price_per_hour);
  if (a.mtbf_hours > 0) value("mtbf_hours", a.mtbf_hours);
  out << YAML::Key << "currency" << YAML::Value << YAML::DoubleQuoted << a.currency;
  out << YAML::Key << "tiers" << YAML::Value << YAML::BeginMap;
  for (const Tier* t : {&a.host, &a.net}) {
    out << YAML::Key << t->name << YAML::Value << YAML::Flow << YAML::BeginMap;
    if (t->ranks > 0) out << YAML::Key << "ranks" << YAML::Value << t->ranks;
    value("bandwidth", t->bandwidth);
    value("links", t->links);
    value("latency", t->latency);
    out << YAML::Key << "reduction" << YAML::Value << t->reduction;
    if (t->sockets) out << YAML::Key << "sockets" << YAML::Value << true;
    out << YAML::Key << "provenance" << YAML::Value;
    write_words(out, t->provenance);
    out << YAML::EndMap;
  }
  out << YAML::EndMap << YAML::Key << "provenance" << YAML::Value;
  write_words(out, a.provenance);
  out << YAML::EndMap;
}

void write_storage(YAML::Emitter& out, const Storage& s) {
  if (s.host_bandwidth == 0 && s.filesystem_bandwidth == 0) return;
  out << YAML::Key << "storage" << YAML::Value << YAML::Flow << YAML::BeginMap;
  for (const auto& [key, v] :
       {std::pair{"host_bandwidth", s.host_bandwidth}, {"filesystem_bandwidth", s.filesystem_bandwidth}})
    if (v > 0) out << YAML::Key << key << YAML::Value << number(v);
  out << YAML::Key << "provenance" << YAML::Value;
  write_words(out, s.provenance);
  out << YAML::EndMap;
}

void write_ranges(YAML::Emitter& out, const char* key, const Ranges& ranges) {
  out << YAML::Key << key << YAML::Value << YAML::BeginMap;
  for (const auto& [name, r] : ranges)
    out << YAML::Key << name << YAML::Value << YAML::Flow << YAML::BeginSeq << number(r[0]) << number(r[1])
        << YAML::EndSeq;
  out << YAML::EndMap;
}

void write_fit(YAML::Emitter& out, const FitRecord& fit) {
  out << YAML::Key << "fit" << YAML::Value << YAML::BeginMap;
  out << YAML::Key << "runs" << YAML::Value;
  write_words(out, fit.runs);
  out << YAML::Key << "statistic" << YAML::Value << YAML::DoubleQuoted << name_of(fit.statistic);
  out << YAML::Key << "notes" << YAML::Value;
  write_words(out, fit.notes);
  out << YAML::Key << "quantile" << YAML::Value << number(fit.quantile);
  out << YAML::Key << "spread" << YAML::Value << YAML::BeginMap;
  for (const auto& [kind, v] : fit.spread) out << YAML::Key << kind << YAML::Value << number(v);
  out << YAML::EndMap;
  write_ranges(out, "range", fit.range);
  out << YAML::Key << "effects" << YAML::Value << YAML::BeginMap;
  for (const auto& [name, v] : fit.effects)
    out << YAML::Key << YAML::DoubleQuoted << name << YAML::Value << number(v);
  out << YAML::EndMap << YAML::Key << "effect_sigma" << YAML::Value << YAML::BeginMap;
  for (const auto& [family, v] : fit.effect_sigma) out << YAML::Key << family << YAML::Value << number(v);
  out << YAML::EndMap << YAML::Key << "names" << YAML::Value;
  std::vector<std::string> names;
  for (size_t i = 0; i < kCoefs; ++i) names.emplace_back(info_of(i).name);
  for (const auto& [name, v] : fit.effects) names.push_back(name);
  write_words(out, names);
  out << YAML::Key << "covariance" << YAML::Value << YAML::BeginSeq;
  for (size_t i = 0; i < names.size(); ++i) {
    out << YAML::Flow << YAML::BeginSeq;
    for (size_t j = 0; j <= i; ++j) out << number(fit.covariance[i * names.size() + j]);
    out << YAML::EndSeq;
  }
  out << YAML::EndSeq << YAML::EndMap;
}

}  // namespace

std::string to_yaml(const Machine& m) {
  YAML::Emitter out;
  const auto text = [&](const char* key, const std::string& v) {
    if (!v.empty()) out << YAML::Key << key << YAML::Value << YAML::DoubleQuoted << v;
  };
  out << YAML::BeginMap;
  text("name", m.name);
  out << YAML::Key << "identity" << YAML::Value << YAML::BeginMap;
  text("host", m.identity.host);
  text("cpu", m.identity.cpu);
  text("isa", m.identity.isa);
  out << YAML::Key << "cores" << YAML::Value << m.identity.cores;
  out << YAML::Key << "memory_bytes" << YAML::Value << m.identity.memory_bytes;
  out << YAML::Key << "cache_bytes" << YAML::Value << m.identity.cache_bytes;
  out << YAML::EndMap;
  if (m.accelerator) write_accelerator(out, *m.accelerator);
  write_storage(out, m.storage);
  out << YAML::Key << "peaks" << YAML::Value << YAML::BeginMap;
  for (const std::string name : kPeaks) {
    if (may_be_absent(name) && !m.peaks.contains(name)) continue;
    const Peak& p = m.peaks.at(name);
    const std::string unit = peak_unit(name, m.accelerator.has_value());
    out << YAML::Key << name << YAML::Value << YAML::Flow << YAML::BeginMap;
    out << YAML::Key << "value" << YAML::Value << number(p.value);
    out << YAML::Key << "unit" << YAML::Value << unit << YAML::Key << "provenance" << YAML::Value;
    write_words(out, p.provenance);
    out << YAML::EndMap;
  }
  out << YAML::EndMap << YAML::Key << "coefficients" << YAML::Value << YAML::BeginMap;
  for (size_t i = 0; i < kCoefs; ++i) {
    const Coefficient& c = m.coefficients[i];
    out << YAML::Key << info_of(i).name << YAML::Value << YAML::Flow << YAML::BeginMap;
    out << YAML::Key << "value" << YAML::Value << number(c.value);
    out << YAML::Key << "unit" << YAML::Value << YAML::DoubleQuoted << info_of(i).unit;
    out << YAML::Key << "lower" << YAML::Value << number(c.lower);
    out << YAML::Key << "upper" << YAML::Value << number(c.upper);
    out << YAML::Key << "provenance" << YAML::Value;
    write_words(out, c.provenance);
    out << YAML::EndMap;
  }
  out << YAML::EndMap;
  if (m.shapes) {
    out << YAML::Key << "shapes" << YAML::Value << YAML::BeginMap;
    for (const auto& [name, factor] : *m.shapes) out << YAML::Key << name << YAML::Value << number(factor);
    out << YAML::EndMap;
  }
  if (!m.timed.empty()) write_ranges(out, "timed", m.timed);
  if (m.fit) write_fit(out, *m.fit);
  if (!m.engine.empty()) out << YAML::Key << "engine" << YAML::Value << YAML::DoubleQuoted << m.engine;
  if (!m.cluster.empty()) out << YAML::Key << "cluster" << YAML::Value << YAML::Load(m.cluster);
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

void save_machine(const Machine& m, const std::string& path) {
  write_atomically(path, to_yaml(m));
}

}  // namespace isobar::perf
