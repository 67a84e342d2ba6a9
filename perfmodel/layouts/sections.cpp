#include "perfmodel/layouts/sections.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <stdexcept>
#include <tuple>

#include "model/base/error.h"
#include "model/base/names/name_pattern.h"
#include "model/nets/build.h"
#include "model/nets/layout/busiest_rank.h"
#include "model/nets/parts.h"
#include "model/plan/ops/operands.h"
#include "perfmodel/layouts/stage_kinds.h"
#include "perfmodel/step/expert_imbalance.h"
#include "perfmodel/step/shapes.h"

namespace isobar::perf {
namespace {

// The plan of the busiest rank, on which ranks that share a sample wait.
plan::Plan plan_of_samples(RunSpec spec, int64_t samples) {
  spec.policy.micro_batch = samples;
  spec.train.global_batch = samples * spec.layout.dp;
  return nets::build_plan(spec, nets::busiest_rank(spec), {}, plan::PlanUse::prices);
}

std::vector<nets::NetStream> streams_of_samples(RunSpec spec, double samples) {
  spec.policy.micro_batch = static_cast<int64_t>(samples);
  spec.train.global_batch = spec.policy.micro_batch * spec.layout.dp;
  return nets::net_streams(spec);
}

// The distinct part that prices an op, buffer or parameter; -1: another, equal part does.
class Priced {
 public:
  Priced(const std::vector<int32_t>& distinct, const std::vector<int32_t>& representatives)
      : distinct_(distinct), representatives_(representatives) {}
  int32_t operator()(int32_t part) const {
    return part >= 0 && representatives_[distinct_[part]] == part ? distinct_[part] : -1;
  }

 private:
  const std::vector<int32_t>&distinct_, &representatives_;
};

plan::Op without_operands(const plan::Op& op) {
  return {.kind = op.kind, .lane = op.lane, .attrs = op.attrs, .reads = {}, .writes = {}, .path = {}};
}

void cut_ops(const plan::Plan& one, const plan::Plan& two, const Priced& priced, const Conditions& prices,
             bool recorded, NetSections& out) {
  const Conditions where{.ranks = one.world, .ranks_on_host = one.world};
  const plan::Program program = plan::link(one, one.train);
  std::vector<std::pair<const Section*, int32_t>> place(program.instrs.size(), {nullptr, 0});
  for (size_t i = 0; i < program.instrs.size(); ++i) {
    const plan::Instr& instr = program.instrs[i];
    const plan::Pass pass = one.routines[one.train[instr.invocation].routine].pass;
    if (pass != plan::Pass::forward && pass != plan::Pass::backward) continue;
    const plan::Op& op = one.ops[instr.op];
    const int32_t part = priced(op.part);
    if (part < 0) continue;  // reductions over data-parallel ranks belong to no part: the layout prices them
    Section& section = pass == plan::Pass::forward ? out.parts[part].forward : out.parts[part].backward;
    const plan::Op& same = two.ops.at(instr.op);
    if (same.path != op.path)  // required to interpolate between the two plans
      throw std::logic_error("of " + std::to_string(static_cast<int64_t>(out.two)) + " samples a plan has " +
                             same.path + " where it has " + op.path + " of " +
                             std::to_string(static_cast<int64_t>(out.one)));
    SectionOp s{.one = shape_of(op, one, where),
                .two = shape_of(same, two, where),
                .lane = op.lane,
                .weight = op.weight_gradient};
    if (has_timed(op.kind, prices))
      s.named =
          std::make_shared<const NamedShapes>(NamedShapes{without_operands(op), without_operands(same)});
    if (recorded)
      for (const plan::View& v : op.writes)
        if (v && v.buffer == one.grads_all.buffer) {
          s.gradients += 1;
          s.gradient_bytes += static_cast<double>(v.count * size_of(DType::f32));
        }
    place[i] = {&section, static_cast<int32_t>(section.size())};
    for (int32_t w : instr.waits)
      if (place[w].first == &section) s.waits.push_back(place[w].second);
    section.push_back(std::move(s));
  }
}

// Parameters that are read outside the forward pass of their part
struct Reads {
  std::vector<bool> again;  // in its backward pass
  std::vector<bool> tied;   // by the other end of the net
};

Reads reads_of(const plan::Plan& plan) {
  Reads out{std::vector<bool>(plan.params.size()), std::vector<bool>(plan.params.size())};
  const auto last = static_cast<int32_t>(plan.parts.size()) - 1;
  const auto read = [&](const plan::View& v, int32_t part, plan::Pass pass) {
    for (size_t i = 0; i < plan.params.size(); ++i) {
      const plan::Param& p = plan.params[i];
      if (v.offset >= p.offset + p.count || p.offset >= v.offset + v.count) continue;
      if (part == p.part && pass == plan::Pass::backward) out.again[i] = true;
      if (p.part == 0 && part == last) out.tied[i] = true;
    }
  };
  for (const plan::Routine& r : plan.routines) {
    if (r.pass != plan::Pass::forward && r.pass != plan::Pass::backward) continue;
    for (int32_t o = r.first; o < r.first + r.count; ++o)
      for (const plan::View& v : plan.ops[o].reads)
        if (v && (v.buffer == plan.params_all.buffer || v.buffer == plan.params16_all.buffer))
          read(v, plan.ops[o].part, r.pass);
  }
  return out;
}

void count_parameters(const plan::Plan& plan, const Priced& priced, NetSections& out) {
  const Reads reads = reads_of(plan);
  for (size_t i = 0; i < plan.params.size(); ++i) {
    const plan::Param& p = plan.params[i];
    const auto count = static_cast<double>(p.count);
    if (reads.tied[i]) out.tied += count;
    const int32_t part = priced(p.part);
    if (part < 0) continue;
    const bool cut = p.axis >= 0;
    const auto add = [&](ParameterCounts& q) {
      if (p.expert) {
        (p.frozen ? q.frozen_expert : q.expert) += count;
      } else if (p.frozen) {
        (cut ? q.frozen_cut : q.frozen_whole) += count;
        if (p.matrix) (cut ? q.frozen_cut_matrix : q.frozen_whole_matrix) += count;
      } else if (p.partial) {
        q.partial += count;
      } else {
        (cut ? q.cut : q.whole) += count;
        if (p.matrix) (cut ? q.cut_matrix : q.whole_matrix) += count;
      }
    };
    add(out.parts[part].parameters);
    if (reads.again[i]) add(out.parts[part].read_again);
  }
}

// Interpolates a count between both plans
template <class Count>
Line line_through(const NetSections& n, const plan::Plan& one, const plan::Plan& two, const Count& count) {
  const double first = count(one), second = count(two);
  const double slope = n.two > n.one ? (second - first) / (n.two - n.one) : 0;
  return {first - slope * n.one, slope};
}

// Operands of postponed weight gradients beyond what is saved anyway; of gathered ones the part is kept.
double operands(const plan::Plan& plan, const Priced& priced, int32_t part, double tp) {
  std::set<int32_t> gathered, counted;
  double bytes = 0;
  for (const plan::Op& op : plan.ops) {
    if (op.kind == plan::OpKind::all_gather)
      gathered.insert(plan::out<plan::OpKind::all_gather>(op, "x").buffer);
    if (!op.weight_gradient || priced(op.part) != part) continue;
    const int32_t at = plan::in<plan::OpKind::gemm, plan::OpKind::grouped_gemm>(op, "A").buffer,
                  x = plan::in<plan::OpKind::gemm, plan::OpKind::grouped_gemm>(op, "B").buffer;
    const auto kept = [&](int32_t buffer) {
      return plan.buffers[buffer].kind == plan::BufferKind::saved || !counted.insert(buffer).second;
    };
    if (!kept(at)) bytes += static_cast<double>(plan.buffers[at].bytes()) / (gathered.contains(at) ? tp : 1);
    // Copies for experts; of a gathered x the part is saved anyway.
    if (op.kind == plan::OpKind::grouped_gemm && !kept(x))
      bytes += static_cast<double>(plan.buffers[x].bytes());
  }
  return bytes;
}

void count_memory(const plan::Plan& one, const plan::Plan& two, const Priced& priced, double tp,
                  NetSections& out) {
  const auto through = [&](const auto& count) { return line_through(out, one, two, count); };
  for (int32_t part = 0; part < static_cast<int32_t>(out.parts.size()); ++part) {
    out.parts[part].saved = through([&](const plan::Plan& plan) {
      double bytes = 0;
      for (const plan::Buffer& b : plan.buffers)
        if (b.kind == plan::BufferKind::saved && priced(b.part) == part)
          bytes += static_cast<double>(b.bytes());
      return bytes;
    });
    out.parts[part].split = through([&](const plan::Plan& plan) { return operands(plan, priced, part, tp); });
  }
  out.scratch = through([](const plan::Plan& plan) {
    return static_cast<double>(plan.memory.by_kind[static_cast<int>(plan::BufferKind::scratch)]);
  });
  out.fed_back = through([](const plan::Plan& plan) {
    return plan.feedback.empty() ? 0.0 : static_cast<double>(plan.feedback[0].bytes());
  });
  out.replayed = through(
      [](const plan::Plan& plan) { return static_cast<double>(plan.replayed.count * size_of(DType::f32)); });
  out.constants = static_cast<double>(one.memory.by_kind[static_cast<int>(plan::BufferKind::constants)]);
  const auto over = [&](int32_t cut, bool jumps) {
    return through([cut, jumps](const plan::Plan& plan) {
      double bytes = 0;
      for (const plan::Stream& s : plan.streams)
        if (s.from < cut && cut <= s.to && (jumps || !s.jumps())) bytes += static_cast<double>(s.bytes());
      return bytes;
    });
  };
  for (int32_t cut = 0; cut < static_cast<int32_t>(one.parts.size()); ++cut) {
    out.crossing.push_back(over(cut, true));
    out.handed_on.push_back(over(cut, false));
  }
}

// The op interpolated at x between two.
OpShape between(const OpShape& one, const OpShape& two, double x) {
  OpShape s = one;
  const auto mix = [x](double& a, double b) { a += x * (b - a); };
  mix(s.m, two.m);
  mix(s.n, two.n);
  mix(s.k, two.k);
  mix(s.batch, two.batch);
  mix(s.bytes, two.bytes);
  mix(s.work.flops, two.work.flops);
  mix(s.work.vector_flops, two.work.vector_flops);
  mix(s.work.bytes_read, two.work.bytes_read);
  mix(s.work.bytes_written, two.work.bytes_written);
  return s;
}

// Adds a gradient to those of earlier micro-batches.
OpShape addition_of(double bytes) {
  OpShape s{.kind = plan::OpKind::cast, .price = plan::PriceClass::copy, .dtype = DType::f32};
  s.work.bytes_read = 2 * bytes, s.work.bytes_written = bytes;
  return s;
}

// Measured over modelled time of the op at this number of samples. Weight gradients of all micro-batches but
// the first accumulate.
double timed_factor(const NamedShapes& named, double x, const Conditions& where) {
  const auto [known, fresh] = named.factors.try_emplace(x, 1);
  double& factor = known->second;
  if (!fresh) return factor;
  plan::Op op = named.one;
  plan::each_size(op.attrs, named.two.attrs, [x](int64_t& a, int64_t b) {
    a = std::llround(static_cast<double>(a) + x * static_cast<double>(b - a));
  });
  plan::Op added = op;
  plan::accumulate(added.attrs);
  factor = shape_factor(added, where);
  if (factor == 1 && plan::accumulates(added.attrs)) factor = shape_factor(op, where);
  return factor;
}

}  // namespace

namespace {

bool by_name(const TrainSpec& t) {
  return t.lora_rank > 0 || !t.freeze.empty();
}

// The first part that is trained otherwise than the part that it equals, and that part; {-1, -1}: none.
std::pair<int32_t, int32_t> trained_otherwise(const plan::Plan& plan) {
  using Trained = std::vector<std::pair<int64_t, bool>>;  // elements, frozen
  std::vector<Trained> parts(plan.parts.size());
  for (const plan::Param& p : plan.params) parts[p.part].emplace_back(p.count, p.frozen);
  for (int32_t i = 0; i < static_cast<int32_t>(parts.size()); ++i)
    if (parts[i] != parts[plan.parts[i].same_as]) return {i, plan.parts[i].same_as};
  return {-1, -1};
}

plan::Plan plan_of_parts(RunSpec one) {
  one.layout = {};
  one.policy.schedule = PipelineSchedule::gpipe;
  one.policy.zero = 0;
  one.policy.offload_parameters = false;
  one.policy.sequence_parallel = false;
  one.policy.micro_batch = one.train.global_batch = 1;
  return nets::build_plan(one, 0, {});
}

// Equal parts are priced once, so they must be trained equally.
void check_alike(const RunSpec& spec) {
  if (!by_name(spec.train)) return;
  const plan::Plan plan = plan_of_parts(spec);
  const auto [one, other] = trained_otherwise(plan);
  if (one < 0) return;
  throw ConfigError(spec.file, spec.train.lora_rank > 0 ? "train.lora_targets" : "train.freeze",
                    "trains " + plan.parts[one].path + " otherwise than " + plan.parts[other].path +
                        ", and layouts are priced by parts that are alike",
                    "name all of them (blocks.*), or predict one layout at a time (isobar predict)");
}

// Keeps the name patterns that match the small net
void keep_names_of(RunSpec& small) {
  TrainSpec& t = small.train;
  if (!by_name(t)) return;
  RunSpec plain = small;
  plain.train.freeze.clear();
  plain.train.lora_targets.clear();
  plain.train.lora_rank = 0, plain.train.lora_alpha = 0;
  plain.policy.sequence_parallel = false;
  plain.policy.micro_batch = plain.train.global_batch = 1;
  const plan::Plan plan = nets::build_plan(plain, 0, {});
  const bool all = t.freeze.empty();
  for (std::vector<std::string>* patterns : {&t.freeze, &t.lora_targets})
    std::erase_if(*patterns, [&](const std::string& pattern) {
      return std::none_of(plan.tensors.begin(), plan.tensors.end(),
                          [&](const plan::Tensor& x) { return matches(pattern, x.name); });
    });
  if (t.lora_targets.empty()) t.lora_rank = 0, t.lora_alpha = 0;
  if (all && t.lora_rank == 0) t.freeze = {"*"};
}

}  // namespace

bool trains_alike(const RunSpec& spec) {
  return !by_name(spec.train) || trained_otherwise(plan_of_parts(spec)).first < 0;
}

SectionCache::SectionCache(const RunSpec& spec, const Conditions& where)
    : base_(spec),
      where_(where),
      net_(spec.net),
      distinct_(number_distinct(nets::parts_of(nets::distinct_parts(spec.net)))),
      representatives_(representatives(distinct_)) {
  base_.net = nets::distinct_parts(spec.net);
  base_.layout = {};
  base_.policy.schedule = PipelineSchedule::gpipe;
  base_.policy.zero = 0;
  base_.policy.offload_optimizer = base_.policy.offload_parameters = false;  // scratch is that of the passes
  base_.policy.recompute_method = RecomputeMethod::uniform;
  base_.policy.recompute_num_layers = 1;
  base_.data = {};
  base_.data.history = spec.data.history;
  // Validations are not planned without data, so settings that need them are reset
  TrainSpec& t = base_.train;
  const TrainSpec usual;
  t.lr_schedule = usual.lr_schedule;
  t.init_from.clear();
  check_alike(spec);
  keep_names_of(base_);
  t.checkpoint_best = false;
  t.epochs = 0;
  for (int64_t* every : {&t.valid_every, &t.checkpoint_every})
    if (*every == TrainSpec::kEpoch) *every = 0;
  t.early_stopping_patience = t.jacobian_samples = t.jacobian_window = t.min_steps = 0;
}

RunSpec SectionCache::spec_of(const SectionKey& key) const {
  RunSpec spec = base_;
  spec.layout.tp = key.tp;
  spec.layout.cp = key.cp;
  spec.layout.ep = key.ep;
  spec.layout.dp = key.ep / std::gcd(key.ep, key.cp);  // the fewest
  spec = with_imbalance(std::move(spec), key.imbalance);
  spec.policy.sequence_parallel = key.sequence_parallel;
  spec.policy.recompute = key.recompute;
  if (key.grouped) spec.policy.recompute_num_layers = static_cast<int64_t>(distinct_.size());
  spec.policy.cp_kind = key.cp_kind;
  return spec;
}

// Context parallelism regroups several samples by copies that a single one does not need; so do chunks of
// edges, sample by sample.
std::pair<double, double> SectionCache::samples_of(const SectionKey& key) {
  if (key.cp == 1) return {1, 2};
  const double alone = key.alone;
  return key.alone > 0 ? std::pair{alone, alone} : std::pair{2.0, 4.0};
}

// Recomputation changes what is kept, not what is sent.
const std::vector<StreamLine>& SectionCache::streams(const SectionKey& of) {
  SectionKey key = of;
  key.recompute = Recompute::none, key.grouped = false;
  const auto [known, fresh] = streams_.try_emplace(key);
  if (!fresh) return known->second;
  RunSpec spec = spec_of(key);
  spec.net = net_;
  const auto [one, two] = samples_of(key);
  const std::vector<nets::NetStream> first = streams_of_samples(spec, one),
                                     second = streams_of_samples(spec, two);
  for (size_t i = 0; i < first.size(); ++i) {
    const double slope = two > one ? (second[i].bytes - first[i].bytes) / (two - one) : 0;
    known->second.push_back({first[i], {first[i].bytes - slope * one, slope}});
  }
  return known->second;
}

SectionCache& SectionCache::of_thread(size_t i) {
  if (i == 0) return *this;
  RunSpec whole = base_;
  whole.net = net_;
  while (others_.size() < i) others_.push_back(std::make_unique<SectionCache>(whole, where_));
  return *others_[i - 1];
}

const NetSections& SectionCache::of(const SectionKey& key) {
  auto& known = known_[key];
  if (known) return *known;
  const RunSpec spec = spec_of(key);
  auto out = std::make_unique<NetSections>();
  std::tie(out->one, out->two) = samples_of(key);
  const plan::Plan one = plan_of_samples(spec, static_cast<int64_t>(out->one));
  const plan::Plan other =
      out->two > out->one ? plan_of_samples(spec, static_cast<int64_t>(out->two)) : plan::Plan{};
  const plan::Plan& two = out->two > out->one ? other : one;
  out->parts.resize(representatives_.size());
  const Priced priced(distinct_, representatives_);
  cut_ops(one, two, priced, where_, net_.recorded(), *out);
  count_parameters(one, priced, *out);
  count_memory(one, two, priced, static_cast<double>(key.tp), *out);
  known = std::move(out);
  return *known;
}

namespace {

bool multiplies_weights(plan::OpKind k) {
  return k == plan::OpKind::gemm || k == plan::OpKind::grouped_gemm;
}

double& wait_for(plan::Lane lane, SectionTime& t) {
  return lane == plan::Lane::cp ? t.cp : lane == plan::Lane::ep ? t.ep : t.tp;
}

}  // namespace

SectionTime time_of(const NetSections& of, const Section& section, const SectionKey& key, double samples,
                    const OpPrices& prices, const Placements& placements, Counts* counts, bool split) {
  const auto& [rates, slowdown, cache_share, serial, added, where, peaks] = prices;
  SectionTime t;
  std::array<double, plan::kLanes> free{};
  std::vector<double> end(section.size());
  const double x = of.two > of.one ? (samples - of.one) / (of.two - of.one) : 0;
  double postponed = 0, additions = 0;  // additions: ops that add gradients to earlier ones
  size_t put_off = 0;
  const double launch = where.processors > 0 ? rates[index_of(Coef::host_op)] : 0;
  double busy_until = 0;               // end of the last collective
  double stopped_until = 0;            // end of the last one that the computing core makes
  double read = 0, launched_read = 0;  // last read of weights: on the device alone, and with launches
  plan::Lane stopped_by = plan::Lane::compute;
  for (size_t i = 0; i < section.size(); ++i) {
    const SectionOp& op = section[i];
    OpShape shape = between(op.one, op.two, x);
    if (op.lane == plan::Lane::tp) shape.group = {static_cast<double>(key.tp), placements.tp};
    if (op.lane == plan::Lane::cp) shape.group = {static_cast<double>(key.cp), placements.cp};
    if (op.lane == plan::Lane::ep) shape.group = {static_cast<double>(key.ep), placements.ep};
    if (op.weight && multiplies_weights(op.one.kind))
      shape.work.bytes_read += added * shape.work.bytes_written;
    double s;
    if (op.named && where.shapes) {
      const double factor = timed_factor(*op.named, x, where);
      Counts own{};
      s = factor * op_seconds(shape, rates, where, cache_share, counts ? &own : nullptr);
      if (counts)
        for (size_t c = 0; c < kCoefs; ++c) (*counts)[c] += factor * own[c];
    } else {
      s = op_seconds(shape, rates, where, cache_share, counts);
    }
    if (op.gradients > 0) {
      s += added * op.gradients *
           op_seconds(addition_of(op.gradient_bytes / op.gradients), rates, where, cache_share, counts);
      additions += added * op.gradients;
    }
    if (split && op.weight) {
      postponed += s;
      ++put_off;
      t.flops += shape.work.flops / shape.busiest;
      t.ceiling += shape.work.flops / peaks.of(shape);
      continue;
    }
    double& now = free[static_cast<size_t>(op.lane)];
    double begin = now;
    plan::Lane waited = op.lane;
    for (int32_t w : op.waits)
      if (end[w] > begin) {
        begin = end[w];
        waited = section[w].lane;
      }
    if (op.lane == plan::Lane::compute) {
      if (stopped_until > begin) begin = stopped_until, waited = stopped_by;
      // While a lane is busy compute runs at 1 / (1 + slowdown) of its speed.
      const double shared = std::min(s, std::max(0.0, busy_until - begin) / (1 + slowdown));
      wait_for(waited, t) += begin - now;
      t.compute += s;
      if (op.weight) t.weight += s;
      t.slowdown += shared * slowdown;
      t.flops += shape.work.flops / shape.busiest;
      t.ceiling += shape.work.flops / peaks.of(shape);
      s += shared * slowdown;
    } else {
      // A core that computes makes transfers inside its host itself.
      const bool moves = plan::is_collective(op.one.kind);
      const bool stops = serial || (moves && !where.overlaps() && shape.group.hosts() <= 1);
      if (serial) begin = std::max(begin, free[static_cast<size_t>(plan::Lane::compute)]);
      if (stops && begin + s > stopped_until) stopped_until = begin + s, stopped_by = op.lane;
      busy_until = std::max(busy_until, begin + s);
    }
    now = end[i] = begin + s;
    if (op.lane == plan::Lane::compute && multiplies_weights(op.one.kind) && !op.weight) {
      read = now;
      launched_read = std::max(now, launch * static_cast<double>(i + 1 - put_off));
    }
  }
  const double compute_end = free[static_cast<size_t>(plan::Lane::compute)];
  t.seconds = std::max(compute_end, busy_until);
  plan::Lane last = plan::Lane::tp;
  for (const plan::Lane lane : {plan::Lane::cp, plan::Lane::ep})
    if (free[static_cast<size_t>(lane)] > free[static_cast<size_t>(last)]) last = lane;
  wait_for(last, t) += t.seconds - compute_end;
  // Postponed weight gradients have launches of their own.
  if (counts) (*counts)[index_of(Coef::host_op)] += static_cast<double>(section.size());
  const double launches = launch * (static_cast<double>(section.size() - put_off) + additions);
  const double early = std::max(0.0, launches - t.seconds);
  t.host = early;
  t.launches = launch * (static_cast<double>(section.size()) + additions);
  t.compute += postponed;
  const double late = std::max(0.0, launch * static_cast<double>(put_off) - postponed);
  t.weight += postponed + late;
  t.host += late;
  t.after_reads = t.seconds + early - launched_read;
  t.device_after_reads = t.seconds - read;
  t.seconds += t.host + postponed;
  return t;
}

}  // namespace isobar::perf
