#include "model/engine/host/energy_meter.h"

#include <algorithm>
#include <fstream>

#include "model/base/text/joined.h"
#include "model/engine/executor.h"

namespace isobar::engine {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLookAgain_ns = 20'000'000'000;  // shorter than any wrap: 65 kJ at 1 kW last 65 s

std::string word_of(const fs::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

std::optional<double> joules_in(const fs::path& file) {
  std::ifstream in(file);
  double microjoules = 0;
  if (!(in >> microjoules)) return std::nullopt;
  return microjoules * 1e-6;
}

}  // namespace

EnergyCounters rapl_counters(const fs::path& powercap) {
  EnergyCounters out;
  std::error_code error;
  std::vector<fs::path> domains;
  for (const auto& entry : fs::directory_iterator(powercap, error)) domains.push_back(entry.path());
  std::sort(domains.begin(), domains.end());
  for (const fs::path& domain : domains) {
    // intel-rapl:0 is a package and intel-rapl:0:1 a domain in it; dram is additional to the package, core is
    // part of it.
    const std::string id = domain.filename(), name = word_of(domain / "name");
    if (!id.starts_with("intel-rapl:") || !(name.starts_with("package") || name == "dram")) continue;
    const fs::path file = domain / "energy_uj";
    if (!joules_in(file)) {
      out.why =
          file.string() + " cannot be read: only root may, unless an administrator allows it (chmod a+r)";
      return {{}, out.why};
    }
    const std::string parent = name == "dram" ? word_of(powercap / id.substr(0, id.rfind(':')) / "name") : "";
    out.all.push_back({parent.empty() ? name : name + " of " + parent, [file] { return joules_in(file); },
                       joules_in(domain / "max_energy_range_uj").value_or(0)});
  }
  if (out.all.empty())
    out.why = powercap.string() + " has no RAPL counters: a virtual machine, or an older kernel";
  return out;
}

void EnergyMeter::reset() {
  joules_ = seconds_ = 0;
  if (running_) running_ = false, run();
}

void EnergyMeter::run() {
  if (!on()) return;
  if (running_ && now_ns() - looked_ns_ < kLookAgain_ns) return;
  look();
  running_ = true;
}

void EnergyMeter::pause() {
  if (running_) look();
  running_ = false;
}

void EnergyMeter::look() {
  const int64_t now = now_ns();
  if (running_) seconds_ += static_cast<double>(now - looked_ns_) * 1e-9;
  looked_ns_ = now;
  at_.resize(counters_.all.size());
  for (size_t i = 0; i < at_.size(); ++i) {
    const EnergyCounter& c = counters_.all[i];
    const std::optional<double> read = c.read();
    if (!read) {  // a partial sum would be wrong
      counters_ = {{}, c.name + " stopped answering"};
      joules_ = seconds_ = 0;
      return;
    }
    const double more = *read - at_[i];
    if (running_) joules_ += more < 0 ? more + c.wraps_at : more;
    at_[i] = *read;
  }
}

std::string EnergyMeter::names() const {
  return joined(counters_.all, ", ", &EnergyCounter::name);
}

}  // namespace isobar::engine
