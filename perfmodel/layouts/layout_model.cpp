#include "perfmodel/layouts/layout_model.h"

#include <algorithm>
#include <cmath>

#include "model/base/error.h"
#include "perfmodel/step/cost.h"
#include "perfmodel/step/utilization.h"

namespace isobar {
namespace {

// A layout's own stages are told apart by the closed forms.
Conditions where_of(const RunSpec& s, const Machine& m, int64_t ranks_on_host, int64_t threads) {
  Conditions w = conditions_of(s, m, ranks_on_host, threads);
  w.stages = 1;
  return w;
}

void blend(SectionTime& t, const SectionTime& other, double share) {
  for (double SectionTime::*member :
       {&SectionTime::seconds, &SectionTime::compute, &SectionTime::weight, &SectionTime::after_reads,
        &SectionTime::tp, &SectionTime::cp, &SectionTime::slowdown, &SectionTime::host, &SectionTime::flops,
        &SectionTime::ceiling})
    t.*member += share * (other.*member - t.*member);
}

Peaks peaks_of(const Machine& m, const Conditions& w) {
  return {peak_flops(m, w, "f32"), peak_flops(m, w, "tf32"), peak_flops(m, w, "bf16"),
          peak_flops(m, w, "fp8")};
}

}  // namespace

LayoutModel::LayoutModel(const RunSpec& spec, const Machine& machine, int64_t ranks_on_host, int64_t threads)
    : spec_(spec),
      machine_(machine),
      where_(where_of(spec, machine, ranks_on_host, threads)),
      peaks_(peaks_of(machine, where_)),
      sixteen_(spec.policy.amp == "bf16" || spec.policy.amp == "fp16" || spec.policy.amp == "fp8"),
      gradient_(spec.policy.main_grads_dtype == "bf16" ? kHalf : kF32),
      moments_(spec.train.optimizer == "sgd" ? 1 : 2),
      cache_(spec) {
  set_coefficients(machine.values());
}

void LayoutModel::set_coefficients(const Counts& coefficients) {
  for (size_t i = 0; i < kCoefs; ++i) machine_.coefficients[i].value = coefficients[i];
  k_ = rates(coefficients, where_);
  known_.clear();
  unit_times_.clear();
  last_ = nullptr;
}

size_t LayoutModel::Hash::operator()(const Key& k) const {
  size_t h = 0;
  for (const int64_t v : {k.section.tp, k.section.cp,
                          static_cast<int64_t>(k.section.sequence_parallel) + 2 * k.section.recompute +
                              8 * k.section.cp_kind + 32 * static_cast<int64_t>(k.section.single),
                          static_cast<int64_t>(k.micro_batch), static_cast<int64_t>(k.tp_per_host),
                          2 * k.cp_per_host + static_cast<int64_t>(k.split)})
    h = (h ^ static_cast<size_t>(v)) * 0x9E3779B97F4A7C15ULL;
  return h ^ (h >> 29);
}

LayoutModel::StageTimes LayoutModel::price(const Key& key, Counts* counts) {
  const NetSections& n = cache_.of(key.section);
  const double slowdown = machine_[Coef::overlap_slowdown].value;
  const Placements at{.tp = static_cast<double>(key.tp_per_host), .cp = static_cast<double>(key.cp_per_host)};
  const auto time = [&](const PartSections& part, int i) {
    const auto of = [&](const Section& s) {
      return time_of(n, s, key.section, key.micro_batch, k_, slowdown, where_, at, peaks_,
                     counts ? counts + i : nullptr, key.split);
    };
    return PartTime{of(part.forward), of(part.backward)};
  };
  return {time(n.embed, 0), time(n.block, 1), time(n.head, 2), &n};
}

// Uniform groups of n blocks: all but one of a group make their last product again, too, and keep nothing.
// "block": the first n of a chunk are recomputed, the others keep all.
LayoutModel::RecomputeMix LayoutModel::mix_of(const Layout& l) const {
  const PolicySpec& policy = spec_.policy;
  const bool some = policy.recompute_method == "block";
  const int64_t n = policy.recompute_num_layers, stages = int64_t{l.pp} * l.vpp, depth = spec_.net.blocks();
  if (l.recompute != kFullRecompute || (!some && n == 1)) return {};
  int64_t other = 0;
  for (int64_t j = 0; j < stages; ++j) {
    const int64_t blocks = stage_depth(depth, stages, j);
    other += some ? std::max<int64_t>(0, blocks - n) : blocks - (blocks + n - 1) / n;
  }
  return {some ? 0 : kGroupRecompute, static_cast<double>(other) / static_cast<double>(depth)};
}

LayoutModel::StageTimes LayoutModel::price_mixed(const Key& key, const RecomputeMix& mix, Counts* counts) {
  StageTimes t = price(key, counts);
  if (mix.share == 0) return t;
  Key other = key;
  other.section.recompute = mix.other;
  std::array<Counts, 3> parts{};
  const StageTimes u = price(other, counts ? parts.data() : nullptr);
  blend(t.block.forward, u.block.forward, mix.share);
  blend(t.block.backward, u.block.backward, mix.share);
  if (counts)
    for (size_t i = 0; i < kCoefs; ++i) counts[1][i] += mix.share * (parts[1][i] - counts[1][i]);
  return t;
}

const LayoutModel::StageTimes& LayoutModel::times_of(const Layout& l, const Placements& at) {
  const RecomputeMix mix = mix_of(l);
  const Key key{l.key(),
                l.micro_batch,
                static_cast<int16_t>(at.tp),
                static_cast<int16_t>(at.cp),
                l.schedule == ScheduleKind::zb_h1,
                static_cast<float>(mix.share)};
  if (last_ && key == last_key_) return *last_;
  auto found = known_.find(key);
  if (found == known_.end()) found = known_.emplace(key, price_mixed(key, mix, nullptr)).first;
  last_key_ = key;
  last_ = &found->second;
  return *last_;
}

const NetSections& LayoutModel::sections_of(const Layout& l) {
  const SectionKey key = l.key();
  if (!last_sections_ || key != last_section_) last_sections_ = &cache_.of(key), last_section_ = key;
  return *last_sections_;
}

// The first stage, which has the embedding; the second, which has blocks that do not come out even; the last.
std::array<LayoutModel::Rank, 3> LayoutModel::ranks_of(const Layout& l) const {
  const int64_t p = l.pp;
  const auto rank = [&](int64_t s) {
    Rank r{s, 0, s == 0, s == p - 1};
    for (int64_t chunk = 0; chunk < l.vpp; ++chunk)
      r.blocks += stage_depth(spec_.net.blocks(), p * l.vpp, chunk * p + s);
    return r;
  };
  return {rank(0), rank(std::min<int64_t>(1, p - 1)), rank(p - 1)};
}

ParameterCounts LayoutModel::parameters_of(const Rank& r, const NetSections& n) const {
  ParameterCounts q{static_cast<double>(r.blocks) * n.block.parameters.cut,
                    static_cast<double>(r.blocks) * n.block.parameters.whole};
  const auto add = [&](const ParameterCounts& x) { q.cut += x.cut, q.whole += x.whole; };
  if (r.first) add(n.embed.parameters);
  if (r.last) add(n.head.parameters);
  return q;
}

double LayoutModel::parameters(const Layout& l) {
  const NetSections& n = sections_of(l);
  const ParameterCounts all = parameters_of({0, spec_.net.blocks(), true, true}, n);
  return all.cut * l.tp + all.whole;
}

double LayoutModel::least_seconds(const Layout& l, const Placements& at) {
  Layout any = l;
  any.schedule = ScheduleKind::one_f_one_b;
  const StageTimes& t = times_of(any, at);
  const int64_t deepest = (spec_.net.blocks() + l.pp - 1) / l.pp;
  const auto blocks = static_cast<double>(deepest);
  return micro_batches(l) * t.of_blocks(blocks, &SectionTime::seconds);
}

void LayoutModel::add_time(const Layout& l, const Placements& at, LayoutCost& c, Counts* counts) {
  const StageTimes& t = times_of(l, at);
  const double m = micro_batches(l);
  const double uneven = machine_[Coef::imbalance].value *
                        std::log2(static_cast<double>(l.dp) * static_cast<double>(l.tp) * l.cp);
  Step step = step_of(l, at, t);
  // Whom the others wait for is not up to its micro-batches alone: the stage that makes the step longest.
  const LayoutCost before = c;
  double longest = -1;
  size_t slow = 0;
  for (size_t i = 0; i < step.ranks.size(); ++i) {
    if (step.times[i] == 0) continue;
    step.slow = i;
    LayoutCost x = before;
    add_compute(l, t, step, x);
    if (l.pp > 1) add_pipeline(l, at, t, step, x);
    add_data_parallel(l, at, t, step, x);
    const double all = (1 + uneven) * x.compute + x.host + x.tp + x.cp + x.slowdown + x.bubble + x.pp + x.dp;
    if (all > longest) longest = all, slow = i, c = x;
  }
  step.slow = slow;
  add_optimizer(l, at, t, step, c);
  c.step = k_[index_of(Coef::step)];
  c.imbalance = uneven * (c.compute + c.optimizer);
  c.seconds = c.compute + c.host + c.tp + c.cp + c.slowdown + c.bubble + c.pp + c.dp + c.optimizer + c.step +
              c.imbalance;
  StepTerms reading;
  reading.where = where_;
  reading.workers = spec_.data.workers;
  reading.read = count_read(spec_, spec_.train.global_batch / l.dp);
  const ReadTime read = read_time(reading, machine_.values(), k_);
  c.data = read.serial + std::max(0.0, read.supply - c.seconds);
  c.seconds += c.data;
  c.flops = m * static_cast<double>(l.dp) * l.cp * l.tp *
            (t.of_blocks(static_cast<double>(spec_.net.blocks()), &SectionTime::flops) +
             t.of_ends(true, true, &SectionTime::flops));
  if (counts) count(l, at, step.slowest(), *t.sections, *counts);
}

// Of the slowest rank's step, hidden or not
void LayoutModel::count(const Layout& l, const Placements& at, const Rank& slow, const NetSections& n,
                        Counts& counts) {
  counts = {};
  std::array<Counts, 3> parts{};  // embedding, block, head
  price_mixed({l.key(), l.micro_batch, static_cast<int16_t>(at.tp), static_cast<int16_t>(at.cp),
               l.schedule == ScheduleKind::zb_h1},
              mix_of(l), parts.data());
  const auto add_part = [&](const Counts& x, double times) {
    for (size_t i = 0; i < kCoefs; ++i) counts[i] += micro_batches(l) * times * x[i];
  };
  if (slow.first) add_part(parts[0], 1);
  add_part(parts[1], static_cast<double>(slow.blocks));
  if (slow.last) add_part(parts[2], 1);
  const double updated = parameters_of(slow, n).all() / shards_of(l);
  counts[index_of(Coef::optimizer)] +=
      updated * ((1 + moments_) * 2 * kF32 + (sixteen_ ? kHalf : 0) + 2 * gradient_);
  counts[index_of(Coef::step)] += 1;
}

LayoutCost LayoutModel::cost(const Layout& l, Counts* counts) {
  LayoutCost c;
  add_memory(l, c);
  add_time(l, placements_of(l, where_.ranks_on_host), c, counts);
  return c;
}

}  // namespace isobar
