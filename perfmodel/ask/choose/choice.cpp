#include "perfmodel/ask/choose/choice.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "model/base/error.h"
#include "model/base/spec/settings_of_others.h"
#include "model/base/text/printed.h"
#include "perfmodel/ask/fits.h"
#include "perfmodel/ask/layout_predict.h"

namespace isobar::perf {
namespace {

constexpr size_t kPlaced = 100;  // plans placed for a search; beyond, memory is by the closed form

Known per_sample(const LayoutChoice& c, double per_rank_hour) {
  const double samples = static_cast<double>(c.spec.train.global_batch);
  return c.step.scaled(per_rank_hour * static_cast<double>(c.ranks()) / 3600 / samples);
}

// A checkpoint's contents depend on net and optimizer, not on the engine that writes it.
CheckpointCost checkpoint_of(LayoutModel& model, const RunSpec& spec) {
  return checkpoint_cost(spec, model.parameters(layout_of(spec)), model.machine(),
                         model.where().ranks_on_host);
}

std::vector<RunSpec> with_batches(const RunSpec& spec, const LayoutQuestion& q) {
  std::vector<RunSpec> out(std::max<size_t>(1, q.batches.size()), spec);
  for (size_t i = 0; i < q.batches.size(); ++i) out[i].train.global_batch = q.batches[i];
  return out;
}

}  // namespace

LayoutChoice choice_of(const RunSpec& spec, const Prediction& p, const Machine& m,
                       const PredictOptions& options, const std::shared_ptr<SectionCache>& sections) {
  LayoutModel model(spec, m, options.host, sections);
  const LayoutCost c = model.cost(layout_of(spec));
  const double sigma = memory_sigma(c, m, spec.policy.zero, true);
  const double bytes = static_cast<double>(p.memory_total), width = kNormal80 * sigma;
  return {.spec = spec,
          .machine = m,
          .step = {p.step_s, p.lower, p.upper},
          .memory = {bytes, bytes - width, bytes + width},
          .there = p.memory_there,
          .fits = chance_to_fit(bytes, sigma, p.memory_there),
          .mfu = rates_of(p, spec, m).mfu,
          .checkpoint = p.checkpoint,
          .notes = p.warnings,
          .errors = p.errors.shared.empty() ? error_parts(model, layout_of(spec)) : p.errors};
}

LayoutChoice choice_of(const EngineLayout& l, const EngineOn& engine, const Machine& m) {
  LayoutModel model(without_settings_of_others(l.spec), m);
  const StepFlops flops{nets::model_flops(l.spec), nets::model_flops(l.spec)};
  const double peak = peak_flops(m, model.where(), peak_of(l.spec));
  return {.spec = l.spec,
          .machine = m,
          .step = l.answer.step,
          .memory = l.answer.memory,
          .there = engine.memory(),
          .fits = l.fits,
          .mfu = rates_of(flops, l.answer.step.value, l.spec.layout.world(), peak).mfu,
          .checkpoint = checkpoint_of(model, l.spec),
          .errors = {{}, std::log(l.answer.step.upper / l.answer.step.lower) / 2 / kNormal80}};
}

Known LayoutChoice::price() const {
  return per_sample(*this, machine.accelerator ? machine.accelerator->price_per_hour : 0);
}
Known LayoutChoice::kwh() const {
  return per_sample(*this, machine.accelerator ? machine.accelerator->power_w / 1000 : 0);
}

RunSpec searched(RunSpec spec, int64_t gpus) {
  spec.layout = {.dp = gpus};
  spec.policy.micro_batch = 0;
  return spec;
}

Chooser::Chooser(const RunSpec& spec, const Machine& machine, const EngineQuestion& engine,
                 const PredictOptions& options)
    : machine_(machine), options_(options) {
  if (engine.foreign()) engine_ = std::make_unique<EngineOn>(spec, machine_, engine);
}
Chooser::~Chooser() = default;

LayoutChoice Chooser::own(const RunSpec& given) const {
  if (engine_) return choice_of(engine_->own(given), *engine_, machine_);
  const RunSpec spec = choose_micro_batch(given, machine_, options_).spec;
  return choice_of(spec, predict(spec, machine_, options_), machine_, options_);
}

void each_batch(const RunSpec& spec, const LayoutQuestion& q,
                const std::function<void(const RunSpec&)>& answer) {
  std::exception_ptr why;
  bool any = false;
  for (const RunSpec& one : with_batches(spec, q)) try {
      answer(one);
      any = true;
    } catch (const ConfigError&) {
      why = std::current_exception();
    }
  if (!any) std::rethrow_exception(why);
}

std::vector<LayoutChoice> Chooser::best_of(const RunSpec& spec, const LayoutQuestion& q) const {
  std::vector<LayoutChoice> out;
  if (engine_) {
    SearchResult found;
    for (const EngineLayout& one : engine_->best(spec, q, found)) {
      out.push_back(choice_of(one, *engine_, machine_));
      if (out.size() == q.top) break;
    }
    return out;
  }
  if (!sections_) sections_ = LayoutModel(spec, machine_).sections();
  const SearchResult r = search(spec, machine_,
                                {.top = q.top,
                                 .confirm = q.top <= kPlaced,
                                 .space = space_of(q),
                                 .sections = sections_,
                                 .progress = q.progress});
  LayoutModel model(spec, machine_, {}, sections_);
  for (const LayoutCandidate& c : r.best) {
    if (out.size() == q.top) break;
    Prediction p = predict_layout(model, c.layout);
    if (c.arena > 0)
      p.memory_total = std::llround(static_cast<double>(c.arena) + c.cost.process + c.cost.nccl);
    out.push_back(choice_of(with_layout(spec, c.layout), p, machine_, options_, sections_));
  }
  return out;
}

std::vector<LayoutChoice> Chooser::best(const RunSpec& spec, int64_t gpus, const LayoutQuestion& q) const {
  std::vector<LayoutChoice> out;
  each_batch(searched(spec, gpus), q, [&](const RunSpec& one) {
    for (LayoutChoice& c : best_of(one, q)) out.push_back(std::move(c));
  });
  std::stable_sort(out.begin(), out.end(),
                   [](const LayoutChoice& a, const LayoutChoice& b) { return a.score() < b.score(); });
  if (out.size() > q.top) out.erase(out.begin() + static_cast<std::ptrdiff_t>(q.top), out.end());
  return out;
}

Limit Chooser::limit(const LayoutChoice& c, const LayoutQuestion& q) const {
  if (engine_) return limit_on(*engine_, c.spec, c.score(), q);
  LayoutModel model(c.spec, machine_, options_.host, sections_);
  const SearchOptions again{
      .top = 1, .confirm = false, .space = space_of(q), .sections = model.sections(), .lifts = true};
  return limit_of(model, c.spec, search(searched(c.spec, c.ranks()), machine_, again).lifted);
}

Limit limit_on(const EngineOn& engine, const RunSpec& spec, double now, const LayoutQuestion& q) {
  RunSpec twice = searched(spec, spec.layout.world());
  twice.train.global_batch *= 2;
  double gain = 0;
  try {
    SearchResult found;
    const double score = engine.best(twice, q, found).front().score();
    gain = now / (score / static_cast<double>(twice.train.global_batch)) - 1;
  } catch (const ConfigError&) {  // twice the batch has no layout
  }
  if (gain > kNamedGain)
    return {"the batch", gain, "--global-batch " + std::to_string(twice.train.global_batch)};
  return {"the engine's rate (twice the batch gains less than 5 %)", 0, ""};
}

namespace {

void take(Limit& most, Limit one) {
  if (one.gain > kNamedGain && one.gain > most.gain) most = std::move(one);
}

Limit by_data(LayoutModel& model, const Layout& l, const LayoutCost& c) {
  constexpr int32_t kMost = 64;  // threads of a rank
  const Conditions& w = model.where();
  const int64_t most = w.processors > 0 ? kMost : std::max<int64_t>(1, w.cores / w.ranks_on_host);
  std::vector<int32_t> more{std::max(0, l.workers)};
  for (int32_t n = std::max(1, 2 * l.workers); n <= most; n *= 2) more.push_back(n);
  Layout fed = l;
  LayoutCost faster = c;
  model.choose_workers(fed, faster, more);
  if (const double gain = c.seconds / faster.seconds - 1; gain > kNamedGain)
    return {"data", gain, "--set data.workers=" + std::to_string(fed.workers)};
  return {"data", c.seconds / (c.seconds - c.data) - 1, ""};
}

Limit by_network(LayoutModel& model, const Layout& l, double seconds, const char* quantity,
                 const char* what) {
  const Machine machine = model.machine();
  const std::string change = std::string(quantity) + "*2";
  model.set_coefficients(what_if(machine, change).values());
  const double faster = model.time(l).seconds;
  model.set_coefficients(machine.values());
  return {what, seconds / faster - 1, "--what-if '" + change + "'"};
}

}  // namespace

std::string Limit::text() const {
  if (what.empty())
    return "limited by computation: more loader threads, twice the batch, memory or network gain less than 5 "
           "%";
  if (gain == 0) return "limited by " + what;
  const std::string more = printed("%.0f %% more samples/s", 100 * gain);
  if (lift.empty()) return "limited by " + what + ": without waiting for it " + more;
  return "limited by " + what + ": " + lift + " trains " + more;
}

Limit limit_of(LayoutModel& model, const RunSpec& spec, const Lifted& lifted) {
  const Layout l = layout_of(spec);
  const LayoutCost c = model.time(l);
  Limit most;
  take(most, {"the batch", lifted.batch, "--global-batch " + std::to_string(2 * spec.train.global_batch)});
  take(most, {"memory", lifted.memory, "--what-if 'memory_size*2'"});
  if (c.data > 0) take(most, by_data(model, l, c));
  take(most, by_network(model, l, c.seconds, "nvlink_bw", "the network inside hosts"));
  take(most, by_network(model, l, c.seconds, "net_bw", "the network between hosts"));
  return most;
}

}  // namespace isobar::perf
