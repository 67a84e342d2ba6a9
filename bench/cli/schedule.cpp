#include "bench/cli/schedule.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/cli/compare.h"
#include "model/base/error.h"
#include "perfmodel/failures.h"

namespace isobar {
namespace {

constexpr double kDay = 86400;
constexpr double kLikely = 0.5, kSure = 0.9;
constexpr int64_t kMost = 1 << 17;  // accelerators

double samples_of(const RunSpec& s, const LayoutQuestion& q) {
  return q.samples > 0 ? q.samples : q.tokens / static_cast<double>(s.net.tokens());
}

std::string three(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", v);
  return text;
}

// The chance that `k` lies below a bound.
double chance_below(const Interval& k, double bound) {
  return bound > 0 && k.value > 0 ? chance_less(k, {bound, bound, bound}) : 1;
}

Scheduled scheduled(const LayoutChoice& c, const LayoutQuestion& q) {
  Scheduled s{c, training_of(c, q)};
  s.in_time = chance_below(s.training.days, q.deadline_s / kDay);
  s.in_budget = chance_below(s.training.price, q.budget);
  return s;
}

const Scheduled* fewest(const std::vector<Scheduled>& all, double chance) {
  for (const Scheduled& s : all)
    if (s.both() >= chance) return &s;
  return nullptr;
}

}  // namespace

bool has_training(const LayoutQuestion& q) {
  return q.tokens > 0 || q.samples > 0;
}

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
    const auto of = [&](double seconds) { return failures(mtbf, seconds, kRestartSeconds + seconds); };
    const Failures f = of(c.checkpoint.time.value);
    t.every_s = f.every_s, t.useful = f.useful;
    slowest = of(c.checkpoint.time.upper).useful, fastest = of(c.checkpoint.time.lower).useful;
    if (!stated)
      t.assumed =
          three(kMtbfHours) +
          " h between failures of one accelerator (accelerator.mtbf_hours; Llama 3, arXiv:2407.21783)";
    t.assumed += (t.assumed.empty() ? "" : ", ") + three(kRestartSeconds) + " s to restart";
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

std::string text_of(const Training& t, const Machine& m) {
  std::string out =
      "the whole training: " + with_interval(t.days) + " days, " + with_interval(t.gpu_hours) + " GPU-hours";
  if (t.price.value > 0) out += ", " + with_interval(t.price) + " " + m.accelerator->currency;
  if (t.kwh.value > 0) out += ", " + with_interval(t.kwh) + " kWh (accelerators at full power)";
  if (t.every_s > 0)
    out += "\n  with a failure every " + three(t.mtbf_hours) + " h the best checkpoint interval is " +
           three(t.every_s / 60) + " min (Young 1974, Daly 2006); " + three(100 * t.useful) +
           " % of the time is then useful, and the figures include the rest\n  assumed: " + t.assumed;
  return out;
}

nlohmann::json json_of(const Training& t) {
  const auto known = [](const Interval& k) {
    return nlohmann::json{{"value", k.value}, {"lower", k.lower}, {"upper", k.upper}};
  };
  return {{"hours", 24 * t.days.value}, {"gpu_hours", t.gpu_hours.value},  {"price", t.price.value},
          {"kwh", t.kwh.value},         {"days", known(t.days)},           {"price_interval", known(t.price)},
          {"mtbf_hours", t.mtbf_hours}, {"checkpoint_every_s", t.every_s}, {"useful", t.useful},
          {"assumed", t.assumed}};
}

std::vector<Scheduled> schedule(const Chooser& chooser, const RunSpec& spec, const LayoutQuestion& q) {
  std::vector<Scheduled> all;
  std::string why = "no number up to " + std::to_string(kMost) + " can be shared";
  bool bad = false;
  const auto consider = [&](int64_t gpus) -> const Scheduled* {
    try {
      LayoutQuestion one = q;
      one.top = 1;
      all.push_back(scheduled(chooser.best(spec, gpus, one).front(), q));
      return &all.back();
    } catch (const ConfigError& e) {  // too few for the net, or not a divisor of the batch: go on
      why = e.what();
      bad = bad || dynamic_cast<const DoesNotFit*>(&e) == nullptr;
      if (!q.gpus.empty()) std::fprintf(stderr, "isobar: %s\n", e.what());  // the user asked for this number
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
  if (all.empty()) {
    if (bad) throw ConfigError(spec.file, "--deadline", why, "give --gpus N that can be shared");
    throw DoesNotFit(spec.file, "--deadline", why, "name a machine with more memory");
  }
  std::sort(all.begin(), all.end(),
            [](const Scheduled& a, const Scheduled& b) { return a.choice.ranks() < b.choice.ranks(); });
  return all;
}

Table schedule_table(const std::vector<Scheduled>& all, const LayoutQuestion& q) {
  const Machine& m = all.front().choice.machine;
  Table t{.id = "schedule",
          .title = "Time, cost and energy of the training",
          .columns = {number_column("GPUs"), text_column("days"),
                      text_column(m.accelerator ? m.accelerator->currency : "price"), text_column("kWh"),
                      number_column("useful"), number_column("in time"), number_column("in budget"),
                      number_column("fits"), text_column("layout")},
          .note =
              "In brackets 80 % intervals; useful: share of the time without failures and checkpoints; in "
              "time, in "
              "budget, fits: probabilities."};
  const auto percent = [](double share) { return text(rounded(100 * share, 0) + " %"); };
  const auto money = [](const Interval& k) { return text(k.value > 0 ? with_interval(k) : "-"); };
  for (const Scheduled& s : all)
    t.rows.push_back({integer(s.choice.ranks()), text(with_interval(s.training.days)),
                      money(s.training.price), money(s.training.kwh), percent(s.training.useful),
                      q.deadline_s > 0 ? percent(s.in_time) : text("-"),
                      q.budget > 0 && s.training.price.value > 0 ? percent(s.in_budget) : text("-"),
                      percent(s.choice.fits), text(text_of(layout_of(s.choice.spec)))});
  return t;
}

std::string verdict(const std::vector<Scheduled>& all, const LayoutQuestion& q) {
  const std::string what = q.deadline_s > 0 && q.budget > 0 ? "in time and in budget"
                           : q.deadline_s > 0               ? "in time"
                                                            : "in budget";
  const auto line = [&](const char* how, double chance) {
    const Scheduled* s = fewest(all, chance);
    return "  fewest GPUs that are " + what + how + ": " +
           (s ? std::to_string(s->choice.ranks()) + ", " + text_of(layout_of(s->choice.spec))
              : std::string("none of these")) +
           "\n";
  };
  return line(" more likely than not", kLikely) + line(" 9 times in 10", kSure);
}

}  // namespace isobar
