#include "perfmodel/step/cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace isobar {
namespace {

// Clocks for compute and each lane of collectives; they synchronise at the chunks' joins.
struct Clocks {
  double compute = 0, slowdown = 0;
  LaneSeconds communication{}, exposed{};
};

// Compute runs at 1 / (1 + slowdown) of its speed while a lane is busy, unless its core makes the transfer.
Clocks run_chunks(const StepTerms& t, const Counts& rate, double slowdown) {
  struct End {
    double at = 0;
    size_t lane = 0;
  };
  Clocks c;
  double now = 0;
  End busy, stopped;
  LaneSeconds lane_free{};
  std::vector<End> ends;
  const auto wait_for = [&](const End& e) {
    c.exposed[e.lane] += std::max(0.0, e.at - now);
    now = std::max(now, e.at);
  };
  for (const Chunk& chunk : t.chunks) {
    for (int j : chunk.join) wait_for(ends[static_cast<size_t>(j)]);
    wait_for(stopped);
    const double work = seconds(chunk.compute, rate);
    c.compute += work;
    const double shared = std::min(work, std::max(0.0, busy.at - now) / (1 + slowdown));
    c.slowdown += shared * slowdown;
    now += work + shared * slowdown;
    for (const Collective& collective : chunk.collectives) {
      const double s = seconds(collective.counts, rate);
      const auto lane = static_cast<size_t>(collective.lane);
      c.communication[lane] += s;
      double& free = lane_free[lane];
      free = std::max(free, now);
      for (int j : collective.after) free = std::max(free, ends[static_cast<size_t>(j)].at);
      free += s;
      ends.push_back({free, lane});
      if (free > busy.at) busy = ends.back();
      if (free > stopped.at && t.where.stops_compute(collective.counts)) stopped = ends.back();
    }
  }
  wait_for(busy);
  return c;
}

}  // namespace

Counts rates(const Counts& k, const Conditions& w) {
  const auto t = static_cast<double>(w.threads), cores = static_cast<double>(w.cores);
  const double wanted = t * static_cast<double>(w.ranks_on_host);
  const double turns = std::max(1.0, wanted / cores);
  const double team = (1 + k[index_of(Coef::threads_serial)] * (t - 1)) / t;
  const double others = cores > 1 ? (std::min(wanted, cores) - 1) / (cores - 1) : 0;
  const double compute = turns * team * (1 + k[index_of(Coef::share_compute)] * others);
  const double memory = turns * team * (1 + k[index_of(Coef::share_memory)] * others);
  // All ranks of a host exchange through its memory at once.
  const double pairs = cores > 1
                           ? 1 + k[index_of(Coef::share_memory)] *
                                     std::max(0.0, std::min<double>(w.ranks_on_host, cores) - 2) / (cores - 1)
                           : 1;
  Counts out;
  for (size_t i = 0; i < kCoefs; ++i) {
    switch (info_of(i).resource) {
      case Resource::compute:
        out[i] = k[i] * compute;
        break;
      case Resource::memory:
        out[i] = k[i] * memory;
        break;
      case Resource::serial:
      case Resource::host:
        out[i] = k[i] * turns;
        break;
      case Resource::fork:
        out[i] = k[i] * turns * std::log2(t);
        break;
      case Resource::wire:
        out[i] = k[i] * (i == index_of(Coef::message_host) || i == index_of(Coef::wire_host) ? pairs : 1);
        break;
      case Resource::read:
      case Resource::write:
        out[i] = k[i];
        break;
      case Resource::sharing:
      case Resource::bytes:
        out[i] = 0;
        break;
    }
  }
  return out;
}

double seconds(const Counts& counts, const Counts& rates) {
  double s = 0;
  for (size_t i = 0; i < kCoefs; ++i) s += counts[i] * rates[i];
  return s;
}

double ReadTime::wait(double step) const {
  const double late = by_launcher ? (supply + landing + step) / 2 : 0;
  return std::max({step, supply, landing, late}) - step;
}

ReadTime read_time(const StepTerms& t, const Counts& k, const Counts& rate) {
  ReadTime r;
  // Batches made by another thread are handed over to the computing one.
  const double handover = t.read[index_of(Coef::read_handover)] * rate[index_of(Coef::read_handover)];
  const double cpu = seconds(t.read, rate) - handover;  // CPU-seconds of one rank's step
  // The host is a lane beside an accelerator: it has cores enough, and reads for the next step during this
  // one.
  if (t.where.processors > 0 && (t.workers > 0 || t.reads_ahead)) {
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

StepCost step_cost(const StepTerms& t, const Counts& k) {
  const Counts rate = rates(k, t.where);
  StepCost s;
  const Clocks c = run_chunks(t, rate, k[index_of(Coef::overlap_slowdown)]);
  for (size_t i = 0; i < kCoefs; ++i) s.parts[i] = t.total[i] * rate[i];
  s.compute = c.compute;
  s.by_lane = c.communication;
  s.exposed_by_lane = c.exposed;
  s.communication = std::accumulate(c.communication.begin(), c.communication.end(), 0.0);
  s.exposed = std::accumulate(c.exposed.begin(), c.exposed.end(), 0.0);
  s.slowdown = c.slowdown;
  // Pipeline transfers that are hidden run beside compute.
  const double transfers = seconds(t.transfers, rate), slower = k[index_of(Coef::overlap_slowdown)];
  s.communication += transfers;
  s.bubble = seconds(t.bubble, rate);
  s.slowdown += transfers * (t.where.stops_compute(t.transfers) ? 1 : slower / (1 + slower));
  s.step = s.part(Coef::step);
  s.imbalance = t.where.waits(k) * c.compute;
  const ReadTime read = read_time(t, k, rate);
  s.read_serial = read.serial;
  s.stolen = read.stolen;
  s.total = s.compute + s.exposed + s.slowdown + s.imbalance + s.step + s.read_serial + s.stolen + s.bubble;
  s.data_wait = read.wait(s.total);
  s.total += s.data_wait;
  return s;
}

double step_seconds(const StepTerms& t, const Counts& k) {
  return step_cost(t, k).total;
}

double ceiling_seconds(const StepTerms& t, double peak_f32, double peak_bf16) {
  const double cores = static_cast<double>(t.where.cores) / static_cast<double>(t.where.ranks_on_host);
  const double usable = std::min(static_cast<double>(t.where.threads), cores);
  return (t.flops_f32 / peak_f32 + t.flops_bf16 / peak_bf16) / usable;
}

}  // namespace isobar
