#include "model/engine/observers/rank_metrics.h"

#include <algorithm>

#include "model/base/system/cpus.h"
#include "model/base/text/json.h"
#include "model/engine/host/host.h"

namespace isobar::engine {
namespace {

EnergyCounters counters_of(const Processor& processor, const comm::Mpi& mpi, bool gpu) {
  if (gpu) return processor.energy();
  return mpi.rank_on_host() == 0 ? rapl_counters() : EnergyCounters();
}

}  // namespace

RankMetrics::RankMetrics(const plan::Plan& plan, const Processor& processor, const comm::Mpi& mpi, bool gpu)
    : plan_(plan),
      processor_(processor),
      mpi_(mpi),
      gpu_(gpu),
      meter_(counters_of(processor, mpi, gpu)),
      load_(gpu ? [&processor] { return processor.load(); } : LoadMeter::Read()),
      first_(cores_now()) {}

RankMetrics::Cores RankMetrics::cores_now() const {
  return {std::chrono::steady_clock::now(), own_cpu_seconds(), busy_seconds(mpi_.cpus())};
}

void RankMetrics::reset() {
  meter_.reset();
  load_.reset();
  steps_ = 0;
  step_s_ = data_wait_s_ = 0;
  first_ = cores_now();
}

void RankMetrics::add(double step_s, double data_wait_s) {
  ++steps_;
  step_s_ += step_s, data_wait_s_ += data_wait_s;
}

records::RanksRecord RankMetrics::own(int64_t step, const Runner& runner) const {
  const double n = std::max<double>(1, static_cast<double>(steps_));
  records::RankRecord r{.rank = mpi_.rank(),
                        .host = host_name(),
                        .step_s = step_s_ / n,
                        .data_wait_s = data_wait_s_ / n,
                        .rss_bytes = resident_bytes(),
                        .peak_rss_bytes = peak_resident_bytes()};
  if (!gpu_) {  // a GPU times ops only while traced
    double compute = 0;
    const std::vector<OpTime>& times = runner.op_times();
    for (size_t i = 0; i < plan_.ops.size(); ++i)
      if (plan_.ops[i].lane == plan::Lane::compute && plan_.ops[i].kind != plan::OpKind::fetch)
        compute += times[i].seconds;
    r.compute_s = compute / n;
  }
  if (gpu_)
    r.mhz = processor_.mhz();
  else if (const double mhz = cores_mhz(); mhz > 0)
    r.mhz = mhz;
  const Cores now = cores_now();
  const double wall = std::chrono::duration<double>(now.at - first_.at).count();
  // Work on cores that ranks share only in part may be theirs or another's.
  if (mpi_.rank_on_cores() >= 0) r.used_cores = (now.own_s - first_.own_s) / wall;
  if (now.busy_s && first_.busy_s && mpi_.rank_on_cores() == 0) {
    r.cores = static_cast<double>(mpi_.cpus().size());
    r.busy_cores = (*now.busy_s - *first_.busy_s) / wall;
  }
  if (const auto load = load_.mean()) {
    r.busy = load->busy, r.celsius = load->celsius;
    r.pcie_in_bytes_s = load->pcie_in_bytes_s, r.pcie_out_bytes_s = load->pcie_out_bytes_s;
  }
  records::RanksRecord out{.step = step, .steps = steps_};
  if (meter_.on() && meter_.seconds() > 0) {
    r.watts = meter_.joules() / meter_.seconds();
    out.joules_per_step = meter_.joules() / n;
    out.energy = meter_.names();
  } else if (!meter_.why().empty()) {
    out.energy = meter_.why();
  }
  out.ranks.push_back(std::move(r));
  return out;
}

records::RanksRecord RankMetrics::report(int64_t step, const Runner& runner) {
  pause();
  std::vector<records::RanksRecord> all;
  for (const std::string& line :
       mpi_.to_first(json_text(records::to_json(records::Record(own(step, runner))))))
    all.push_back(std::get<records::RanksRecord>(
        records::record_from_json(nlohmann::json::parse(line), {.file = "a rank"})));
  return merged(all);
}

records::RanksRecord merged(const std::vector<records::RanksRecord>& of_ranks) {
  records::RanksRecord out;
  double joules = 0;
  size_t metered = 0;
  bool known = true;
  for (const records::RanksRecord& r : of_ranks) {
    out.step = r.step, out.steps = r.steps;
    out.ranks.insert(out.ranks.end(), r.ranks.begin(), r.ranks.end());
    if (!r.energy) continue;  // another rank meters its host
    if (r.joules_per_step)
      joules += *r.joules_per_step, ++metered;
    else
      known = false;
    if (!out.energy || !r.joules_per_step) out.energy = r.energy;
  }
  if (!known || metered == 0) return out;
  out.joules_per_step = joules;
  if (metered > 1) *out.energy += " of each of " + std::to_string(metered);
  return out;
}

}  // namespace isobar::engine
