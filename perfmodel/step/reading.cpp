#include "perfmodel/step/reading.h"

#include <algorithm>
#include <initializer_list>

#include "perfmodel/step/cost.h"

namespace isobar::perf {
namespace {

/// By the name's ending; of several names, separated by commas, the first.
Coef format_of(const DataSpec& data) {
  if (data.train.empty()) return Coef::read_noise;
  std::string path = data.train.substr(0, data.train.find(','));
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const auto is = [&](std::initializer_list<const char*> endings) {
    return std::any_of(endings.begin(), endings.end(), [&](const char* e) { return path.ends_with(e); });
  };
  return is({".nc", ".nc4"}) ? Coef::read_netcdf : is({".zarr", ".zip"}) ? Coef::read_zarr : Coef::read_hdf5;
}

}  // namespace

Reading reading_of(const RunSpec& spec, const Conditions& where) {
  const int64_t samples = spec.train.global_batch / spec.layout.dp;
  return {.where = where,
          .counts = count_read(spec, samples),
          .workers = spec.data.workers,
          .landed = read_bytes(spec, samples),
          .ahead = spec.train.replay_capacity == 0};
}

double ReadTime::wait(double step) const {
  const double late = by_launcher ? (supply + landing + step) / 2 : 0;
  return std::max({step, supply, landing, late}) - step;
}

ReadTime read_time(const Reading& t, const Counts& k, const Counts& rate) {
  ReadTime r;
  // Batches made by another thread are handed over to the computing one.
  const double handover = t.counts[index_of(Coef::read_handover)] * rate[index_of(Coef::read_handover)];
  const double cpu = seconds(t.counts, rate) - handover;  // CPU-seconds of one rank's step
  // The host is a lane beside an accelerator: it has cores enough, and reads for the next step during this
  // one.
  if (t.where.processors > 0 && (t.workers > 0 || t.ahead)) {
    r.supply = cpu / static_cast<double>(std::max<int64_t>(1, t.workers));
    r.landing = t.landed * rate[index_of(Coef::copy_host)];
    r.by_launcher = t.workers == 0;
    return r;
  }
  if (t.workers == 0) {
    r.serial = cpu;
    return r;
  }
  r.serial = handover;
  const auto w = static_cast<double>(t.workers), ranks = static_cast<double>(t.where.ranks_on_host);
  const auto cores = static_cast<double>(t.where.cores);
  const double busy = std::min(cores, ranks * static_cast<double>(t.where.threads));
  // Idle cores decode for free; the rest of the work displaces compute threads.
  const double displaced = std::max(0.0, 1 - (cores - busy) / (ranks * w));
  r.stolen = k[index_of(Coef::steal)] * cpu * ranks * displaced / busy;
  r.supply = cpu / std::min(w, cores / ranks);
  return r;
}

double read_bytes(const RunSpec& spec, int64_t samples) {
  int64_t numbers = spec.net.sample_numbers();
  if (const Images* i = spec.net.images())  // a target for every roll-out step in the loss
    numbers +=
        ((spec.learnt_steps() - 1) * i->out_channels + (spec.train.rollout - 1) * spec.known_channels()) *
        i->pixels();
  return 4.0 * static_cast<double>(samples) * static_cast<double>(numbers);
}

Counts count_read(const RunSpec& spec, int64_t samples) {
  Counts n{};
  if (spec.net.recorded()) return n;  // its loader is the user's
  const double bytes = read_bytes(spec, samples);
  if (spec.data.workers > 0) n[index_of(Coef::read_handover)] = static_cast<double>(spec.micro_batches());
  if (!spec.net.images()) {  // rows of a table, of tokens or of noise, in memory
    n[index_of(Coef::read_table)] = bytes;
    n[index_of(Coef::read_row)] = static_cast<double>(samples);
    return n;
  }
  const Coef source = format_of(spec.data);
  n[index_of(source)] = bytes;
  if (source == Coef::read_zarr) n[index_of(Coef::read_decode)] = bytes;
  n[index_of(Coef::read_sample)] = static_cast<double>(samples);
  return n;
}

std::string read_kind(const RunSpec& spec) {
  const Coef format = format_of(spec.data);
  const std::string name =
      info_of(format == Coef::read_zarr ? Coef::read_decode : format).name;  // "read.hdf5"
  return "read_" + name.substr(5);
}

}  // namespace isobar::perf
