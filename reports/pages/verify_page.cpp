#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "model/base/system/files.h"
#include "model/base/text/printed.h"
#include "model/data/cf/dates.h"
#include "reports/page.h"
#include "reports/pages/pages.h"
#include "reports/style/palette.h"

namespace isobar::report {
namespace {

using nlohmann::json;

constexpr size_t kDrawn = 12;  // channels that get figures
constexpr size_t kDates = 5;

std::string with_units(const std::string& what, const inference::NetChannel& c) {
  return c.units.empty() ? what : what + ", " + c.units;
}

bool hours_known(const skill::Verification& v) {
  return !v.lead_hours.empty() && std::isfinite(v.lead_hours[0]);
}

double lead_of(const skill::Verification& v, size_t k) {
  return hours_known(v) ? v.lead_hours[k] : static_cast<double>(k + 1);
}

std::string lead_title(const skill::Verification& v) {
  return hours_known(v) ? "lead time, hours" : "lead time, steps";
}

std::string text_of_lead(const skill::Verification& v, size_t k) {
  return hours_known(v) ? printed("%g h", lead_of(v, k)) : printed("step %g", lead_of(v, k));
}

const std::map<std::string, const char*> kColours = {
    {"net", palette::kPredicted}, {"persistence", palette::kFitted}, {"climatology", "#0072B2"}};

// One score of the three forecasts by lead time
Figure against_lead(const skill::Verification& v, size_t channel, const char* id, const std::string& title,
                    const std::string& caption, const std::string& y_title,
                    double skill::SkillScore::*which) {
  json rows = json::array(), names = json::array(), colours = json::array();
  const auto add = [&](const char* name, const skill::Skill& s) {
    const size_t before = rows.size();
    for (size_t k = 0; k < v.lead_hours.size(); ++k) {
      const double value = s.of(static_cast<int64_t>(k), static_cast<int64_t>(channel)).*which;
      if (std::isfinite(value))
        rows.push_back({{"forecast", name}, {"lead", lead_of(v, k)}, {"value", value}});
    }
    if (rows.size() == before) return;
    names.push_back(name);
    colours.push_back(kColours.at(name));
  };
  add("net", v.net);
  add("persistence", v.persistence);
  add("climatology", v.climatology);
  if (rows.empty()) return {};
  json spec = chart_spec("pages/skill-by-lead", {{"rows", rows},
                                                 {"lead", lead_title(v)},
                                                 {"score", y_title},
                                                 {"forecasts", {{"domain", names}, {"range", colours}}}});
  return {id + std::to_string(channel), "skill", title + " of " + v.channels[channel].name, caption, spec};
}

Figure error_map(const skill::Verification& v, size_t channel) {
  json rows = json::array();
  const skill::ErrorMap& m = v.map;
  for (int64_t y = 0; y < m.rows(); ++y)
    for (int64_t x = 0; x < m.columns(); ++x)
      if (const double rmse = m.rmse(channel, y * m.columns() + x); std::isfinite(rmse))
        rows.push_back({{"row", y},
                        {"column", x},
                        {"latitude", m.latitude()[static_cast<size_t>(y)]},
                        {"longitude", m.longitude()[static_cast<size_t>(x)]},
                        {"rmse", rmse}});
  if (rows.empty()) return {};
  const auto labels = [](const std::vector<double>& middles) {
    return "format(" + json(middles).dump() + "[datum.value], '.4~g')";
  };
  json spec = chart_spec("pages/error-map", {{"rows", rows},
                                             {"longitude", labels(m.longitude())},
                                             {"latitude", labels(m.latitude())},
                                             {"rmse", with_units("RMSE", v.channels[channel])}});
  return {"map" + std::to_string(channel), "maps",
          "Where the errors of " + v.channels[channel].name + " are, " +
              text_of_lead(v, v.lead_hours.size() - 1) + " ahead",
          "Root of the mean squared error over all samples at each place (blocks of a large grid); blank: "
          "nothing there counts.",
          spec};
}

Figure spectra(const skill::Verification& v, size_t channel) {
  json rows = json::array();
  const auto add = [&](const std::string& name, const skill::ZonalSpectrum& s) {
    const std::vector<double> power = s.power(static_cast<int64_t>(channel));
    for (size_t k = 1; k < power.size(); ++k)
      if (power[k] > 0) rows.push_back({{"field", name}, {"wavenumber", k}, {"power", power[k]}});
  };
  const size_t last = v.lead_hours.size() - 1;
  std::vector<std::string> names = {"observed", "net, " + text_of_lead(v, 0)};
  add(names[0], v.observed[last]);
  add(names[1], v.predicted[0]);
  if (last > 0) add(names.emplace_back("net, " + text_of_lead(v, last)), v.predicted[last]);
  if (rows.empty()) return {};
  const std::string& units = v.channels[channel].units;
  json spec = chart_spec(
      "pages/spectrum",
      {{"rows", rows}, {"fields", names}, {"power", units.empty() ? "power" : "power, (" + units + ")²"}});
  return {"spectrum" + std::to_string(channel), "spectra", "Zonal power of " + v.channels[channel].name,
          "Variance along rows by wavenumber, mean over rows and samples. Less than observed at the high "
          "ones: the net blurs.",
          spec};
}

Figure by_date(const skill::Verification& v) {
  json rows = json::array();
  for (size_t i = 0; i < v.cases.size(); ++i) {
    const bool dated = std::isfinite(v.cases[i].hours);
    rows.push_back({{"sample", i},
                    {"error", v.cases[i].error},
                    {"date", dated ? json(data::iso_of(3600 * v.cases[i].hours)) : json()}});
  }
  const bool dated = !rows.empty() && rows[0]["date"].is_string();
  json spec = chart_spec("pages/error-by-date", {{"rows", rows},
                                                 {"field", dated ? "date" : "sample"},
                                                 {"type", dated ? "temporal" : "quantitative"},
                                                 {"title", dated ? "forecast from" : "sample"},
                                                 {"scale", dated ? json{{"type", "utc"}} : kLeftOut}});
  return {"dates", "dates", "Error by date, " + text_of_lead(v, v.lead_hours.size() - 1) + " ahead",
          "Mean over the targets of RMSE over standard deviation.", spec};
}

Cell whole(double x) {  // 6, 7.5
  const std::string s = printed("%g", x);
  return {s, x, true};
}

std::string dated(double hours, size_t sample) {
  return std::isfinite(hours) ? data::iso_of(3600 * hours) : "sample " + std::to_string(sample);
}

json json_of(const skill::SkillScore& s) {  // NaN and infinities become null
  json out{
      {"rmse", s.rmse}, {"mae", s.mae}, {"bias", s.bias}, {"correlation", s.correlation}, {"acc", s.acc}};
  for (const skill::ClassScore& c : s.classes)
    out["classes"].push_back(
        {{"from", c.from}, {"to", c.to}, {"share", c.share}, {"rmse", c.rmse}, {"csi", c.csi}});
  return out;
}

}  // namespace

Table skill_table(const skill::Verification& v) {
  Table t{.id = "skill", .title = "Skill by lead time"};
  t.columns = {number_column("lead", hours_known(v) ? "h" : "steps"), text_column("target")};
  for (const char* name : {"rmse", "mae", "bias", "correlation", "acc"})
    t.columns.push_back(number_column(name));
  for (const char* name : {"rmse persistence", "rmse climatology", "acc persistence"})
    t.columns.push_back(number_column(name));
  t.columns.push_back(text_column("units"));
  for (size_t k = 0; k < v.lead_hours.size(); ++k)
    for (size_t c = 0; c < v.channels.size(); ++c) {
      const auto lead = static_cast<int64_t>(k), channel = static_cast<int64_t>(c);
      const skill::SkillScore net = v.net.of(lead, channel), same = v.persistence.of(lead, channel),
                              usual = v.climatology.of(lead, channel);
      std::vector<Cell> row = {whole(lead_of(v, k)),    text(v.channels[c].name), significant(net.rmse, 4),
                               significant(net.mae, 4), significant(net.bias, 3), number(net.correlation, 4),
                               number(net.acc, 4)};
      row.insert(row.end(), {significant(same.rmse, 4), significant(usual.rmse, 4), number(same.acc, 4)});
      row.push_back(text(v.channels[c].units));
      t.rows.push_back(std::move(row));
    }
  return t;
}

Table class_table(const skill::Verification& v) {
  Table t{.id = "classes", .title = "Skill by class of the truth"};
  t.columns = {number_column("lead", hours_known(v) ? "h" : "steps"),
               text_column("target"),
               text_column("class"),
               number_column("of all", "%"),
               number_column("rmse"),
               number_column("rmse persistence"),
               number_column("csi"),
               number_column("csi persistence"),
               text_column("units")};
  for (size_t k = 0; k < v.lead_hours.size(); ++k)
    for (size_t c = 0; c < v.channels.size(); ++c) {
      const auto lead = static_cast<int64_t>(k), channel = static_cast<int64_t>(c);
      const skill::SkillScore net = v.net.of(lead, channel), same = v.persistence.of(lead, channel);
      for (size_t i = 0; i < net.classes.size(); ++i) {
        const skill::ClassScore &own = net.classes[i], &theirs = same.classes[i];
        const std::string from = whole(own.from).text, to = whole(own.to).text;
        const bool last = i + 1 == net.classes.size();
        t.rows.push_back({whole(lead_of(v, k)), text(v.channels[c].name),
                          text(i == 0 ? "below " + to
                               : last ? "from " + from
                                      : from + " to " + to),
                          number(100 * own.share, 1), significant(own.rmse, 4), significant(theirs.rmse, 4),
                          number(own.csi, 3), number(theirs.csi, 3), text(v.channels[c].units)});
      }
    }
  t.note = "CSI: of what is at or above where the class begins.";
  return t;
}

Table cases_table(const skill::Verification& v, size_t of_each) {
  std::vector<size_t> order(v.cases.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return v.cases[a].error < v.cases[b].error; });
  Table t{
      .id = "dates",
      .title = "The best and the worst forecasts, " + text_of_lead(v, v.lead_hours.size() - 1) + " ahead"};
  t.columns = {text_column("from"), number_column("rmse normalised"), text_column("")};
  const size_t n = std::min(of_each, order.size() / 2);
  for (size_t i = 0; i < order.size(); ++i) {
    if (i >= n && i + n < order.size()) continue;
    const skill::Verification::Case& c = v.cases[order[i]];
    t.rows.push_back({text(dated(c.hours, order[i])), number(c.error, 4), text(i < n ? "best" : "worst")});
  }
  return t;
}

std::string write_verify_page(const std::filesystem::path& out, const skill::Verification& v) {
  std::vector<Figure> figures;
  const auto keep = [&](Figure f) {
    if (!f.id.empty()) figures.push_back(std::move(f));
  };
  const size_t drawn = std::min(kDrawn, v.channels.size());
  for (size_t c = 0; c < drawn; ++c) {
    keep(against_lead(v, c, "rmse", "RMSE", "Weighted by area, mean over samples; lower is better.",
                      with_units("RMSE", v.channels[c]), &skill::SkillScore::rmse));
    keep(
        against_lead(v, c, "acc", "Anomaly correlation",
                     "With the anomalies from the climatology; 1 is perfect, above 0.6 is held to be useful.",
                     "ACC", &skill::SkillScore::acc));
    keep(error_map(v, c));
    keep(spectra(v, c));
  }
  keep(by_date(v));
  Table skill = skill_table(v);
  if (v.channels.size() > drawn)
    skill.note = "Figures show the first " + std::to_string(drawn) + " of " +
                 std::to_string(v.channels.size()) + " targets.";
  std::vector<Table> tables = {skill, cases_table(v, kDates)};
  if (Table classes = class_table(v); !classes.rows.empty())
    tables.insert(tables.begin() + 1, std::move(classes));
  return write_plain_page(out, {.title = "Skill of " + v.checkpoint}, figures, tables);
}

json json_of(const skill::Verification& v) {
  json leads = json::array(), cases = json::array();
  for (size_t k = 0; k < v.lead_hours.size(); ++k) {
    json targets = json::array();
    for (size_t c = 0; c < v.channels.size(); ++c) {
      const auto lead = static_cast<int64_t>(k), channel = static_cast<int64_t>(c);
      targets.push_back({{"name", v.channels[c].name},
                         {"units", v.channels[c].units},
                         {"std", v.channels[c].std},
                         {"net", json_of(v.net.of(lead, channel))},
                         {"persistence", json_of(v.persistence.of(lead, channel))},
                         {"climatology", json_of(v.climatology.of(lead, channel))}});
    }
    leads.push_back({{"step", k + 1}, {"hours", v.lead_hours[k]}, {"targets", targets}});
  }
  for (const skill::Verification::Case& c : v.cases)
    cases.push_back({{"from", std::isfinite(c.hours) ? json(data::iso_of(3600 * c.hours)) : json()},
                     {"rmse_normalised", c.error}});
  return {{"checkpoint", v.checkpoint},
          {"data", v.of_data},
          {"samples", v.samples},
          {"climatology_fields", v.climatology_fields},
          {"leads", leads},
          {"cases", cases}};
}

}  // namespace isobar::report
