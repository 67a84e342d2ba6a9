#include "perfmodel/ask/search.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <future>
#include <limits>
#include <set>

#include "model/base/system/cpus.h"
#include "model/base/text/progress.h"
#include "model/nets/build.h"
#include "model/nets/layout/plan_size.h"
#include "model/nets/traced/eager_memory.h"
#include "model/plan/layout.h"
#include "model/plan/schedule.h"
#include "perfmodel/ask/fits.h"
#include "perfmodel/ask/search_state.h"
#include "perfmodel/machine/device.h"

namespace isobar::perf {
namespace {

std::vector<int64_t> divisors(int64_t n, int64_t most) {
  std::vector<int64_t> out;
  for (int64_t d = 1; d <= std::min(n, most); ++d)
    if (n % d == 0) out.push_back(d);
  return out;
}

// The fixed value, if it divides n, else all allowed divisors.
std::vector<int64_t> choices(const Constraints& keep, LayoutAxis axis, int64_t n, int64_t most) {
  const auto only = keep.only(axis);
  std::vector<int64_t> out;
  if (only && n % *only == 0) out = {*only};
  if (!only) out = divisors(n, most);
  std::erase_if(out, [&](int64_t v) { return !keep.allows(axis, v); });
  return out;
}

constexpr double kFar = 2;             // times the best's time: too slow to be spared
constexpr int64_t kLeastTokens = 128;  // of a sample on a rank: one tile of attention
constexpr int kMostThreads = 4;

bool better(const LayoutCandidate& a, const LayoutCandidate& b) {
  return a.score() < b.score();
}
bool slower(const std::pair<const LayoutSearch::Axes, LayoutCandidate>& a,
            const std::pair<const LayoutSearch::Axes, LayoutCandidate>& b) {
  return a.second.score() < b.second.score();
}

}  // namespace

LayoutSearch::LayoutSearch(const RunSpec& spec, const Machine& machine, const SearchOptions& options,
                           int thread)
    : spec_(spec),
      net_(nets::limits_of(spec_)),
      options_(options),
      space_(options_.space),
      keep_(space_.keep),
      zero_(zero_stages()),
      kinds_(schedule_kinds()),
      model_(spec, machine, {}, options_.sections),
      capacity_(memory_of_rank(machine, model_.where().ranks_on_host)),
      kept_(2 * options_.top + 6),
      workers_(worker_counts()),
      thread_(thread) {}

SearchResult LayoutSearch::run() {
  const auto begin = std::chrono::steady_clock::now();
  int64_t all = 0;
  each_axes(spec_.layout.world(), [&](const Axes&) { ++all; });
  Progress bar("search of " + std::to_string(spec_.layout.world()), all, options_.progress,
               std::chrono::seconds(2));
  spread();
  std::atomic<int64_t> done = 0;
  in_threads([&](LayoutSearch& s) {
    s.each_own([&](const Axes& a) {
      if (&s == this) bar.update(done);
      s.axes(a);
      ++done;
    });
  });
  bar.update(done);
  bar.finish();
  join();
  finish();
  if (options_.lifts && !result_.best.empty()) lift();
  result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return std::move(result_);
}

// ---- threads ----

void LayoutSearch::spread() {
  const auto cpus = static_cast<int>(process_cpus().size());
  threads_ = options_.threads > 0 ? options_.threads : std::clamp(cpus, 1, kMostThreads);
  for (int i = 1; i < threads_; ++i) {
    SearchOptions own = options_;
    own.sections = {model_.sections(), &model_.sections()->of_thread(static_cast<size_t>(i))};
    others_.push_back(std::make_unique<LayoutSearch>(spec_, model_.machine(), own, i));
    others_.back()->threads_ = threads_;
  }
}

void LayoutSearch::in_threads(const std::function<void(LayoutSearch&)>& work) {
  std::vector<std::future<void>> running;
  for (const auto& other : others_)
    running.push_back(std::async(std::launch::async, [&work, &other] { work(*other); }));
  work(*this);
  for (std::future<void>& r : running) r.get();
}

void LayoutSearch::each_own(const Visit& visit) const {
  each_axes(spec_.layout.world(), [&](const Axes& a) {
    int group = 0;
    for (const size_t axis : {1, 2, 4}) group += std::bit_width(static_cast<uint32_t>(a[axis]));
    if (group % threads_ == thread_) visit(a);
  });
}

void LayoutSearch::join() {
  for (const auto& other : others_) {
    best_.merge(other->best_);
    for (const LayoutCandidate& c : other->result_.variants) keep_variant(c);
    for (const auto& [memory, c] : other->front_) keep_on_front(c);
    result_.considered += other->result_.considered;
    result_.priced += other->result_.priced;
    result_.too_large += other->result_.too_large;
    least_memory_ = std::min(least_memory_, other->least_memory_);
  }
  while (best_.size() > kept_) best_.erase(std::max_element(best_.begin(), best_.end(), slower));
}

// ---- the space ----

std::vector<Recompute> LayoutSearch::recomputes() const {
  std::vector<Recompute> all = values(LayoutAxis::recompute, space_.recompute);
  if (spec_.net.recorded()) std::erase(all, Recompute::selective);
  return all;
}

std::vector<int> LayoutSearch::zero_stages() const {
  return values(LayoutAxis::zero, space_.zero);
}

std::vector<PipelineSchedule> LayoutSearch::schedule_kinds() const {
  std::vector<PipelineSchedule> all = values(LayoutAxis::schedule, space_.schedules);
  const bool rolls = spec_.train.rollout > 1;
  std::erase_if(all, [&](PipelineSchedule k) { return rolls && !plan::runs_rollouts(k); });
  return all;
}

// Threads beyond the host's cores would take turns.
std::vector<int32_t> LayoutSearch::worker_counts() const {
  std::vector<int32_t> all = values(LayoutAxis::workers, space_.workers);
  const Conditions& w = model_.where();
  if (w.processors == 0 && !keep_.only(LayoutAxis::workers))
    std::erase_if(all, [&](int32_t n) { return n > std::max<int64_t>(1, w.cores / w.ranks_on_host); });
  return all;
}

template <class T>
std::vector<T> LayoutSearch::values(LayoutAxis axis, std::vector<T> out) const {
  if (const auto only = keep_.only(axis)) out = {static_cast<T>(*only)};
  std::erase_if(out, [&](T v) { return !keep_.allows(axis, static_cast<int64_t>(v)); });
  return out;
}

void LayoutSearch::each_axes(int64_t gpus, const Visit& visit) const {
  each_axes(gpus, spec_.train.global_batch, visit);
}

void LayoutSearch::each_axes(int64_t gpus, int64_t batch, const Visit& visit) const {
  const bool any_cp = keep_.only(LayoutAxis::cp).has_value();
  for (const int64_t cp :  // outermost: plans of one cp share cuts of the net's grid or graph
       choices(keep_, LayoutAxis::cp, gpus, space_.context_parallel ? net_.tokens : 1))
    for (const int64_t tp : choices(keep_, LayoutAxis::tp, gpus / cp, space_.max_tp)) {
      if (!nets::tp_cuts(net_, tp)) continue;
      for (const int64_t pp : choices(keep_, LayoutAxis::pp, gpus / tp / cp, net_.inner_parts)) {
        const int64_t dp = gpus / tp / cp / pp;
        if (!nets::cp_cuts(net_, cp) || !nets::stages_fill(net_, pp, 1) || batch % dp != 0) continue;
        if (cp > 1 && net_.tokens / cp < kLeastTokens && !any_cp) continue;
        if (!keep_.allows(LayoutAxis::dp, dp)) continue;
        for (const int64_t ep : choices(keep_, LayoutAxis::ep, dp * cp, std::max<int64_t>(1, net_.experts)))
          if (nets::ep_divides(net_, ep, dp, cp))
            visit(Axes{static_cast<int32_t>(dp), static_cast<int32_t>(tp), static_cast<int32_t>(cp),
                       static_cast<int32_t>(pp), static_cast<int32_t>(ep)});
      }
    }
}

// ---- layouts ----

void LayoutSearch::axes(const Axes& a) {
  const auto [dp, tp, cp, pp, ep] = a;
  Layout l{.dp = dp, .tp = tp, .cp = cp, .pp = pp, .ep = ep};
  if (!workers_.empty()) l.workers = workers_.front();
  places(l);
  hopeless_ = false;
  const bool any_sp = space_.sequence_parallel_off || keep_.only(LayoutAxis::sequence_parallel);
  for (const int sp : {1, 0}) {
    const bool wanted = (sp == 1 || any_sp) && keep_.allows(LayoutAxis::sequence_parallel, sp);
    if (tp == 1 ? sp == 1 : !wanted) continue;
    l.sequence_parallel = sp == 1;
    for (const Recompute recompute : recomputes())
      for (const CpKind kind : {CpKind::allgather, CpKind::ring, CpKind::ulysses}) {
        if (cp == 1 && kind != CpKind::allgather) continue;
        if (cp > 1 && !keep_.allows(LayoutAxis::cp_kind, static_cast<int64_t>(kind))) continue;
        if (!nets::kind_cuts(net_, cp, kind)) continue;
        if (kind == CpKind::ulysses && !nets::ulysses_cuts(net_, tp, cp)) continue;
        if (kind == CpKind::ring && !nets::ring_cuts(net_, cp)) continue;
        l.recompute = recompute;
        l.cp_kind = kind;
        for (const int64_t micro :
             choices(keep_, LayoutAxis::micro_batch, spec_.train.global_batch / dp, 64)) {
          l.micro_batch = static_cast<int32_t>(micro);
          if (l.sequence_parallel && !nets::sequence_cuts(net_, micro, cp, tp)) continue;
          policies(l);
        }
      }
  }
}

// Equal chunks, or such that only the first and last hold one part less beside embedding and head
bool LayoutSearch::even_chunks(int64_t chunks) const {
  return net_.inner_parts % chunks == 0 || (net_.inner_parts + 2) % chunks == 0;
}

// Rank orders with distinct placements; a tie keeps the first.
void LayoutSearch::places(Layout l) {
  places_.clear();
  const int orders = space_.orders ? static_cast<int>(rank_orders().size()) : 1;
  const auto only = keep_.only(LayoutAxis::order);
  const int first = static_cast<int>(only.value_or(0));
  for (int o = first; o < (only ? first + 1 : orders); ++o) {
    if (!keep_.allows(LayoutAxis::order, o)) continue;
    l.order = static_cast<int8_t>(o);
    const Placements at = placements_of(l, model_.where().ranks_on_host);
    const bool known = std::any_of(places_.begin(), places_.end(), [&](const Place& p) {
      return p.at.tp == at.tp && p.at.cp == at.cp && p.at.dp == at.dp && p.at.pp == at.pp && p.at.ep == at.ep;
    });
    if (!known) places_.push_back({l.order, at});
  }
}

// Recomputation only adds work: where the layout without it is too slow, no plans of its parts are made.
bool LayoutSearch::too_slow(Layout l) {
  if (options_.pareto || l.recompute == Recompute::none || recomputes().front() != Recompute::none)
    return false;
  l.recompute = Recompute::none;
  return std::all_of(places_.begin(), places_.end(),
                     [&](const Place& p) { return model_.least_seconds(l, p.at) > bound_; });
}

// Schedules and ZeRO stages of one micro-batch
void LayoutSearch::policies(Layout l) {
  const int64_t micro_batches = spec_.train.global_batch / (int64_t{l.dp} * l.micro_batch);
  if (micro_batches > nets::kMostMicroBatches || !nets::fills_replay(spec_.train, micro_batches)) return;
  schedules_.clear();
  const bool one_chunk = keep_.allows(LayoutAxis::vpp, 1);
  const int64_t most_chunks = std::max(space_.max_chunks, keep_.only(LayoutAxis::vpp).value_or(0));
  for (const PipelineSchedule s : kinds_) {
    if ((s == PipelineSchedule::one_f_one_b || s == PipelineSchedule::gpipe) && one_chunk)
      schedules_.emplace_back(s, 1);
    if (l.pp == 1) continue;
    if (s == PipelineSchedule::zb_h1 && one_chunk && !spec_.net.recorded()) schedules_.emplace_back(s, 1);
    if (s == PipelineSchedule::interleaved && nets::interleaves(micro_batches, l.pp))
      for (int64_t v = 2; v <= most_chunks && nets::stages_fill(net_, l.pp, v); ++v)
        if (even_chunks(v * l.pp) && keep_.allows(LayoutAxis::vpp, v)) schedules_.emplace_back(s, v);
  }
  const bool any_zero = keep_.only(LayoutAxis::zero).has_value();
  // A single rank has nothing to shard: all stages are equal.
  const bool fp32_gradients = spec_.policy.main_grads_dtype == GradientType::fp32;
  const auto known = [&](PipelineSchedule schedule, int zero) {
    return (zero == 0 || any_zero || l.dp * l.cp > 1) &&
           (schedule != PipelineSchedule::zb_h1 ||
            nets::zero_bubble_needs(l.pp, l.recompute != Recompute::none || spec_.policy.edge_chunks > 1,
                                    zero, fp32_gradients)
                .all());
  };
  int64_t each = 0;
  for (const auto& [schedule, chunks] : schedules_)
    for (const int zero : zero_) each += known(schedule, zero) ? 1 : 0;
  result_.considered += each * static_cast<int64_t>(places_.size());
  if (counting_) return;
  if (hopeless_ && !(best_.empty() && leanest(l))) {
    result_.too_large += each * static_cast<int64_t>(places_.size());
    return;
  }
  if (too_slow(l)) return;

  // Policies that fit in any placement
  fitting_.clear();
  double least_kept = std::numeric_limits<double>::infinity();
  for (const auto& [schedule, chunks] : schedules_)
    for (const int zero : zero_) {
      if (!known(schedule, zero)) continue;
      l.schedule = schedule;
      l.vpp = static_cast<int32_t>(chunks);
      l.zero = static_cast<int8_t>(zero);
      LayoutCandidate c{l, {}};
      model_.add_memory(l, c.cost);
      least_memory_ = std::min(least_memory_, c.cost.memory);
      least_kept = std::min(least_kept, c.cost.memory - c.cost.saved - c.cost.scratch);
      if (c.cost.memory > capacity_) {
        result_.too_large += static_cast<int64_t>(places_.size());
        continue;
      }
      c.fits = chance_to_fit(c.cost.memory, memory_sigma(c.cost, model_.machine(), zero, false), capacity_);
      fitting_.push_back(c);
    }
  hopeless_ = least_kept > capacity_ && !spec_.net.recorded();
  if (fitting_.empty()) return;
  for (const Place& p : places_) {
    if (!options_.pareto && model_.least_seconds(l, p.at) > bound_) continue;
    for (LayoutCandidate c : fitting_) {
      c.layout.order = p.order;
      model_.add_time(c.layout, p.at, c.cost);
      if (workers_.size() > 1) model_.choose_workers(c.layout, c.cost, workers_);
      ++result_.priced;
      keep(c);
    }
  }
}

// Nothing of these axes needs less, or hardly less.
bool LayoutSearch::leanest(const Layout& l) const {
  return l.recompute == recomputes().back() && (l.tp == 1 || l.sequence_parallel) &&
         (l.cp == 1 || l.cp_kind == CpKind::allgather);
}

// ---- what is kept ----

void LayoutSearch::keep(const LayoutCandidate& c) {
  if (c.score() < bound_) {
    const Axes axes{c.layout.dp, c.layout.tp, c.layout.cp, c.layout.pp, c.layout.ep};
    const auto [at, fresh] = best_.try_emplace(axes, c);
    if (!fresh && c.score() < at->second.score()) at->second = c;
    // Keeps spares: a finalist may turn out too large, and turns() looks further down.
    if (best_.size() > kept_) {
      auto worst = std::max_element(best_.begin(), best_.end(), slower);
      best_.erase(worst);
    }
    if (best_.size() == kept_) bound_ = std::max_element(best_.begin(), best_.end(), slower)->second.score();
    if (options_.top > 0 && best_.size() >= options_.top && kept_ > 1) bound_ = std::min(bound_, far());
  }
  if (options_.variants > 0) keep_variant(c);
  if (options_.pareto) keep_on_front(c);
}

// The best of them are asked for, however slow.
double LayoutSearch::far() const {
  std::vector<double> scores;
  for (const auto& [axes, c] : best_) scores.push_back(c.score());
  const auto last = scores.begin() + static_cast<std::ptrdiff_t>(options_.top) - 1;
  std::nth_element(scores.begin(), last, scores.end());
  return std::max(*last, kFar * *std::min_element(scores.begin(), last + 1));
}

// Front of time against memory: sorted by memory, every entry faster than those before it.
void LayoutSearch::keep_on_front(const LayoutCandidate& c) {
  auto it = front_.upper_bound(c.cost.memory);
  if (it != front_.begin() && std::prev(it)->second.cost.seconds <= c.cost.seconds) return;
  while (it != front_.end() && it->second.cost.seconds >= c.cost.seconds) it = front_.erase(it);
  front_.insert_or_assign(c.cost.memory, c);
}

// A heap with the worst on top.
void LayoutSearch::keep_variant(const LayoutCandidate& c) {
  std::vector<LayoutCandidate>& v = result_.variants;
  if (v.size() == options_.variants) {
    if (c.score() >= v.front().score()) return;
    std::pop_heap(v.begin(), v.end(), better);
    v.pop_back();
  }
  v.push_back(c);
  std::push_heap(v.begin(), v.end(), better);
}

// Bytes of the placed plans of the stages that may be the fullest
int64_t LayoutSearch::placed(const Layout& l) const {
  RunSpec s = with_layout(spec_, l);
  if (l.schedule != PipelineSchedule::gpipe) s = nets::with_few_micro_batches(std::move(s));
  int64_t arena = 0;
  const std::vector<int> pipeline = plan::group_of(s.layout, "pp", 0);
  const std::set<int> stages{0, std::min<int>(1, l.pp - 1), l.pp - 1};
  for (const int stage : stages)
    arena = std::max(arena, nets::step_memory(s, nets::build_plan(s, pipeline[stage], {})).arena);
  return arena;
}

void LayoutSearch::finish() {
  if (result_.considered == 0) refuse_numbers();
  if (best_.empty()) refuse_memory();
  for (const auto& [axes, c] : best_) result_.best.push_back(c);
  std::stable_sort(result_.best.begin(), result_.best.end(), better);
  if (options_.confirm) {
    size_t good = 0;
    for (auto c = result_.best.begin(); c != result_.best.end() && good < options_.top;) {
      c->arena = placed(c->layout);
      const double bytes = static_cast<double>(c->arena) + c->cost.process + c->cost.nccl;
      if (bytes > capacity_) {
        ++result_.too_large_when_placed;
        c = result_.best.erase(c);
        continue;
      }
      c->fits =
          chance_to_fit(bytes, memory_sigma(c->cost, model_.machine(), c->layout.zero, true), capacity_);
      ++good;
      ++c;
    }
    std::sort(result_.best.begin(), result_.best.begin() + static_cast<std::ptrdiff_t>(good), better);
  }
  std::sort_heap(result_.variants.begin(), result_.variants.end(), better);
  for (const auto& [memory, c] : front_) result_.pareto.push_back(c);
}

// The search once more with twice of one quantity. It shares all prices, and prices only what gains enough.
void LayoutSearch::lift() {
  SearchResult found = std::move(result_);
  const double now = found.best.front().score();
  const auto gain = [&](double samples) {
    in_threads([&](LayoutSearch& s) {
      s.options_.variants = 0, s.options_.pareto = false, s.kept_ = 1;
      s.result_ = {}, s.best_.clear(), s.front_.clear();
      s.bound_ = samples * now / (1 + kNamedGain);
      s.each_own([&](const Axes& a) { s.axes(a); });
    });
    join();
    return best_.empty() ? 0 : samples * now / best_.begin()->second.score() - 1;
  };
  in_threads([](LayoutSearch& s) { s.capacity_ *= 2; });
  found.lifted.memory = gain(1);
  in_threads([](LayoutSearch& s) {
    s.capacity_ /= 2;
    s.spec_.train.global_batch *= 2;
    s.model_.set_batch(s.spec_.train.global_batch);
  });
  found.lifted.batch = gain(2);
  result_ = std::move(found);
}

SearchSpace SearchSpace::one_d() {
  return {.context_parallel = false,
          .sequence_parallel_off = false,
          .recompute = {Recompute::none},
          .zero = {1},
          .schedules = {PipelineSchedule::one_f_one_b}};
}

SearchResult search(const RunSpec& spec, const Machine& machine, const SearchOptions& options) {
  return LayoutSearch(spec, machine, options).run();
}

}  // namespace isobar::perf
