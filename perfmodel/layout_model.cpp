#include "perfmodel/layout_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "model/base/error.h"
#include "model/nets/build.h"
#include "model/plan/layout.h"
#include "model/plan/schedule.h"
#include "perfmodel/fit.h"

namespace isobar {
namespace {

constexpr const char* kSchedules[] = {"gpipe", "1f1b", "interleaved", "zb-h1"};
constexpr double kF32 = 4, kHalf = 2;

template <class List>
int index_in(const List& list, const std::string& word) {
  return static_cast<int>(std::find(std::begin(list), std::end(list), word) - std::begin(list));
}

// Blocks of virtual stage j, as stage_depths() deals them out.
int64_t blocks_of(int64_t depth, int64_t stages, int64_t j) {
  return depth / stages + (j >= 1 && j <= depth % stages ? 1 : 0);
}

Conditions where_of(const RunSpec& s, const Machine& m) {
  const int64_t world = s.layout.world();
  if (m.accelerator) return conditions_of(*m.accelerator, world);
  return {.ranks = world,
          .ranks_on_host = world,
          .threads = threads_of(s, m.identity.cores, world),
          .cores = m.identity.cores};
}

Peaks peaks_of(const Machine& m, const Conditions& w) {
  // Ranks without accelerators compute with the cores that they can use.
  const double cores = m.accelerator
                           ? 1
                           : std::min(static_cast<double>(w.threads),
                                      static_cast<double>(w.cores) / static_cast<double>(w.ranks_on_host));
  return {cores * m.peaks.at("f32").value, cores * m.peaks.at("tf32").value, cores * m.peaks.at("bf16").value,
          cores * m.peaks.at("fp8").value};
}

// Micro-batches in flight of each chunk of a stage. The count settles once the pipeline is full.
const std::vector<int64_t>& slots_of(ScheduleKind kind, int p, int stage, int64_t m, int v) {
  using Key = std::tuple<ScheduleKind, int, int, int64_t, int>;
  thread_local std::map<Key, std::vector<int64_t>> known;
  m = std::min<int64_t>(m, 4 * p);
  auto& slots = known[{kind, p, stage, m, v}];
  if (slots.empty())
    slots =
        in_flight(schedule_actions(kSchedules[static_cast<int>(kind)], p, stage, static_cast<int>(m), v), v);
  return slots;
}

}  // namespace

const std::vector<std::string>& rank_orders() {
  static const std::vector<std::string> orders = [] {
    std::vector<std::string> axes{"tp", "cp", "dp", "pp"}, out;
    std::vector<int> at{0, 1, 2, 3};
    do out.push_back(axes[at[0]] + "-" + axes[at[1]] + "-" + axes[at[2]] + "-" + axes[at[3]]);
    while (std::next_permutation(at.begin(), at.end()));
    return out;
  }();
  return orders;
}

Placements placements_of(const Layout& l, int64_t ranks_on_host) {
  static const auto axes = [] {  // of each order, as indices of tp, cp, dp, pp
    std::vector<std::array<int, 4>> out;
    std::array<int, 4> at{0, 1, 2, 3};
    do out.push_back(at);
    while (std::next_permutation(at.begin(), at.end()));
    return out;
  }();
  const std::array<double, 4> size{static_cast<double>(l.tp), static_cast<double>(l.cp),
                                   static_cast<double>(l.dp), static_cast<double>(l.pp)};
  std::array<double, 4> here{};
  double stride = 1;
  for (int axis : axes[l.order]) {
    here[axis] = std::clamp(std::floor(static_cast<double>(ranks_on_host) / stride), 1.0, size[axis]);
    while (std::fmod(size[axis], here[axis]) != 0) --here[axis];  // hosts that a group fills alike
    stride *= size[axis];
  }
  return {.tp = here[0], .cp = here[1], .dp = here[2], .pp = here[3]};
}

Layout layout_of(const RunSpec& s) {
  if (s.policy.recompute_num_layers != 1 || s.policy.recompute_method != "uniform")
    throw ConfigError(s.file, "policy.recompute_num_layers",
                      "the closed form of layouts knows full recomputation block by block only",
                      "leave out recompute_num_layers and recompute_method, or predict it by replay");
  const auto i32 = [](int64_t v) { return static_cast<int32_t>(v); };
  Layout l{.dp = i32(s.layout.dp),
           .tp = i32(s.layout.tp),
           .cp = i32(s.layout.cp),
           .pp = i32(s.layout.pp),
           .vpp = i32(s.layout.vpp),
           .micro_batch = i32(s.micro_batch()),
           .schedule = static_cast<ScheduleKind>(index_in(kSchedules, s.policy.schedule)),
           .zero = static_cast<int8_t>(s.policy.zero),
           .sequence_parallel = s.policy.sequence_parallel && s.layout.tp > 1,
           .recompute = static_cast<int8_t>(index_in(kRecompute, s.policy.recompute)),
           .cp_kind = static_cast<int8_t>(s.layout.cp > 1 ? index_in(kCpKinds, s.policy.cp_kind) : 0)};
  // Axes that the order leaves out have one rank: they come last.
  std::string order;
  for (const std::string& token : order_tokens(s.layout, s.file)) order += (order.empty() ? "" : "-") + token;
  for (const char* axis : {"tp", "cp", "dp", "pp"})
    if (order.find(axis) == std::string::npos) order += std::string(order.empty() ? "" : "-") + axis;
  l.order = static_cast<int8_t>(index_in(rank_orders(), order));
  return l;
}

RunSpec with_layout(RunSpec s, const Layout& l) {
  s.layout = {.dp = l.dp, .tp = l.tp, .cp = l.cp, .pp = l.pp, .vpp = l.vpp, .order = rank_orders()[l.order]};
  s.policy.micro_batch = l.micro_batch;
  s.policy.schedule = kSchedules[static_cast<int>(l.schedule)];
  s.policy.zero = static_cast<unsigned char>(l.zero);
  s.policy.sequence_parallel = l.sequence_parallel;
  s.policy.recompute = kRecompute[l.recompute];
  s.policy.recompute_method = "uniform";
  s.policy.recompute_num_layers = 1;
  s.policy.cp_kind = kCpKinds[l.cp_kind];
  return s;
}

LayoutModel::LayoutModel(const RunSpec& spec, const Machine& machine)
    : spec_(spec),
      machine_(machine),
      where_(where_of(spec, machine)),
      peaks_(peaks_of(machine, where_)),
      sixteen_(spec.policy.amp == "bf16" || spec.policy.amp == "fp16" || spec.policy.amp == "fp8"),
      gradient_(spec.policy.main_grads_dtype == "bf16" ? kHalf : kF32),
      cache_(spec) {
  if (spec.train.optimizer == "sgd")
    throw ConfigError(spec.file, "train.optimizer", "the closed form of layouts counts Adam's moments only",
                      "use adam or adamw, or predict it by replay");
  if (spec.policy.offload_optimizer)
    throw ConfigError(spec.file, "policy.offload_optimizer", "is not in the closed form of layouts yet",
                      "set it to false");
  if (spec.policy.recompute == "full" &&
      (spec.policy.recompute_method != "uniform" || spec.policy.recompute_num_layers != 1))
    throw ConfigError(spec.file, "policy.recompute_num_layers",
                      "the closed form of layouts recomputes every block by itself", "use uniform with 1");
  set_coefficients(machine.values());
}

void LayoutModel::set_coefficients(const Counts& coefficients) {
  for (size_t i = 0; i < kCoefs; ++i) machine_.coefficients[i].value = coefficients[i];
  k_ = rates(coefficients, where_);
  known_.clear();
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
  const auto time = [&](const Section& s, Counts* c) {
    return time_of(n, s, key.section, key.micro_batch, k_, slowdown, where_, at, peaks_, c, key.split);
  };
  const auto part = [&](int i) { return counts ? counts + i : nullptr; };
  return {.embed_forward = time(n.embed_forward, part(0)),
          .block_forward = time(n.block_forward, part(1)),
          .head_forward = time(n.head_forward, part(2)),
          .head_backward = time(n.head_backward, part(2)),
          .block_backward = time(n.block_backward, part(1)),
          .embed_backward = time(n.embed_backward, part(0)),
          .sections = &n};
}

const LayoutModel::StageTimes& LayoutModel::times_of(const Layout& l, const Placements& at) {
  const Key key{l.key(), l.micro_batch, static_cast<int16_t>(at.tp), static_cast<int16_t>(at.cp),
                l.schedule == ScheduleKind::zb_h1};
  if (last_ && key == last_key_) return *last_;
  auto found = known_.find(key);
  if (found == known_.end()) found = known_.emplace(key, price(key, nullptr)).first;
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
      r.blocks += blocks_of(spec_.net.depth, p * l.vpp, chunk * p + s);
    return r;
  };
  return {rank(0), rank(std::min<int64_t>(1, p - 1)), rank(p - 1)};
}

Parameters LayoutModel::parameters_of(const Rank& r, const NetSections& n) const {
  Parameters q{static_cast<double>(r.blocks) * n.block.cut, static_cast<double>(r.blocks) * n.block.whole};
  const auto add = [&](const Parameters& x) { q.cut += x.cut, q.whole += x.whole; };
  if (r.first) add(n.embed);
  if (r.last) add(n.head);
  return q;
}

// Of all gradients, once
double LayoutModel::reduce_seconds(const Layout& l, const Parameters& p, const Placements& at) const {
  const OpKind kind = l.zero > 0 ? OpKind::reduce_scatter : OpKind::all_reduce;
  const Placement cut{static_cast<double>(l.dp) * l.cp, at.dp * at.cp};
  Placement whole = cut;
  if (l.sequence_parallel) whole = {cut.ranks * l.tp, cut.per_host * at.tp};
  const double bucket = spec_.policy.bucket_mb * 1e6;
  const auto reduce = [&](double elements, const Placement& group) {
    const double bytes = gradient_ * elements;
    if (group.ranks <= 1 || bytes <= 0) return 0.0;
    const double buckets = std::ceil(bytes / bucket);
    return buckets *
           isobar::seconds(count_collective(kind, bytes / buckets, gradient_, group, k_, where_), k_);
  };
  return reduce(p.cut, cut) + reduce(p.whole, whole);
}

// Of all parameters that shards updated, once
double LayoutModel::gather_seconds(const Layout& l, const Parameters& p, const Placements& at) const {
  const Placement group{static_cast<double>(l.dp) * l.cp, at.dp * at.cp};
  if (l.zero == 0 || group.ranks <= 1) return 0;
  const double bytes = (sixteen_ ? kHalf : kF32) * p.all();
  const double buckets = std::ceil(bytes / (spec_.policy.bucket_mb * 1e6));
  return buckets *
         isobar::seconds(count_collective(OpKind::all_gather, bytes / buckets, kF32, group, k_, where_), k_);
}

namespace {
template <class Times>
double of_blocks(const Times& t, double blocks, double SectionTime::*member) {
  return blocks * (t.block_forward.*member + t.block_backward.*member);
}
template <class Times>
double of_ends(const Times& t, bool first, bool last, double SectionTime::*member) {
  return (first ? t.embed_forward.*member + t.embed_backward.*member : 0) +
         (last ? t.head_forward.*member + t.head_backward.*member : 0);
}
}  // namespace

// Filling and draining pass every other stage once.
void LayoutModel::add_pipeline(const Layout& l, const Placements& at, const StageTimes& t, const Rank& slow,
                               double slowest, LayoutCost& c) const {
  const double p = l.pp, v = l.vpp, m = micro_batches(l);
  const auto others = [&](double SectionTime::*member, double own) {
    return of_blocks(t, static_cast<double>(spec_.net.depth), member) + of_ends(t, true, true, member) - own;
  };
  const double wait = others(&SectionTime::seconds, slowest);
  c.bubble = wait / v;
  if (l.schedule == ScheduleKind::zb_h1 && l.zero < 2) {
    // Weight gradients of other micro-batches fill two thirds of it, as far as there are others.
    const double own = of_blocks(t, static_cast<double>(slow.blocks), &SectionTime::weight) +
                       of_ends(t, slow.first, slow.last, &SectionTime::weight);
    const double filled = 2 * others(&SectionTime::weight, own) * std::min(1.0, m / p);
    c.bubble = std::max(0.0, wait - filled);
  }
  const auto transfer = [&](double per_host) {
    return isobar::seconds(count_collective(OpKind::send, t.sections->stream.at(l.micro_batch), kHalf,
                                            {2, per_host}, k_, where_),
                           k_);
  };
  const double hosts = p / at.pp, near = transfer(at.pp > 1 ? 2 : 1), far = hosts > 1 ? transfer(1) : near;
  const double crossings = hosts > 1 ? hosts - 1 + (v - 1) * hosts : 0;
  const double fill = 2 * (crossings * far + (p * v - 1 - crossings) * near);
  // Once it is full, a micro-batch takes as long as the slowest stage, or as a link carries what one stage
  // sends, or as its round trip takes over how many are under way: with 1F1B as many as there are stages,
  // none to spare.
  const double round = wait + slowest + fill, link = v * far;
  double period = std::max(slowest, link), under_way = p;
  const double forward = static_cast<double>(slow.blocks) * t.block_forward.seconds +
                         (slow.first ? t.embed_forward.seconds : 0) +
                         (slow.last ? t.head_forward.seconds : 0);
  // Gradients of the stream have one buffer: the next arrives when the last has left.
  const double arrivals = slow.first || slow.last ? 1 : 2;
  switch (l.schedule) {
    case ScheduleKind::gpipe: {
      period = std::max(forward, far) + slowest - forward + arrivals * far;
      break;
    }
    case ScheduleKind::one_f_one_b:
      period = std::max({period, round / under_way, slowest - forward + arrivals * far});
      break;
    case ScheduleKind::interleaved:
      under_way = (2 * (p - 1) + (v - 1) * p + 1) / v;
      period = std::max(period, round / under_way);
      break;
    case ScheduleKind::zb_h1:  // nobody waits for weight gradients
      period =
          std::max(period, (round - of_blocks(t, static_cast<double>(spec_.net.depth), &SectionTime::weight) -
                            of_ends(t, true, true, &SectionTime::weight)) /
                               under_way);
      break;
  }
  const double steady = std::max(0.0, m - (l.schedule == ScheduleKind::interleaved ? under_way : 1));
  c.pp = fill + steady * (period - slowest);
}

void LayoutModel::add_data_parallel(const Layout& l, const Placements& at, const StageTimes& t,
                                    const Rank& slow, LayoutCost& c) const {
  const Parameters mine = parameters_of(slow, *t.sections);
  const auto blocks = static_cast<double>(slow.blocks);
  const double reduce = reduce_seconds(l, mine, at), gather = gather_seconds(l, mine, at);
  const double m = micro_batches(l);
  // Reduced under the backward pass of a micro-batch: it begins when the head's gradients are there, or the
  // last block's, and what the pass makes last is left over.
  const double start = slow.last ? 0 : 1 / std::max(1.0, blocks);
  const double tail =
      std::min(1.0, (slow.first ? t.sections->embed.all() : t.sections->block.all()) / mine.all());
  const auto exposed = [&](double busy, double under) {
    return spec_.policy.overlap ? std::max(busy * tail, busy - under * (1 - start)) : busy;
  };
  const double backward =
      blocks * (l.schedule == ScheduleKind::zb_h1 ? t.block_backward.weight : t.block_backward.seconds);
  double busy = reduce + gather, waits = 0;
  if (l.zero < 2) {
    waits = exposed(reduce, backward) + gather;
  } else {
    // Scattered by every micro-batch. Gradients on their way share their memory with what comes next, which
    // waits.
    busy = m * reduce + gather;
    waits = m * reduce + gather;
    // Each is added to its shard: read, read and written.
    c.compute += m * (static_cast<double>(blocks + 2) * k_[index_of(Coef::op)] +
                      3 * gradient_ * mine.all() / shards_of(l) * k_[index_of(Coef::norm)]);
  }
  if (l.zero == 3) {  // gathered block by block for both passes of every micro-batch
    busy = m * (reduce + 2 * gather);
    const auto hidden = [&](double under) {
      return spec_.policy.overlap ? std::max(gather / std::max(1.0, blocks), gather - under) : gather;
    };
    waits =
        m * (reduce + hidden(blocks * t.block_forward.seconds) + hidden(blocks * t.block_backward.seconds));
  }
  c.dp = waits;
  const double slower = machine_[Coef::overlap_slowdown].value;
  c.slowdown += std::max(0.0, busy - waits) * slower / (1 + slower);
}

double LayoutModel::least_seconds(const Layout& l, const Placements& at) {
  Layout any = l;
  any.schedule = ScheduleKind::one_f_one_b;
  const StageTimes& t = times_of(any, at);
  const int64_t deepest = (spec_.net.depth + l.pp - 1) / l.pp;
  const auto blocks = static_cast<double>(deepest);
  return micro_batches(l) * of_blocks(t, blocks, &SectionTime::seconds);
}

// As if everyone waited for this rank
void LayoutModel::add_rank_time(const Layout& l, const Placements& at, const StageTimes& t, const Rank& r,
                                LayoutCost& c) const {
  const NetSections& n = *t.sections;
  const double b = l.micro_batch, m = micro_batches(l);
  // The stream is added up before it is sent.
  const double boundary =
      l.pp > 1 ? l.vpp * (k_[index_of(Coef::op)] + 3 * n.stream.at(b) * k_[index_of(Coef::norm)]) : 0;
  const auto of = [&](double SectionTime::*member) {
    return of_blocks(t, static_cast<double>(r.blocks), member) + of_ends(t, r.first, r.last, member);
  };
  c.compute = m * (of(&SectionTime::compute) + boundary);
  c.tp = m * of(&SectionTime::tp);
  c.cp = m * of(&SectionTime::cp);
  c.slowdown = m * of(&SectionTime::slowdown);
  c.host = m * of(&SectionTime::host);
  if (l.pp > 1) add_pipeline(l, at, t, r, of(&SectionTime::seconds), c);
  if (l.dp * l.cp > 1) add_data_parallel(l, at, t, r, c);
  if (spec_.net.tie_embeddings && l.pp > 1)
    c.dp += isobar::seconds(count_collective(OpKind::all_reduce, gradient_ * n.embed.cut, gradient_,
                                             {2, at.pp >= l.pp ? 2.0 : 1.0}, k_, where_),
                            k_);

  // Adam, and the gradient's norm
  const double updated = parameters_of(r, n).all() / shards_of(l);
  const double traffic = updated * (6 * kF32 + (sixteen_ ? kHalf : 0) + 2 * gradient_);
  c.optimizer = traffic * k_[index_of(Coef::optimizer)] + 14 * updated * k_[index_of(Coef::vector)] +
                2 * k_[index_of(Coef::op)];
  if (l.tp * l.pp > 1)
    c.optimizer +=
        isobar::seconds(count_collective(OpKind::all_reduce, kF32, kF32,
                                         {static_cast<double>(l.tp) * l.pp, at.tp * at.pp}, k_, where_),
                        k_);
  c.step = k_[index_of(Coef::step)];
  c.imbalance = machine_[Coef::imbalance].value *
                std::log2(static_cast<double>(l.dp) * static_cast<double>(l.tp) * static_cast<double>(l.cp)) *
                c.compute;
  c.seconds = c.compute + c.host + c.tp + c.cp + c.slowdown + c.bubble + c.pp + c.dp + c.optimizer + c.step +
              c.imbalance;
  c.ceiling = m * of(&SectionTime::ceiling);
}

void LayoutModel::add_time(const Layout& l, const Placements& at, LayoutCost& c, Counts* counts) {
  const StageTimes& t = times_of(l, at);
  const double m = micro_batches(l);
  const std::array<Rank, 3> ranks = ranks_of(l);
  const Rank* slow = nullptr;
  LayoutCost slowest;
  for (const Rank& r : ranks) {
    if (&r != &ranks[0] && r.stage == (&r - 1)->stage) continue;
    LayoutCost one = c;
    add_rank_time(l, at, t, r, one);
    if (!slow || one.seconds > slowest.seconds) slowest = one, slow = &r;
  }
  c = slowest;
  StepTerms reading;
  reading.where = where_;
  reading.workers = spec_.data.workers;
  reading.read = count_read(spec_, spec_.train.global_batch / l.dp);
  const ReadTime read = read_time(reading, machine_.values(), k_);
  c.data = read.serial + std::max(0.0, read.supply - c.seconds);
  c.seconds += c.data;
  c.flops = m * static_cast<double>(l.dp) * l.cp * l.tp *
            (of_blocks(t, static_cast<double>(spec_.net.depth), &SectionTime::flops) +
             of_ends(t, true, true, &SectionTime::flops));

  if (!counts) return;
  *counts = {};
  std::array<Counts, 3> parts{};  // embedding, block, head
  price({l.key(), l.micro_batch, static_cast<int16_t>(at.tp), static_cast<int16_t>(at.cp),
         l.schedule == ScheduleKind::zb_h1},
        parts.data());
  const auto add_part = [&](const Counts& x, double times) {
    for (size_t i = 0; i < kCoefs; ++i) (*counts)[i] += m * times * x[i];
  };
  if (slow->first) add_part(parts[0], 1);
  add_part(parts[1], static_cast<double>(slow->blocks));
  if (slow->last) add_part(parts[2], 1);
  const double updated = parameters_of(*slow, *t.sections).all() / shards_of(l);
  (*counts)[index_of(Coef::optimizer)] += updated * (6 * kF32 + (sixteen_ ? kHalf : 0) + 2 * gradient_);
  (*counts)[index_of(Coef::step)] += 1;
}

void LayoutModel::add_memory(const Layout& l, LayoutCost& c) {
  const NetSections& n = sections_of(l);
  const int64_t p = l.pp, v = l.vpp;
  const double b = l.micro_batch, m = micro_batches(l), shards = shards_of(l);
  const double half = sixteen_ ? (l.zero == 3 ? kHalf / shards : kHalf) : 0;
  const double master = sixteen_ || l.zero == 3 ? kF32 / shards : kF32;
  const double element = half + master + (l.zero >= 2 ? gradient_ / shards : gradient_) + 2 * kF32 / shards;
  for (const Rank& r : ranks_of(l)) {
    const double persistent = element * parameters_of(r, n).all();
    double saved = 0;
    for (int64_t chunk = 0; chunk < v; ++chunk) {
      double slots = std::min<double>(m, static_cast<double>(p - r.stage));
      if (l.schedule == ScheduleKind::gpipe) slots = m;
      if (l.schedule == ScheduleKind::interleaved || l.schedule == ScheduleKind::zb_h1)
        slots = static_cast<double>(slots_of(l.schedule, static_cast<int>(p), static_cast<int>(r.stage),
                                             static_cast<int64_t>(m), static_cast<int>(v))[chunk]);
      const auto blocks = static_cast<double>(blocks_of(spec_.net.depth, p * v, chunk * p + r.stage));
      if (l.schedule == ScheduleKind::zb_h1)
        saved += slots * (blocks * n.block_split.at(b) + (r.last ? n.head_split.at(b) : 0));
      saved += slots * (blocks * n.block_saved.at(b) + (r.first && chunk == 0 ? n.embed_saved.at(b) : 0) +
                        (r.last && chunk == v - 1 ? n.head_saved.at(b) : 0));
    }
    // ZeRO: a unit in use and a block on its way
    const double unit =
        n.block.all() + std::max({n.block.all(), r.first ? n.embed.all() : 0, r.last ? n.head.all() : 0});
    const double scratch = n.scratch.at(b) + (p > 1 ? 2 * static_cast<double>(v) * n.stream.at(b) : 0) +
                           (l.zero == 3 ? unit * (sixteen_ ? kHalf : kF32) : 0) +
                           (l.zero >= 2 ? unit * gradient_ : 0);
    if (persistent + saved + scratch > c.persistent + c.saved + c.scratch)
      c.persistent = persistent, c.saved = saved, c.scratch = scratch;
  }
  c.process = machine_[Coef::process].value;
  c.memory = c.persistent + c.saved + c.scratch + c.process;
}

LayoutCost LayoutModel::cost(const Layout& l, Counts* counts) {
  LayoutCost c;
  add_memory(l, c);
  add_time(l, placements_of(l, where_.ranks_on_host), c, counts);
  return c;
}

namespace {

constexpr double kUnfitted = 0.12;  // log spread of predictions that were never fitted to whole steps

// How the interval follows from what is known of each coefficient.
double log_width(LayoutModel& model, const Layout& l, double seconds) {
  const Machine machine = model.machine();
  const Counts k = machine.values();
  double variance = kUnfitted * kUnfitted;
  for (size_t i = 0; i < kCoefs; ++i) {
    Counts moved = k;
    moved[i] *= 1.1;
    model.set_coefficients(moved);
    const double slope = std::log(model.cost(l).seconds / seconds) / std::log(1.1);
    variance += std::pow(slope * machine.coefficients[i].log_sigma(), 2);
  }
  model.set_coefficients(k);
  return kNormal80 * std::sqrt(variance);
}

void name_terms(LayoutPrediction& out, const Counts& k) {
  const LayoutCost& c = out.cost;
  const auto term = [&](const std::string& name, double s) { add_term(out.terms, name, s); };
  double named = 0;  // compute by what it is spent on: the counts at their prices
  for (size_t i = 0; i < kCoefs; ++i) {
    const Resource r = info_of(i).resource;
    if (r == Resource::wire || r == Resource::host || i == index_of(Coef::step) ||
        i == index_of(Coef::optimizer))
      continue;
    term(info_of(i).term, out.counts[i] * k[i]);
    named += out.counts[i] * k[i];
  }
  term("stage boundaries", c.compute - named);
  term("host launches", c.host);
  term("tensor parallelism, not hidden", c.tp);
  term("context parallelism, not hidden", c.cp);
  term("compute slowed by communication", c.slowdown);
  term("pipeline bubble", c.bubble);
  term("transfers between stages", c.pp);
  term("data parallelism, not hidden", c.dp);
  term("optimizer", c.optimizer);
  term("reading data", c.data);
  term("step overhead", c.step);
  term("waiting for the slowest rank", c.imbalance);
  std::stable_sort(out.terms.begin(), out.terms.end(),
                   [](const Term& a, const Term& b) { return a.seconds > b.seconds; });
}

}  // namespace

LayoutPrediction predict_layout(LayoutModel& model, const Layout& l) {
  const RunSpec& spec = model.spec();
  const Machine& machine = model.machine();
  LayoutPrediction out;
  out.cost = model.cost(l, &out.counts);
  const LayoutCost& c = out.cost;
  refuse_above_ceiling(c.seconds, c.ceiling, machine);
  out.step_s = c.seconds;
  const double width = std::exp(log_width(model, l, c.seconds));
  out.lower = std::max(c.seconds / width, std::min(c.ceiling, c.seconds));
  out.upper = c.seconds * width;
  out.samples_per_s = static_cast<double>(spec.train.global_batch) / c.seconds;
  out.tokens_per_s = out.samples_per_s * static_cast<double>(spec.net.tokens());
  out.flops = c.flops;
  name_terms(out, model.prices());
  out.memory = {{"parameters, gradients, optimizer", c.persistent},
                {"activations", c.saved},
                {"scratch", c.scratch},
                {"process", c.process}};
  out.memory_total = c.memory;
  return out;
}

LayoutPrediction predict_layout(const RunSpec& spec, const Machine& machine) {
  validate(spec);
  LayoutModel model(spec, machine);
  return predict_layout(model, layout_of(spec));
}

}  // namespace isobar
