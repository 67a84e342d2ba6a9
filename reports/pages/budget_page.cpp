#include "reports/pages/budget_page.h"

#include <algorithm>

#include "model/base/system/files.h"
#include "model/base/text/json.h"
#include "reports/answers/training_text.h"
#include "reports/plain_page.h"
#include "reports/style/palette.h"

namespace isobar {
namespace {

using nlohmann::json;

constexpr double kDay = 86400, kMillion = 1e-6;

json rows_of(const std::vector<Scheduled>& rows) {
  json out = json::array();
  for (const Scheduled& s : rows) {
    const Training& t = s.training;
    out.push_back({{"machine", s.choice.machine.name},
                   {"gpus", s.choice.ranks()},
                   {"days", t.days.value},
                   {"from", t.days.lower},
                   {"to", t.days.upper},
                   {"price", kMillion * t.price.value},
                   {"kept", s.both() >= kSure ? "kept 9 times in 10" : "not kept"},
                   {"layout", text_of(layout_of(s.choice.spec))}});
  }
  return out;
}

// A limit as a dashed line across the figure, with its name at the end.
void add_limit(json& layers, json axis, const char* field, double at, const std::string& name) {
  const char* channel = std::string(field) == "days" ? "x" : "y";
  const json data = {{"values", {{{field, at}, {"name", name}}}}};
  json mark = {{"type", "text"}, {"color", palette::kInk}, {"align", "left"}, {"dx", 4}, {"dy", -6}};
  mark[*channel == 'x' ? "y" : "x"] = *channel == 'x' ? json(12) : json(0);
  layers.push_back({{"data", data},
                    {"mark", {{"type", "rule"}, {"strokeDash", {5, 4}}, {"color", palette::kInk}}},
                    {"encoding", {{channel, axis}}}});
  layers.push_back(
      {{"data", data}, {"mark", mark}, {"encoding", {{channel, axis}, {"text", nominal("name")}}}});
}

Figure days_against_money(const std::vector<Scheduled>& rows, const LayoutQuestion& q) {
  const std::string currency = rows.front().choice.machine.accelerator->currency;
  json x = quantity("days", "days of training (bar: 80 % interval)"), from = quantity("from"),
       y = quantity("price", "million " + currency);
  for (json* axis : {&x, &from}) (*axis)["scale"] = {{"type", "log"}, {"nice", false}};
  from["title"] = x["title"];
  y["scale"] = {{"zero", false}};
  json colour = nominal("machine");
  colour["legend"] = {{"orient", "top"}};
  const json tips = {tip("machine", "machine"),   tip("gpus", "GPUs"),
                     tip("days", "days", ".3~g"), tip("from", "80 % interval from", ".3~g"),
                     tip("to", "to", ".3~g"),     tip("price", "million " + currency, ".3~g"),
                     tip("layout", "layout")};
  json layers = json::array();
  layers.push_back({{"mark", {{"type", "rule"}, {"strokeWidth", 6}, {"opacity", 0.3}}},
                    {"encoding", {{"x", from}, {"x2", {{"field", "to"}}}, {"y", y}, {"color", colour}}}});
  layers.push_back({{"mark", {{"type", "line"}}},
                    {"encoding", {{"x", x}, {"y", y}, {"color", colour}, {"order", quantity("gpus")}}}});
  json shape = nominal("kept");
  shape["scale"] = {{"domain", {"kept 9 times in 10", "not kept"}}, {"range", {"circle", "cross"}}};
  shape["legend"] = {{"orient", "top"}, {"title", "limits"}};
  layers.push_back(
      {{"mark", {{"type", "point"}, {"filled", true}, {"size", 90}, {"opacity", 1}}},
       {"encoding", {{"x", x}, {"y", y}, {"color", colour}, {"shape", shape}, {"tooltip", tips}}}});
  layers.push_back({{"mark", {{"type", "text"}, {"dy", -12}}},
                    {"encoding",
                     {{"x", x},
                      {"y", y},
                      {"color", colour},
                      {"text", {{"field", "gpus"}, {"format", ",d"}, {"type", "quantitative"}}}}}});
  if (q.deadline_s > 0) add_limit(layers, x, "days", q.deadline_s / kDay, "deadline");
  if (q.budget > 0) add_limit(layers, y, "price", kMillion * q.budget, "budget");
  json spec = base_spec(rows_of(rows));
  spec["height"] = 340;
  spec["layer"] = std::move(layers);
  return {"days-money", "budget", "Days against money",
          "Numbers are GPUs, each with its best layout. Dots keep the limits 9 times in 10, crosses do not.",
          spec};
}

}  // namespace

std::string write_budget_page(const std::filesystem::path& out, const std::string& title,
                              const std::vector<std::string>& sentences, const std::vector<Scheduled>& all,
                              const LayoutQuestion& q, const std::vector<Table>& more) {
  const std::vector<Scheduled> rows = worth_it(all);
  const bool priced =
      std::all_of(rows.begin(), rows.end(), [](const Scheduled& s) { return s.training.price.value > 0; });
  std::vector<Figure> figures;
  if (priced) figures.push_back(days_against_money(all, q));
  write_atomically(out / "budget.json", json_text(json_of(all), 1) + "\n");
  std::vector<Table> tables{schedule_table(rows, q), schedule_numbers(rows)};
  tables.insert(tables.end(), more.begin(), more.end());
  return write_plain_page(out, title, figures, tables, sentences);
}

}  // namespace isobar
