#include "perfmodel/ask/choose/schedule.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <stdexcept>

#include "model/base/error.h"
#include "model/base/text/printed.h"
#include "perfmodel/ask/choose/compare.h"

namespace isobar::perf {
namespace {

// One accelerator's MTBF, with its share of all that stops a job, if the machine file gives none: 419
// unexpected interruptions in 54 days on 16,384 H100 (Llama 3, arXiv:2407.21783, table 5).
constexpr double kMtbfHours = 54.0 * 24 * 16384 / 419;
// From a failure to the next step, without reading the checkpoint: an assumption, minutes if automatic.
constexpr double kRestartSeconds = 300;
constexpr double kDay = 86400;
constexpr int64_t kMost = 1 << 17;  // accelerators

double samples_of(const RunSpec& s, const LayoutQuestion& q) {
  return q.samples > 0 ? q.samples : q.tokens / static_cast<double>(s.net.tokens());
}

// The chance that `k` lies below a bound.
double chance_below(const Known& k, double bound) {
  return bound > 0 && k.value > 0 ? chance_less(k, {bound, bound, bound}) : 1;
}

Scheduled scheduled(const LayoutChoice& c, const LayoutQuestion& q) {
  Scheduled s{c, training_of(c, q)};
  s.in_time = chance_below(s.training.days, q.deadline_s / kDay);
  s.in_budget = chance_below(s.training.price, q.budget);
  return s;
}

}  // namespace

Training training_of(const LayoutChoice& c, const LayoutQuestion& q) {
  Training t;
  const Machine& m = c.machine;
  const double steps = std::ceil(samples_of(c.spec, q) / static_cast<double>(c.spec.train.global_batch));
  double slowest = 1, fastest = 1;  // useful shares at the ends of the interval of the checkpoint's time
  if (m.accelerator) {
    const bool stated = m.accelerator->mtbf_hours > 0;
    t.mtbf_hours = (stated ? m.accelerator->mtbf_hours : kMtbfHours) / static_cast<double>(c.ranks());
    const double mtbf = 3600 * t.mtbf_hours;
    // A restart reads the checkpoint, at the rate that it was written with.
    const auto useful = [&](double seconds) {
      return useful_share(mtbf, seconds, kRestartSeconds + seconds, best_interval(mtbf, seconds));
    };
    t.every_s = best_interval(mtbf, c.checkpoint.seconds), t.useful = useful(c.checkpoint.seconds);
    slowest = useful(c.checkpoint.upper), fastest = useful(c.checkpoint.lower);
    if (!stated)
      t.assumed =
          printed("%.3g", kMtbfHours) +
          " h between failures of one accelerator (accelerator.mtbf_hours; Llama 3, arXiv:2407.21783)";
    t.assumed += (t.assumed.empty() ? "" : ", ") + printed("%.3g", kRestartSeconds) + " s to restart";
    for (const std::string& a : c.checkpoint.assumed) t.assumed += ", " + a;
  }
  // Steps and checkpoints err independently: their logarithms add in squares.
  const auto end = [](double step, double share) {
    return std::exp(std::hypot(std::log(step), std::log(share)));
  };
  const double days = c.step.value * steps / kDay / t.useful;
  t.days = {days, days / end(c.step.value / c.step.lower, fastest / t.useful),
            days * end(c.step.upper / c.step.value, t.useful / slowest)};
  t.gpu_hours = t.days.scaled(24 * static_cast<double>(c.ranks()));
  if (m.accelerator) {
    t.price = t.gpu_hours.scaled(m.accelerator->price_per_hour);
    t.kwh = t.gpu_hours.scaled(m.accelerator->power_w / 1000);
  }
  return t;
}

std::vector<Scheduled> schedule(const Chooser& chooser, const RunSpec& spec, const LayoutQuestion& q,
                                std::vector<NoAnswer>& none) {
  std::vector<Scheduled> all;
  std::exception_ptr why;
  bool bad = false;
  const auto consider = [&](int64_t gpus) -> const Scheduled* {
    try {
      LayoutQuestion one = q;
      one.top = 1;
      all.push_back(scheduled(chooser.best(spec, gpus, one).front(), q));
      return &all.back();
    } catch (const ConfigError& e) {  // too few for the net, or not a divisor of the batch: go on
      const bool wrong = dynamic_cast<const DoesNotFit*>(&e) == nullptr;
      if (!why || (wrong && !bad)) why = std::current_exception();  // bad input outranks a misfit
      bad = bad || wrong;
      if (!q.gpus.empty()) none.push_back(no_answer(chooser.machine().name, gpus, e));
      return nullptr;
    }
  };
  if (!q.gpus.empty()) {
    for (const int64_t gpus : q.gpus) consider(gpus);
  } else {
    const Machine& m = chooser.machine();
    const int64_t host = m.accelerator ? std::max<int64_t>(1, m.accelerator->host.ranks) : 1;
    int64_t made = 0;
    for (int64_t gpus = host; gpus <= kMost && made == 0; gpus *= 2) {
      const Scheduled* s = consider(gpus);
      if (s && s->in_time >= kSure) made = gpus;
      if (!s && bad && !all.empty()) break;  // the batch has no more divisors
    }
    if (made >= 2 * host)
      for (int64_t eighth = 1; eighth < 4; ++eighth)
        if (const int64_t gpus = made / 2 + eighth * made / 8; gpus % host == 0) consider(gpus);
  }
  if (all.empty()) std::rethrow_exception(why);
  std::sort(all.begin(), all.end(),
            [](const Scheduled& a, const Scheduled& b) { return a.choice.ranks() < b.choice.ranks(); });
  return all;
}

std::vector<Scheduled> worth_it(const std::vector<Scheduled>& all) {
  std::vector<Scheduled> out;
  for (const Scheduled& s : all) {
    const double days = s.training.days.value, price = s.training.price.value;
    const bool beaten =
        price > 0 && std::any_of(all.begin(), all.end(), [&](const Scheduled& o) {
          return o.training.price.value > 0 && o.training.days.value < days && o.training.price.value < price;
        });
    if (!beaten) out.push_back(s);
  }
  return out;
}

const Scheduled& advised(const std::vector<Scheduled>& all) {
  const auto cheaper = [](const Scheduled& a, const Scheduled& b) {
    const double x = a.training.price.value, y = b.training.price.value;
    return x > 0 && y > 0 ? x < y : a.choice.ranks() < b.choice.ranks();
  };
  const Scheduled* best = &all.front();
  for (const Scheduled& s : all) {
    const bool sure = s.both() >= kSure, best_sure = best->both() >= kSure;
    if (sure != best_sure ? sure : sure ? cheaper(s, *best) : s.both() > best->both()) best = &s;
  }
  return *best;
}

double useful_share(double mtbf_s, double checkpoint_s, double restart_s, double every_s) {
  return every_s / (mtbf_s * std::exp(restart_s / mtbf_s) * std::expm1((every_s + checkpoint_s) / mtbf_s));
}

double best_interval(double mtbf_s, double checkpoint_s) {
  if (!(mtbf_s > 0) || !(checkpoint_s > 0))
    throw std::invalid_argument("best_interval: times above 0 are wanted");
  const double x = checkpoint_s / (2 * mtbf_s);
  if (!(x < 1)) return mtbf_s;
  return std::sqrt(2 * checkpoint_s * mtbf_s) * (1 + std::sqrt(x) / 3 + x / 9) - checkpoint_s;
}

Allocation allocation_of(const Facility& f, const Scheduled& s) {
  constexpr double kHours = 24;  // of a day
  const int64_t nodes = (s.choice.ranks() + f.ranks_per_node - 1) / f.ranks_per_node;
  const double part = f.shares_nodes
                          ? static_cast<double>(s.choice.ranks()) / static_cast<double>(f.ranks_per_node)
                          : static_cast<double>(nodes);
  const Known hours = s.training.days.scaled(kHours), node_hours = hours.scaled(part);
  const auto jobs = [&](double h) { return std::ceil(3600 * h / f.max_time_s); };
  return {.nodes = nodes,
          .node_hours = node_hours,
          .charged = node_hours.scaled(f.charge),
          .jobs = {jobs(hours.value), jobs(hours.lower), jobs(hours.upper)}};
}

}  // namespace isobar::perf
