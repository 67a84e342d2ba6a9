#include "reports/answers/training_text.h"

#include "model/base/text/printed.h"

namespace isobar {
namespace {

constexpr double kLikely = 0.5, kSure = 0.9;

std::string three(double v) {
  return printed("%.3g", v);
}

}  // namespace

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
  const auto known = [](const Known& k) {
    return nlohmann::json{{"value", k.value}, {"lower", k.lower}, {"upper", k.upper}};
  };
  return {{"hours", 24 * t.days.value}, {"gpu_hours", t.gpu_hours.value},  {"price", t.price.value},
          {"kwh", t.kwh.value},         {"days", known(t.days)},           {"price_interval", known(t.price)},
          {"mtbf_hours", t.mtbf_hours}, {"checkpoint_every_s", t.every_s}, {"useful", t.useful},
          {"assumed", t.assumed}};
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
  const auto money = [](const Known& k) { return text(k.value > 0 ? with_interval(k) : "-"); };
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

nlohmann::json json_of(const std::vector<Scheduled>& all) {
  nlohmann::json out = nlohmann::json::array();
  for (const Scheduled& s : all) {
    nlohmann::json j = json_of(s.training);
    j["gpus"] = s.choice.ranks();
    j["layout"] = text_of(layout_of(s.choice.spec));
    j["step_s"] = s.choice.step.value;
    j["chance_in_time"] = s.in_time;
    j["chance_in_budget"] = s.in_budget;
    j["chance_to_fit"] = s.choice.fits;
    out.push_back(std::move(j));
  }
  return out;
}

}  // namespace isobar
