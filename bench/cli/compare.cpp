#include "bench/cli/compare.h"

#include <cmath>
#include <limits>

#include "bench/cli/step_text.h"
#include "model/base/error.h"
#include "perfmodel/fitting/statistics.h"

namespace isobar {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double sigma_of(const Interval& k, bool above) {
  return (above ? std::log(k.upper / k.value) : std::log(k.value / k.lower)) / kNormal80;
}

// Unit of prices: a million tokens for nets of words, a thousand samples for others.
struct Unit {
  const char *name, *key;
  double samples;
};
Unit unit_paid(const LayoutChoice& c) {
  if (c.spec.net.words() != nullptr)
    return {"M tokens", "million_tokens", 1e6 / static_cast<double>(c.spec.net.tokens())};
  return {"1000 samples", "1000_samples", 1000};
}

Interval seconds_per_sample(const LayoutChoice& c) {
  return c.samples_per_s().inverse();
}

Cell percent(double share) {
  return std::isnan(share) ? number(kNone, 0) : text(rounded(100 * share, 0) + " %");
}

// Chances to beat the first row; unknown for that row itself, and without prices.
struct Beats {
  double faster = kNone, cheaper = kNone;
};
Beats beats(const ComparedRow& r, const ComparedRow& first) {
  Beats b;
  if (&r == &first) return b;
  b.faster = chance_less(seconds_per_sample(r.choice), seconds_per_sample(first.choice));
  if (r.choice.price().value > 0 && first.choice.price().value > 0)
    b.cheaper = chance_less(r.choice.price(), first.choice.price());
  return b;
}

}  // namespace

double chance_less(const Interval& a, const Interval& b) {
  const double gap = std::log(b.value / a.value);
  // The sides of the two intervals that face each other.
  const double sigma = std::hypot(sigma_of(a, gap >= 0), sigma_of(b, gap < 0));
  return sigma > 0 ? normal_cdf(gap / sigma) : gap > 0 ? 1 : gap < 0 ? 0 : 0.5;
}

Table compared(const std::vector<ComparedRow>& rows) {
  const LayoutChoice& first = rows.front().choice;
  const Unit paid = unit_paid(first);
  const TimeUnit u = unit_of(first.step.value);
  const std::string currency = first.machine.accelerator ? first.machine.accelerator->currency : "price";
  Table t{
      .id = "machines",
      .title = "Machines side by side",
      .columns = {text_column("machine"), number_column("GPUs"), text_column(std::string("step ") + u.name),
                  number_column("MFU"), number_column("GB"), number_column("fits"), text_column("samples/s"),
                  text_column(currency + " a " + paid.name), text_column(std::string("kWh a ") + paid.name),
                  number_column("faster"), number_column("cheaper"), text_column("layout")},
      .note =
          "In brackets 80 % intervals. Faster, cheaper: probability of beating the first row, if errors "
          "are independent. Prices and watts come from the machine files."};
  const bool trains = rows.front().training.has_value();
  if (trains) {
    t.columns.insert(t.columns.end() - 1, {text_column("days"), text_column(currency + " total")});
    t.note += " Days and cost: whole training, including failures.";
  }
  const auto money = [&](const Interval& k) { return k.value > 0 ? text(with_interval(k)) : text("-"); };
  for (const ComparedRow& r : rows) {
    const LayoutChoice& c = r.choice;
    const Beats b = beats(r, rows.front());
    t.rows.push_back({text(r.name), integer(c.ranks()), text(with_interval(c.step.scaled(u.per_second))),
                      percent(c.mfu), text(rounded(c.memory.scaled(1e-9))), percent(c.fits),
                      text(with_interval(c.samples_per_s())), money(c.price().scaled(paid.samples)),
                      money(c.kwh().scaled(paid.samples)), percent(b.faster), percent(b.cheaper)});
    if (trains) {
      t.rows.back().push_back(text(with_interval(r.training->days)));
      t.rows.back().push_back(money(r.training->price));
    }
    t.rows.back().push_back(text(text_of(layout_of(c.spec))));
  }
  return t;
}

Table compared_numbers(const std::vector<ComparedRow>& rows) {
  const Unit paid = unit_paid(rows.front().choice);
  Table t{.id = "machines", .title = "Machines side by side"};
  for (const char* name : {"machine", "layout", "currency"}) t.columns.push_back(text_column(name));
  std::vector<std::string> names{"gpus",         "step_s",       "step_lower_s",       "step_upper_s",
                                 "mfu",          "memory_bytes", "memory_there_bytes", "chance_to_fit",
                                 "samples_per_s"};
  for (const char* what : {"price_per_", "kwh_per_"})
    for (const char* end : {"", "_lower", "_upper"}) names.push_back(std::string(what) + paid.key + end);
  names.insert(names.end(), {"chance_faster", "chance_cheaper"});
  const bool trains = rows.front().training.has_value();
  for (const char* what : {"training_days", "training_price"})
    for (const char* end : {"", "_lower", "_upper"})
      if (trains) names.push_back(std::string(what) + end);
  for (const std::string& n : names) t.columns.push_back(number_column(n));
  for (const ComparedRow& r : rows) {
    const LayoutChoice& c = r.choice;
    const Beats b = beats(r, rows.front());
    std::vector<Cell> cells{text(r.name), text(text_of(layout_of(c.spec))),
                            text(c.machine.accelerator ? c.machine.accelerator->currency : "")};
    // Programs get all digits, people only those that the interval of `k` supports.
    const auto add = [&](double v, const Interval& k) {
      cells.push_back(std::isnan(v) ? number(kNone, 0) : Cell{rounded(v, last_place(k)), v, true});
    };
    const auto add_interval = [&](const Interval& k) {
      for (const double v : {k.value, k.lower, k.upper}) add(v > 0 ? v : kNone, k);
    };
    cells.push_back(integer(c.ranks()));
    add_interval(c.step);
    cells.push_back(number(c.mfu, 3));
    add(c.memory.value, c.memory);
    add(c.there, c.memory);
    cells.push_back(number(c.fits, 2));
    add(c.samples_per_s().value, c.samples_per_s());
    add_interval(c.price().scaled(paid.samples));
    add_interval(c.kwh().scaled(paid.samples));
    cells.push_back(number(b.faster, 2));
    cells.push_back(number(b.cheaper, 2));
    if (trains)
      for (const Interval& k : {r.training->days, r.training->price}) add_interval(k);
    t.rows.push_back(std::move(cells));
  }
  return t;
}

std::vector<Variant> with_changes(const Machine& machine, const std::vector<std::string>& changes,
                                  const LayoutQuestion& q) {
  std::vector<Variant> out{{machine}};
  Variant all{machine};
  for (const std::string& one : changes) {
    const double longer = training_what_if(one);
    if (longer != 1 && !has_training(q))
      throw ConfigError("--whatif", one, "changes a training, and none was given", "add --tokens 1T");
    out.push_back({what_if(machine, one), longer});
    all = {what_if(all.machine, one), all.longer * longer};
  }
  if (changes.size() > 1) out.push_back(all);
  return out;
}

}  // namespace isobar
