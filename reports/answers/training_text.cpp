#include <algorithm>
#include <cmath>
#include <map>

#include "model/base/text/printed.h"
#include "reports/answers/answers.h"

namespace isobar::report {
namespace {

std::string three(double v) {
  return printed("%.3g", v);
}

}  // namespace

std::string text_of(const perf::Training& t, const perf::Machine& m) {
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

nlohmann::json json_of(const perf::Training& t) {
  const auto known = [](const Known& k) {
    return nlohmann::json{{"value", k.value}, {"lower", k.lower}, {"upper", k.upper}};
  };
  return {{"hours", 24 * t.days.value}, {"gpu_hours", t.gpu_hours.value},  {"price", t.price.value},
          {"kwh", t.kwh.value},         {"days", known(t.days)},           {"price_interval", known(t.price)},
          {"mtbf_hours", t.mtbf_hours}, {"checkpoint_every_s", t.every_s}, {"useful", t.useful},
          {"assumed", t.assumed}};
}

std::string with_interval_of_amount(const Known& k) {
  const double by = k.value >= 1e5 ? 1e-6 : k.value >= 1e3 ? 1e-3 : 1;
  const Known shown = k.scaled(by);
  const int place = last_place(shown);
  return rounded(shown) +
         (by == 1e-6   ? " M"
          : by == 1e-3 ? " k"
                       : "") +
         " (" + rounded(shown.lower, place) + " to " + rounded(shown.upper, place) + ")";
}

std::string money(const Known& k, const std::string& currency) {
  const std::string amount = with_interval_of_amount(k), value = amount.substr(0, amount.find(" ("));
  return currency == "USD" ? "$" + value : value + " " + currency;
}

Table schedule_table(const std::vector<perf::Scheduled>& rows, const perf::LayoutQuestion& q) {
  const perf::Machine& m = rows.front().choice.machine;
  Table t{
      .id = "schedule",
      .title = "Time and cost of the training",
      .columns = {text_column("machine"), number_column("GPUs"), number_column("batch"), text_column("days"),
                  text_column(m.accelerator ? m.accelerator->currency : "price"), number_column("in time"),
                  number_column("in budget")},
      .note = "In brackets 80 % intervals. Numbers that are slower and dearer than another are left out."};
  const auto chance = [](bool asked, double share) {
    return text(asked ? rounded(100 * share, 0) + " %" : "-");
  };
  for (const perf::Scheduled& s : rows)
    t.rows.push_back({text(s.choice.machine.name), integer(s.choice.ranks()),
                      integer(s.choice.spec.train.global_batch), text(with_interval(s.training.days)),
                      text(s.training.price.value > 0 ? with_interval_of_amount(s.training.price) : "-"),
                      chance(q.deadline_s > 0, s.in_time), chance(q.budget > 0, s.in_budget)});
  return t;
}

Table schedule_numbers(const std::vector<perf::Scheduled>& rows) {
  Table t{.id = "schedule_numbers",
          .title = "Layouts and energy",
          .columns = {text_column("machine"), number_column("GPUs"), number_column("batch"),
                      number_column("step", "s"), number_column("MFU", "%"), number_column("days"),
                      number_column("days from"), number_column("days to"), number_column("price"),
                      number_column("price from"), number_column("price to"), number_column("energy", "kWh"),
                      number_column("useful", "%"), number_column("fits", "%"), text_column("layout")},
          .note =
              "From and to: 80 % intervals; useful: time without failures and checkpoints; fits: "
              "probability of fitting in memory; kWh at full power."};
  for (const perf::Scheduled& s : rows) {
    const perf::Training& x = s.training;
    const auto shown = [](double v, const Known& k) { return Cell{rounded(v, last_place(k)), v, true}; };
    t.rows.push_back({text(s.choice.machine.name), integer(s.choice.ranks()),
                      integer(s.choice.spec.train.global_batch), shown(s.choice.step.value, s.choice.step),
                      number(100 * s.choice.mfu, 0), shown(x.days.value, x.days), shown(x.days.lower, x.days),
                      shown(x.days.upper, x.days), shown(x.price.value, x.price),
                      shown(x.price.lower, x.price), shown(x.price.upper, x.price), shown(x.kwh.value, x.kwh),
                      number(100 * x.useful, 0), number(100 * s.choice.fits, 0),
                      text(perf::layout_text(s.choice.spec))});
  }
  return t;
}

namespace {

int tenths(double chance) {
  return chance >= 0.995 ? 10 : static_cast<int>(10 * chance + 1e-9);  // 100 % in the table is 10
}

std::string chances_text(const perf::Scheduled& s, const perf::LayoutQuestion& q) {
  const int time = tenths(s.in_time), money = tenths(s.in_budget);
  if (q.deadline_s > 0 && q.budget > 0)
    return time == money ? printed("; in time and in budget %d times in 10", time)
                         : printed("; in time %d, in budget %d times in 10", time, money);
  return q.deadline_s > 0 ? printed("; in time %d times in 10", time)
         : q.budget > 0   ? printed("; in budget %d times in 10", money)
                          : "";
}

// "20 days (16 to 34)"
std::string days_text(const Known& days) {
  std::string out = with_interval(days);
  return out.insert(out.find(" ("), " days");
}

// "256 x dgx-b200: 20 days (16 to 34), $0.62 M"
std::string row_text(const perf::Scheduled& s) {
  const perf::Machine& m = s.choice.machine;
  std::string out = std::to_string(s.choice.ranks()) + " x " + m.name + ": " + days_text(s.training.days);
  if (s.training.price.value > 0) out += ", " + money(s.training.price, m.accelerator->currency);
  return out;
}

// The machine beside the advised one, and the price that would make it as cheap.
std::string other_machine(const perf::Scheduled& other, const perf::Scheduled& best,
                          const perf::LayoutQuestion& q) {
  std::string out = "With " + row_text(other) + chances_text(other, q) + ".";
  const double ratio = best.training.price.value / other.training.price.value;
  if (best.training.price.value > 0 && other.training.price.value > 0 && other.both() >= perf::kSure)
    out += printed(" It would be as cheap at %.3g %s an hour each, not %.3g.",
                   ratio * other.choice.machine.accelerator->price_per_hour,
                   other.choice.machine.accelerator->currency.c_str(),
                   other.choice.machine.accelerator->price_per_hour);
  return out;
}

// The soonest of the rows that cost less, if that deadline is later than the one asked for.
std::string later_deadline(const std::vector<perf::Scheduled>& all, const perf::Scheduled& best,
                           const perf::LayoutQuestion& q) {
  constexpr double kLess = 0.98, kDay = 86400;
  const perf::Scheduled* soonest = nullptr;
  for (const perf::Scheduled& s : all)
    if (s.training.price.value > 0 && s.training.price.value < kLess * best.training.price.value &&
        s.training.days.upper * kDay > q.deadline_s &&
        (!soonest || s.training.days.upper < soonest->training.days.upper))
      soonest = &s;
  if (!soonest) return "";
  return printed("9 times in 10 within %.0f days, not %.0f: ", std::ceil(soonest->training.days.upper),
                 q.deadline_s / kDay) +
         row_text(*soonest) + ".";
}

}  // namespace

std::string answer_of(const perf::Scheduled& s, const perf::LayoutQuestion& q) {
  const std::string limits = q.deadline_s > 0 && q.budget > 0 ? "deadline and budget"
                             : q.deadline_s > 0               ? "the deadline"
                                                              : "the budget";
  return (s.both() >= perf::kSure ? ""
                                  : "No number of GPUs keeps " + limits + " 9 times in 10. The likeliest: ") +
         row_text(s) + chances_text(s, q) + ".";
}

std::vector<std::string> changes_of(const std::vector<perf::Scheduled>& all, const perf::Scheduled& best,
                                    const perf::LayoutQuestion& q, const perf::Limit& limit) {
  std::vector<std::string> out{"Its step is " + limit.text() + "."};
  std::map<std::string, std::vector<perf::Scheduled>> others;
  for (const perf::Scheduled& s : all)
    if (s.choice.machine.name != best.choice.machine.name) others[s.choice.machine.name].push_back(s);
  for (const auto& [name, rows] : others) out.push_back(other_machine(perf::advised(rows), best, q));
  if (std::string later = q.deadline_s > 0 ? later_deadline(all, best, q) : ""; !later.empty())
    out.push_back(std::move(later));
  return out;
}

nlohmann::json json_of(const std::vector<perf::Scheduled>& all) {
  nlohmann::json out = nlohmann::json::array();
  const std::vector<perf::Scheduled> worth = perf::worth_it(all);
  const perf::Scheduled& best = perf::advised(all);
  for (const perf::Scheduled& s : all) {
    nlohmann::json j = json_of(s.training);
    j["advised"] = &s == &best;
    j["machine"] = s.choice.machine.name;
    j["gpus"] = s.choice.ranks();
    j["global_batch"] = s.choice.spec.train.global_batch;
    j["layout"] = perf::layout_text(s.choice.spec);
    j["step_s"] = s.choice.step.value;
    j["chance_in_time"] = s.in_time;
    j["chance_in_budget"] = s.in_budget;
    j["chance_to_fit"] = s.choice.fits;
    j["slower_and_dearer"] = std::none_of(worth.begin(), worth.end(), [&](const perf::Scheduled& w) {
      return w.choice.machine.name == s.choice.machine.name && w.choice.ranks() == s.choice.ranks();
    });
    out.push_back(std::move(j));
  }
  return out;
}

}  // namespace isobar::report
