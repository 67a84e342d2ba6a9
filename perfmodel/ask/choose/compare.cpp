#include "perfmodel/ask/choose/compare.h"

#include <cmath>
#include <limits>

#include "model/base/error.h"
#include "perfmodel/fitting/statistics.h"

namespace isobar::perf {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double sigma_of(const Known& k, bool above) {
  return (above ? std::log(k.upper / k.value) : std::log(k.value / k.lower)) / kNormal80;
}

Known seconds_per_sample(const LayoutChoice& c) {
  return c.samples_per_s().inverse();
}

// Sigma of the difference of two logarithms on one machine, whose prices err for both alike; none: different
// machines, or an engine whose errors have no parts. One layout errs alike, too.
std::optional<double> difference(const LayoutChoice& a, const LayoutChoice& b) {
  const std::vector<double>&x = a.errors.shared, &y = b.errors.shared;
  if (a.machine.file != b.machine.file || x.empty() || x.size() != y.size()) return std::nullopt;
  const bool alike = a.spec.train.global_batch == b.spec.train.global_batch &&
                     text_of(layout_of(a.spec)) == text_of(layout_of(b.spec));
  double variance = alike ? 0 : a.errors.own * a.errors.own + b.errors.own * b.errors.own;
  for (size_t i = 0; i < x.size(); ++i) variance += (x[i] - y[i]) * (x[i] - y[i]);
  return std::sqrt(variance);
}

double chance_above(double gap, double sigma) {
  return sigma > 0 ? normal_cdf(gap / sigma) : gap > 0 ? 1 : gap < 0 ? 0 : 0.5;
}

}  // namespace

Beats beats(const ComparedRow& r, const ComparedRow& first) {
  Beats b{kNone, kNone};
  if (&r == &first) return b;
  const std::optional<double> sigma = difference(r.choice, first.choice);
  const auto chance = [&](const Known& a, const Known& of_first) {
    return sigma ? chance_above(std::log(of_first.value / a.value), *sigma) : chance_less(a, of_first);
  };
  b.faster = chance(seconds_per_sample(r.choice), seconds_per_sample(first.choice));
  if (r.choice.price().value > 0 && first.choice.price().value > 0)
    b.cheaper = chance(r.choice.price(), first.choice.price());
  return b;
}

double chance_less(const Known& a, const Known& b) {
  const double gap = std::log(b.value / a.value);
  // The sides of the two intervals that face each other.
  const double sigma = std::hypot(sigma_of(a, gap >= 0), sigma_of(b, gap < 0));
  return chance_above(gap, sigma);
}

std::vector<Variant> with_changes(const Machine& machine, const std::vector<std::string>& changes,
                                  const LayoutQuestion& q) {
  std::vector<Variant> out{{machine}};
  Variant all{machine};
  for (const std::string& one : changes) {
    const double longer = training_what_if(one);
    if (longer != 1 && !has_training(q))
      throw ConfigError("--what-if", one, "changes a training, and none was given", "add --tokens 1T");
    out.push_back({what_if(machine, one), longer});
    all = {what_if(all.machine, one), all.longer * longer};
  }
  if (changes.size() > 1) out.push_back(all);
  return out;
}

Compared compare(const std::vector<Variant>& machines, const RunSpec& spec, const LayoutQuestion& question,
                 const EngineQuestion& engine, const PredictOptions& options) {
  Compared out;
  for (const auto& [m, longer] : machines) {
    LayoutQuestion own = question;
    own.tokens *= longer;
    own.samples *= longer;
    const Chooser chooser(spec, m, engine, options);
    const std::vector<int64_t> numbers = own.gpus.empty() ? std::vector<int64_t>{0} : own.gpus;
    for (const int64_t gpus : numbers) try {
        const std::string name = m.name.empty() ? m.file : m.name;
        out.rows.push_back({name, gpus > 0 ? chooser.best(spec, gpus, question).front() : chooser.own(spec)});
        if (gpus > 0) out.rows.back().limit = chooser.limit(out.rows.back().choice, question);
        if (has_training(own)) out.rows.back().training = training_of(out.rows.back().choice, own);
      } catch (const ConfigError& e) {
        out.none.push_back(no_answer(m.name, gpus, e));
      }
  }
  return out;
}

}  // namespace isobar::perf
