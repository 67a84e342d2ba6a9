#include <cmath>
#include <limits>

#include "model/base/text/printed.h"
#include "reports/answers/answers.h"

namespace isobar::report {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Unit of prices: a million tokens for nets of words, a thousand samples for others.
struct Unit {
  const char *name, *key;
  double samples;
};
Unit unit_paid(const perf::LayoutChoice& c) {
  if (c.spec.net.words() != nullptr)
    return {"M tokens", "million_tokens", 1e6 / static_cast<double>(c.spec.net.tokens())};
  return {"1000 samples", "1000_samples", 1000};
}

Cell percent(double share) {
  return std::isnan(share) ? number(kNone, 0) : text(rounded(100 * share, 0) + " %");
}

/// The currency of the rows that have a price
std::string currency_of(const std::vector<perf::ComparedRow>& rows) {
  for (const perf::ComparedRow& r : rows)
    if (const auto& a = r.choice.machine.accelerator; a && a->price_per_hour > 0) return a->currency;
  return "price";
}

/// The memory of a layout that may not fit
std::string doubtful_memory(const perf::LayoutChoice& c) {
  constexpr double kSurely = 0.9;
  if (c.fits >= kSurely) return "";
  return printed("; %s of %.3g GB a rank, fits with %.0f %%", with_interval(c.memory.scaled(1e-9)).c_str(),
                 1e-9 * c.there, 100 * c.fits);
}

}  // namespace

Table compared(const std::vector<perf::ComparedRow>& rows) {
  const perf::LayoutChoice& first = rows.front().choice;
  const Unit paid = unit_paid(first);
  const TimeUnit u = unit_of(first.step.value);
  const std::string currency = currency_of(rows);
  const bool words = first.spec.net.words() != nullptr, trains = rows.front().training.has_value();
  Table t{
      .id = "machines",
      .title = "Machines side by side",
      .columns = {text_column("machine"), number_column("GPUs"), text_column(std::string("step ") + u.name),
                  number_column("MFU"), number_column(words ? "tokens/s/GPU" : "samples/s/GPU")},
      .note =
          "In brackets 80 % intervals. Faster, cheaper: probability of beating the first row; variants "
          "of one machine share its errors."};
  if (trains) {
    t.columns.erase(t.columns.begin() + 3, t.columns.end());
    t.columns.insert(t.columns.end(), {text_column("days"), text_column(currency)});
  } else {
    t.columns.push_back(number_column(currency + "/" + paid.name));
  }
  t.columns.insert(t.columns.end(), {number_column("faster"), number_column("cheaper")});
  const auto money = [&](const Known& k) { return text(k.value > 0 ? rounded(k) : "-"); };
  for (const perf::ComparedRow& r : rows) {
    const perf::LayoutChoice& c = r.choice;
    const perf::Beats b = perf::beats(r, rows.front());
    const double each =
        (words ? static_cast<double>(c.spec.net.tokens()) : 1) / static_cast<double>(c.ranks());
    std::vector<Cell>& row = t.rows.emplace_back();
    row = {text(r.name), integer(c.ranks()), text(with_interval(c.step.scaled(u.per_second)))};
    if (trains)
      row.insert(row.end(),
                 {text(with_interval(r.training->days)),
                  text(r.training->price.value > 0 ? with_interval_of_amount(r.training->price) : "-")});
    else
      row.insert(row.end(), {percent(c.mfu), text(rounded(c.samples_per_s().scaled(each))),
                             money(c.price().scaled(paid.samples))});
    row.insert(row.end(), {percent(b.faster), percent(b.cheaper)});
  }
  return t;
}

std::string layouts_text(const std::vector<perf::ComparedRow>& rows) {
  std::string out;
  for (const perf::ComparedRow& r : rows)
    out += r.name + " on " + std::to_string(r.choice.ranks()) + ": " + perf::layout_text(r.choice.spec) +
           ", global batch " + std::to_string(r.choice.spec.train.global_batch) +
           (r.limit ? "; " + r.limit->text() : "") + doubtful_memory(r.choice) + "\n";
  return out;
}

Table compared_numbers(const std::vector<perf::ComparedRow>& rows) {
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
  for (const perf::ComparedRow& r : rows) {
    const perf::LayoutChoice& c = r.choice;
    const perf::Beats b = perf::beats(r, rows.front());
    std::vector<Cell> cells{text(r.name), text(perf::layout_text(c.spec)),
                            text(c.machine.accelerator ? c.machine.accelerator->currency : "")};
    // Programs get all digits, people only those that the interval of `k` supports.
    const auto add = [&](double v, const Known& k) {
      cells.push_back(std::isnan(v) ? number(kNone, 0) : Cell{rounded(v, last_place(k)), v, true});
    };
    const auto add_interval = [&](const Known& k) {
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
      for (const Known& k : {r.training->days, r.training->price}) add_interval(k);
    t.rows.push_back(std::move(cells));
  }
  return t;
}

}  // namespace isobar::report
