#include <algorithm>
#include <map>

#include "model/base/system/files.h"
#include "model/base/text/json.h"
#include "model/base/text/printed.h"
#include "reports/answers/answers.h"
#include "reports/page.h"
#include "reports/pages/pages.h"

namespace isobar::report {
namespace {

using nlohmann::json;

constexpr double kDay = 86400;
constexpr const char *kKept = "limits kept 9 times in 10", *kNotKept = "not kept";

bool doubling(int64_t gpus, int64_t first) {
  const int64_t times = gpus / first;
  return gpus % first == 0 && (times & (times - 1)) == 0;
}

// Rows to draw: not those that would take much longer than the deadline. Doublings have a label above, the
// advised number one below; the others, between them, have none.
json rows_of(const std::vector<perf::Scheduled>& all, const perf::LayoutQuestion& q, double unit) {
  constexpr double kFar = 8;
  const perf::Scheduled& best = perf::advised(all);
  json out = json::array();
  std::map<std::string, int64_t> first;  // by machine
  for (const perf::Scheduled& s : all) {
    const perf::Training& t = s.training;
    const std::string& machine = s.choice.machine.name;
    const int64_t gpus = first.emplace(machine, s.choice.ranks()).first->second;
    if (q.deadline_s > 0 && t.days.value * kDay > kFar * q.deadline_s && &s != &best) continue;
    out.push_back({{"machine", machine},
                   {"gpus", s.choice.ranks()},
                   {"days", t.days.value},
                   {"from", t.days.lower},
                   {"to", t.days.upper},
                   {"price", t.price.value / unit},
                   {"kept", s.both() >= perf::kSure ? kKept : kNotKept},
                   {"label", &s == &best                        ? "below"
                             : doubling(s.choice.ranks(), gpus) ? "above"
                                                                : "none"},
                   {"layout", perf::layout_text(s.choice.spec)}});
  }
  return out;
}

Figure days_against_money(const std::vector<perf::Scheduled>& all, const perf::LayoutQuestion& q) {
  const std::string currency = all.front().choice.machine.accelerator->currency;
  double most = 0;
  for (const perf::Scheduled& s : all) most = std::max(most, s.training.price.value);
  const bool near = q.budget > 0 && q.budget < 2 * most;  // else the budget would flatten the curves
  if (near) most = std::max(most, q.budget);
  const double unit = most >= 1e5 ? 1e6 : 1e3;
  const json rows = rows_of(all, q, unit);
  const std::string money = (unit == 1e6 ? "million " : "thousand ") + currency;
  json spec = chart_spec("pages/days-money", {{"rows", rows},
                                              {"money", money},
                                              {"prices", {0, 1.12 * most / unit}},
                                              {"has_deadline", q.deadline_s > 0},
                                              {"deadline", q.deadline_s / kDay},
                                              {"near_budget", near},
                                              {"budget", q.budget / unit}});
  return {"days-money", "budget", "Days against money",
          std::string("Numbers are GPUs, each with its best layout; bold: the answer.") +
              (q.budget > 0 && !near ? " The budget lies above the picture." : ""),
          spec};
}

// A value with its interval, in large type and below it.
Fact fact_of(const std::string& with_interval, const std::string& unit, const std::string& what) {
  const size_t at = with_interval.find(" (");
  return {with_interval.substr(0, at) + unit,
          what + "; 80 % interval " + with_interval.substr(at + 2, with_interval.size() - at - 3)};
}

// "1 T tokens; deadline 45 days; budget 2 M USD"
std::string asked(const perf::LayoutQuestion& q, const std::string& currency) {
  const auto amount = [](double v) {
    return v >= 1e12  ? printed("%.4g T", v * 1e-12)
           : v >= 1e6 ? printed("%.4g M", v * 1e-6)
           : v >= 1e3 ? printed("%.4g k", v * 1e-3)
                      : printed("%.4g", v);
  };
  std::string out = q.tokens > 0 ? amount(q.tokens) + " tokens" : amount(q.samples) + " samples";
  if (q.deadline_s > 0) out += printed("; deadline %.4g days", q.deadline_s / kDay);
  if (q.budget > 0) out += "; budget " + amount(q.budget) + " " + currency;
  return out;
}

std::vector<Fact> facts_of(const perf::Scheduled& best) {
  const perf::Machine& m = best.choice.machine;
  std::vector<Fact> out = {{std::to_string(best.choice.ranks()) + " x " + m.name,
                            best.both() >= perf::kSure ? "the cheapest that keeps the limits 9 times in 10"
                                                       : "the likeliest to keep the limits"},
                           fact_of(with_interval(best.training.days), " days", "of training")};
  if (best.training.price.value > 0) {
    Fact price = fact_of(with_interval_of_amount(best.training.price), "", "for the whole training");
    price.value = money(best.training.price, m.accelerator->currency);
    out.push_back(price);
  }
  return out;
}

}  // namespace

std::string write_budget_page(const std::filesystem::path& out, const std::string& title,
                              const std::vector<Sentence>& sentences, const std::vector<perf::Scheduled>& all,
                              const perf::LayoutQuestion& q, const std::vector<Table>& more) {
  const std::vector<perf::Scheduled> rows = perf::worth_it(all);
  const bool priced = std::all_of(rows.begin(), rows.end(),
                                  [](const perf::Scheduled& s) { return s.training.price.value > 0; });
  const std::optional<perf::Accelerator>& device = rows.front().choice.machine.accelerator;
  const std::string currency = device ? device->currency : "";
  std::vector<Figure> figures;
  if (priced) figures.push_back(days_against_money(all, q));
  write_atomically(out / "budget.json", json_text(json_of(all), 1) + "\n");
  std::vector<Table> tables{schedule_table(rows, q), schedule_numbers(rows)};
  tables.insert(tables.end(), more.begin(), more.end());
  return write_plain_page(out,
                          {.title = title,
                           .subject = asked(q, currency),
                           .facts = facts_of(perf::advised(all)),
                           .sentences = sentences},
                          figures, tables);
}

}  // namespace isobar::report
