#include "perfmodel/layouts/layout_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/base/error.h"
#include "model/base/spec/settings_of_others.h"
#include "model/nets/layout/plan_size.h"
#include "model/nets/parts.h"
#include "model/plan/ops/op_table.h"
#include "perfmodel/machine/device.h"
#include "perfmodel/step/engine_prices.h"
#include "perfmodel/step/expert_imbalance.h"
#include "perfmodel/step/utilization.h"

namespace isobar::perf {
namespace {

// Closed forms distinguish a layout's own stages.
Conditions where_of(const RunSpec& s, const Machine& m, const HostShare& host) {
  Conditions w = conditions_of(s, m, host);
  w.stages = 1;
  return w;
}

void blend(SectionTime& t, const SectionTime& other, double share) {
  for (double SectionTime::*member :
       {&SectionTime::seconds, &SectionTime::compute, &SectionTime::weight, &SectionTime::after_reads,
        &SectionTime::device_after_reads, &SectionTime::tp, &SectionTime::cp, &SectionTime::ep,
        &SectionTime::slowdown, &SectionTime::host, &SectionTime::launches, &SectionTime::flops,
        &SectionTime::ceiling})
    t.*member += share * (other.*member - t.*member);
}

}  // namespace

LayoutModel::LayoutModel(const RunSpec& spec, const Machine& machine, const HostShare& host,
                         std::shared_ptr<SectionCache> sections)
    : spec_(spec),
      machine_(machine_of(spec, machine)),
      where_(where_of(spec, machine_, host)),
      peaks_(peaks_of(machine_, where_)),
      cache_share_(cache_of_rank(machine_, where_.ranks_on_host)),
      imbalance_(imbalance_of(spec, machine_)),
      sixteen_(!spec.net.recorded() &&
               (spec.policy.amp == Amp::bf16 || spec.policy.amp == Amp::fp16 || spec.policy.amp == Amp::fp8)),
      gradient_(spec.policy.main_grads_dtype == GradientType::bf16 ? kHalf : kF32),
      moments_(spec.train.optimizer == OptimizerKind::sgd ? 1 : 2),
      average_(spec.train.ema > 0 ? 1 : 0),
      net_(spec.net),
      priced_inner_(net_.distinct()),
      cache_(sections ? std::move(sections) : std::make_shared<SectionCache>(spec, where_)),
      mixes_{std::vector<double>(net_.distinct())} {
  refuse_settings_of_others(spec);
  nets::check_equal_parts(spec);
  int inner = 0;
  for (const PartCount& c : net_.counts) inner += c.inner > 0 ? 1 : 0;
  unequal_stages_ = inner > 1 || !spec.layout.stages.empty();
  for (const PartCount& c : NetParts(nets::distinct_parts(spec.net)).counts) priced_inner_[c.part] = c.inner;
  set_coefficients(machine_.values());
}

void LayoutModel::set_coefficients(const Counts& coefficients) {
  for (size_t i = 0; i < kCoefs; ++i) machine_.coefficients[i].value = coefficients[i];
  k_ = rates(coefficients, where_);
  known_.clear();
  unit_times_.clear();
  last_ = nullptr;
  read_.clear();
}

void LayoutModel::set_batch(int64_t samples) {
  spec_.train.global_batch = samples;
  read_.clear();
}

size_t LayoutModel::Hash::operator()(const Key& k) const {
  size_t h = 0;
  for (const int64_t v :
       {k.section.tp, k.section.cp,
        static_cast<int64_t>(k.section.sequence_parallel) + 2 * static_cast<int64_t>(k.section.recompute) +
            8 * static_cast<int64_t>(k.section.cp_kind) + 32 * static_cast<int64_t>(k.section.alone) +
            (static_cast<int64_t>(k.section.grouped) << 50),
        static_cast<int64_t>(k.micro_batch) + (static_cast<int64_t>(k.mix) << 32) +
            (static_cast<int64_t>(k.added) << 40),
        static_cast<int64_t>(k.tp_per_host) + (k.section.ep << 16) +
            (static_cast<int64_t>(k.ep_per_host) << 40),
        2 * k.cp_per_host + static_cast<int64_t>(k.split)})
    h = (h ^ static_cast<size_t>(v)) * 0x9E3779B97F4A7C15ULL;
  return h ^ (h >> 29);
}

OpPrices LayoutModel::op_prices() const {
  return {.rates = k_,
          .slowdown = machine_[Coef::overlap_slowdown].value,
          .cache_share = cache_share_,
          .serial = spec_.run.serial,
          .added = 0,
          .where = where_,
          .peaks = peaks_};
}

double LayoutModel::op_time(plan::OpKind kind, double bytes, double vector_flops) const {
  OpShape s{.kind = kind, .price = plan::info_of(kind).price, .dtype = DType::f32};
  s.work.bytes_read = bytes;
  s.work.vector_flops = vector_flops;
  return op_seconds(s, k_, where_, cache_share_);
}

LayoutModel::StageTimes LayoutModel::price(const Key& key, Counts* counts) {
  const NetSections& n = cache_->of(key.section);
  OpPrices prices = op_prices();
  prices.added = key.added / (key.added + 1.0);
  const Placements at{.tp = static_cast<double>(key.tp_per_host),
                      .cp = static_cast<double>(key.cp_per_host),
                      .ep = static_cast<double>(key.ep_per_host)};
  const auto time = [&](const PartSections& part, size_t i) {
    const auto of = [&](const Section& s) {
      return time_of(n, s, key.section, key.micro_batch, prices, at, counts ? counts + i : nullptr,
                     key.split);
    };
    return PartTime{of(part.forward), of(part.backward)};
  };
  StageTimes t{{}, &n, {}};
  for (size_t i = 0; i < n.parts.size(); ++i) t.parts.push_back(time(n.parts[i], i));
  return t;
}

// Uniform groups: all but one part of a group also recompute their last product, and save nothing. "block": a
// chunk's first parts are recomputed, the others save all.
SectionKey LayoutModel::mixed_with(SectionKey section) const {
  section.grouped = spec_.policy.recompute_method != RecomputeMethod::block;
  section.recompute = section.grouped ? Recompute::full : Recompute::none;
  return section;
}

LayoutModel::StageTimes LayoutModel::price_mixed(const Key& key, Counts* counts) {
  StageTimes t = price(key, counts);
  if (key.mix == 0) return t;
  Key other = key;
  other.section = mixed_with(key.section);
  std::vector<Counts> parts(t.parts.size());
  const StageTimes u = price(other, counts ? parts.data() : nullptr);
  for (size_t p = 0; p < parts.size(); ++p) {
    const double share = mixes_[key.mix][p];
    blend(t.parts[p].forward, u.parts[p].forward, share);
    blend(t.parts[p].backward, u.parts[p].backward, share);
    if (counts)
      for (size_t i = 0; i < kCoefs; ++i) counts[p][i] += share * (parts[p][i] - counts[p][i]);
  }
  return t;
}

LayoutModel::Key LayoutModel::key_of(const Layout& l, const Placements& at) {
  return {
      sections_key(l),
      l.micro_batch,
      static_cast<int16_t>(at.tp),
      static_cast<int16_t>(at.cp),
      static_cast<int16_t>(at.ep),
      l.schedule == PipelineSchedule::zb_h1,
      l.recompute == Recompute::full ? stages_of(l).mix : 0,
      (on_cores() || spec_.net.recorded()) && l.zero < 2 ? static_cast<int32_t>(micro_batches(l)) - 1 : 0};
}

const LayoutModel::StageTimes& LayoutModel::times_of(const Layout& l, const Placements& at) {
  const Key key = key_of(l, at);
  if (last_ && key == last_key_) return *last_;
  auto found = known_.find(key);
  if (found == known_.end()) {
    StageTimes t = price_mixed(key, nullptr);
    t.device = t.parts;
    for (PartTime& part : t.device)
      for (SectionTime* pass : {&part.forward, &part.backward})
        pass->seconds -= pass->host, pass->after_reads = pass->device_after_reads;
    found = known_.emplace(key, std::move(t)).first;
  }
  last_key_ = key;
  last_ = &found->second;
  return *last_;
}

const NetSections& LayoutModel::sections_of(const Layout& l) {
  const SectionKey key = sections_key(l);
  if (!last_sections_ || key != last_section_) last_sections_ = &cache_->of(key), last_section_ = key;
  return *last_sections_;
}

const StageKinds& LayoutModel::stages_of(const Layout& l) {
  const uint64_t cut = static_cast<uint64_t>(l.pp) << 32 | static_cast<uint64_t>(l.vpp);
  if (last_stages_ && cut == last_cut_) return *last_stages_;
  auto found = stages_.find(cut);
  if (found == stages_.end()) {
    StageKinds fresh = cut_stages(net_, nets::cuts_of(spec_.net, int64_t{l.pp} * l.vpp, spec_.layout.stages),
                                  l.pp, l.vpp, spec_.policy);
    auto mix = std::find(mixes_.begin(), mixes_.end(), fresh.otherwise);
    if (mix == mixes_.end()) mix = mixes_.insert(mixes_.end(), fresh.otherwise);
    fresh.mix = static_cast<int32_t>(mix - mixes_.begin());
    found = stages_.emplace(cut, std::move(fresh)).first;
  }
  last_cut_ = cut;
  last_stages_ = &found->second;
  return *last_stages_;
}

ParameterCounts LayoutModel::parameters_of(const std::vector<PartCount>& counts, const NetSections& n) {
  ParameterCounts q;
  for (const PartCount& c : counts) q.add(c.count, n.parts[c.part].parameters);
  return q;
}

double LayoutModel::parameters(const Layout& l) {
  const ParameterCounts all = parameters_of(net_.counts, sections_of(l));
  return (all.cut + all.frozen_cut + (all.expert + all.frozen_expert) * l.ep) * l.tp + all.whole +
         all.partial + all.frozen_whole;
}

// In any distribution of parts some stage has at least its share of the total, and of each kind, rounded up.
// Hosts may run ahead.
double LayoutModel::least_seconds(const Layout& l, const Placements& at) {
  Layout any = l;
  any.schedule = PipelineSchedule::one_f_one_b;
  const StageTimes& t = times_of(any, at);
  double all = 0, most = 0;
  for (const PartCount& c : net_.counts) {
    const double each = t.parts[c.part].of(&SectionTime::seconds) - t.parts[c.part].of(&SectionTime::host);
    all += c.inner * each;
    most = std::max(most, std::ceil(c.inner / l.pp) * each);
  }
  return micro_batches(l) * std::max(most, all / l.pp);
}

const ReadTime& LayoutModel::read_of(const Layout& l) {
  const std::array<int64_t, 3> batches{spec_.train.global_batch / l.dp,
                                       static_cast<int64_t>(micro_batches(l)), l.workers};
  const auto [known, fresh] = read_.try_emplace(batches);
  if (fresh) known->second = read_time(reading_of(with_layout(spec_, l), where_), machine_.values(), k_);
  return known->second;
}

double LayoutModel::data_of(const Layout& l, double rest) {
  const ReadTime& read = read_of(l);
  const double taken = read.serial + read.stolen;
  return taken + read.wait(rest + taken);
}

void LayoutModel::choose_workers(Layout& l, LayoutCost& c, const std::vector<int32_t>& workers) {
  constexpr double kAlike = 1.01;
  const double rest = c.seconds - c.data;
  double least = std::numeric_limits<double>::infinity();
  for (const int32_t w : workers) l.workers = w, least = std::min(least, data_of(l, rest));
  for (const int32_t w : workers) {
    l.workers = w, c.data = data_of(l, rest), c.seconds = rest + c.data;
    if (c.seconds <= kAlike * (rest + least)) return;
  }
}

void LayoutModel::add_time(const Layout& l, const Placements& at, LayoutCost& c, Counts* counts) {
  const StageTimes& t = times_of(l, at);
  const double m = micro_batches(l);
  const double uneven =
      machine_[Coef::imbalance].value *
          std::log2(static_cast<double>(l.dp) * static_cast<double>(l.tp) * l.cp) +
      machine_[Coef::lockstep].value * std::log2(static_cast<double>(l.tp) * std::max(l.cp, l.ep));
  Step& step = step_of(l, at, t);
  // The slowest stage is not determined by its micro-batches alone: take the one that makes the step longest.
  const LayoutCost before = c;
  double longest = -1;
  size_t slow = 0;
  for (size_t i = 0; i < step.kinds.size(); ++i) {
    step.slow = i;
    LayoutCost x = before;
    add_compute(l, t, step, x);
    if (l.pp > 1) add_pipeline(l, at, t, step, x);
    add_data_parallel(l, at, t, step, x);
    const double waits = x.tp + x.cp + x.ep + x.slowdown + x.bubble + x.pp + x.dp;
    if (l.pp == 1 && launched_apart(l) && !on_cores())
      x.host = std::max(0.0, launched(l, step.stages->kinds[i], t, step.kinds[i]) - x.compute - waits);
    // Collectives of ZeRO 2 and 3 are also launched in sequence with all ops; the host continues while ranks
    // wait.
    if (l.zero >= 2 && !on_cores()) {
      const double launches = m * launches_of(step.stages->kinds[i], t, *step.kinds[i].units, l.zero);
      x.host = std::max(x.host, launches - x.compute - waits);
    }
    const double all = (1 + uneven) * x.compute + x.host + waits;
    if (all > longest) longest = all, slow = i, c = x;
  }
  step.slow = slow;
  if (replays() && l.pp > 1) c.pp += step.round;  // once, after the backward pass
  add_optimizer(l, at, t, step, c);
  c.step = k_[index_of(Coef::step)];
  c.imbalance = uneven * (c.compute + c.optimizer);
  c.seconds = c.compute + c.host + c.tp + c.cp + c.ep + c.slowdown + c.bubble + c.pp + c.dp + c.optimizer +
              c.step + c.imbalance;
  c.data = data_of(l, c.seconds);
  c.seconds += c.data;
  c.flops = m * static_cast<double>(l.dp) * l.cp * l.tp * t.of(net_.counts, &SectionTime::flops);
  if (counts) count(l, at, step.slowest(), *t.sections, *counts);
}

// Counts of the slowest rank's step, hidden or not
void LayoutModel::count(const Layout& l, const Placements& at, const StageKind& slow, const NetSections& n,
                        Counts& counts) {
  counts = {};
  std::vector<Counts> parts(n.parts.size());
  price_mixed(key_of(l, at), parts.data());
  for (const PartCount& c : slow.counts)
    for (size_t i = 0; i < kCoefs; ++i) counts[i] += micro_batches(l) * c.count * parts[c.part][i];
  const double updated = updated_of(l, parameters_of(slow.counts, n));
  counts[index_of(Coef::optimizer)] +=
      updated * ((1 + moments_) * 2 * kF32 + 3 * average_ * kF32 + (sixteen_ ? kHalf : 0) + 2 * gradient_);
  counts[index_of(Coef::step)] += 1;
}

LayoutCost LayoutModel::time(const Layout& l) {
  LayoutCost c;
  add_time(l, placements_of(l, where_.ranks_on_host), c);
  return c;
}

LayoutCost LayoutModel::cost(const Layout& l, Counts* counts) {
  LayoutCost c;
  add_memory(l, c);
  add_time(l, placements_of(l, where_.ranks_on_host), c, counts);
  return c;
}

}  // namespace isobar::perf
