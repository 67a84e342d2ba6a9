#include <algorithm>
#include <cmath>

#include "model/base/text/printed.h"
#include "reports/answers/answers.h"

namespace isobar::report {
namespace {

using nlohmann::json;

// By the placed plan where there is one, else by the closed form.
double bytes_of(const perf::LayoutCandidate& c) {
  return c.arena > 0 ? static_cast<double>(c.arena) + c.cost.process + c.cost.nccl : c.cost.memory;
}

json json_of(const perf::LayoutCandidate& c) {
  json j = {{"layout", report::json_of(c.layout)},
            {"step_s", c.cost.seconds},
            {"memory_total_bytes", std::llround(bytes_of(c))},
            {"chance_to_fit", c.fits}};
  if (c.arena > 0) j["arena_bytes"] = c.arena;
  return j;
}

std::string candidates_text(const char* title, const std::vector<perf::LayoutCandidate>& list, size_t most) {
  std::string text;
  text += printed("\n  %-10s %8s %9s %6s  %s\n", title, "step s", "memory GB", "fits", "layout");
  for (size_t i = 0; i < std::min(most, list.size()); ++i) {
    const perf::LayoutCandidate& c = list[i];
    text += printed("  %-10zu %8.3g %9.3g %4.0f %%  %s\n", i + 1, c.cost.seconds, 1e-9 * bytes_of(c),
                    100 * c.fits, perf::text_of(c.layout).c_str());
  }
  return text;
}

std::string rows_text(const std::vector<perf::LayoutRow>& rows) {
  std::string text = printed("\n  %-24s %9s %6s %7s  %s\n", "step s (80 % interval)", "memory GB", "fits",
                             "fastest", "layout");
  for (const perf::LayoutRow& r : rows)
    text += printed("  %-24s %9.3g %4.0f %% %5.0f %%  %s\n", with_interval(r.step).c_str(),
                    1e-9 * bytes_of(r.layout), 100 * r.layout.fits, 100 * r.fastest,
                    perf::text_of(r.layout.layout).c_str());
  return text;
}

std::string ties_text(const perf::Ties& t, const std::vector<perf::LayoutCandidate>& all) {
  std::vector<std::string> telling;
  for (const size_t i : t.telling) telling.push_back(perf::text_of(all[i].layout));
  return "\n" + report::ties_text(t, telling);
}

std::string offloaded_text(const std::vector<perf::Offloaded>& all) {
  std::string out = "\n  offloaded to the host     step s memory GB   fits  layout\n";
  for (const perf::Offloaded& o : all) {
    if (o.best)
      out += printed("  %-22s %9.3g %9.3g %4.0f %%  %s (--set %s)\n", o.what.c_str(), o.best->cost.seconds,
                     1e-9 * bytes_of(*o.best), 100 * o.best->fits, perf::text_of(o.best->layout).c_str(),
                     o.set.c_str());
    else
      out += printed("  %-22s %9s %s\n", o.what.c_str(), "none:", o.why.c_str());
  }
  return out;
}

json offloaded_json(const std::vector<perf::Offloaded>& all) {
  json out = json::array();
  for (const perf::Offloaded& o : all) {
    json j = {{"in_host_memory", o.what}, {"set", o.set}};
    if (o.best)
      j.update({{"step_s", o.best->cost.seconds},
                {"memory_total_bytes", std::llround(bytes_of(*o.best))},
                {"chance_to_fit", o.best->fits},
                {"layout", perf::text_of(o.best->layout)}});
    else
      j["why_none"] = o.why;
    out.push_back(std::move(j));
  }
  return out;
}

std::string turns_text(const std::vector<perf::Turn>& turns) {
  std::string text = "\n  changes of the machine that would make another layout the fastest\n";
  for (const perf::Turn& t : turns)
    text += printed("    %-10s x %-6.3g %8.3g s  %s\n", t.quantity.c_str(), t.factor, t.seconds,
                    perf::text_of(t.layout).c_str());
  if (turns.empty()) text += "    none: no single quantity changed by up to a factor of 16\n";
  return text;
}

}  // namespace

std::string text_of(const perf::SearchAnswer& a, const perf::Machine& m, int64_t gpus,
                    const perf::LayoutQuestion& q) {
  const perf::SearchResult& r = a.found;
  std::string text =
      a.limit.text() + printed("\n%s on %ld x %s, global batch %ld%s\n%s\n", a.spec.file.c_str(), gpus,
                               m.name.c_str(), a.spec.train.global_batch,
                               q.batches.empty() ? "" : ", the best of those asked for",
                               engine_text(m).c_str());
  if (!q.keep.all().empty()) text += "constraints of the search: " + q.keep.text() + "\n";
  text += printed(
      "%ld layouts considered in %.3f s (%.2f million/s), %ld or more do not fit in memory, %ld priced "
      "individually\n\n",
      r.considered, r.seconds, 1e-6 * static_cast<double>(r.considered) / r.seconds, r.too_large, r.priced);
  text += "best: " + perf::text_of(r.best.front().layout) + "\n\n" + prediction_text(a.prediction, a.spec, m);
  text += rows_text(a.rows) + ties_text(a.ties, r.variants);
  constexpr size_t kMostOfFront = 40;
  if (q.pareto) text += candidates_text("pareto", r.pareto, kMostOfFront);
  if (q.offload) text += offloaded_text(a.offloaded);
  text += turns_text(a.turns);
  if (a.training) text += "\n  " + text_of(*a.training, m) + "\n";
  return text + "\n";
}

json json_of(const perf::SearchAnswer& a, const perf::Machine& m, int64_t gpus,
             const perf::LayoutQuestion& q) {
  const perf::SearchResult& r = a.found;
  json j = json_of(a.prediction, a.spec, m);
  j["layout"] = json_of(r.best.front().layout);
  j["gpus"] = gpus;
  j["given"] = q.keep.text();
  j["global_batch"] = a.spec.train.global_batch;
  j["limit"] = json_of(a.limit);
  j["considered"] = r.considered;
  j["priced"] = r.priced;
  j["out_of_memory"] = r.too_large;
  j["search_s"] = r.seconds;
  for (const perf::LayoutRow& r : a.rows) {
    json one = json_of(r.layout);
    one.update({{"lower_s", r.step.lower}, {"upper_s", r.step.upper}, {"chance_fastest", r.fastest}});
    j["best"].push_back(std::move(one));
  }
  for (const perf::Ties::Member& one : a.ties.members) {
    json t = json_of(r.variants[one.index]);
    t["chance"] = one.chance;
    j["ties"].push_back(std::move(t));
  }
  j["expected_loss"] = a.ties.loss;
  for (const size_t i : a.ties.telling) j["telling"].push_back(json_of(r.variants[i]));
  for (const perf::LayoutCandidate& c : r.pareto) j["pareto"].push_back(json_of(c));
  if (q.offload) j["offloaded"] = offloaded_json(a.offloaded);
  for (const perf::Turn& t : a.turns)
    j["would_change"].push_back({{"quantity", t.quantity},
                                 {"factor", t.factor},
                                 {"layout", json_of(t.layout)},
                                 {"step_s", t.seconds}});
  if (a.training) j["budget"] = json_of(*a.training);
  return j;
}

std::string scaling_text(const std::vector<perf::SearchAnswer>& curve) {
  std::string text;
  text += printed("  %8s %10s %9s %10s  %s\n", "GPUs", "step s", "speedup", "efficiency", "layout");
  const auto gpus = [](const perf::SearchAnswer& a) { return a.spec.layout.world(); };
  for (const perf::SearchAnswer& a : curve) {
    const double speedup = curve[0].prediction.step_s / a.prediction.step_s;
    text += printed("  %8ld %10.3g %9.2g %9.0f%%  %s\n", gpus(a), a.prediction.step_s, speedup,
                    100 * speedup * static_cast<double>(gpus(curve[0])) / static_cast<double>(gpus(a)),
                    perf::text_of(a.found.best.front().layout).c_str());
  }
  return text;
}

std::string proposal_text(const perf::Facility& f, const perf::Scheduled& s) {
  const perf::Allocation a = perf::allocation_of(f, s);
  std::string out = printed("For a proposal: %ld node%s of %s (%ld accelerators) for %s days, ", a.nodes,
                            a.nodes == 1 ? "" : "s", s.choice.machine.name.c_str(), s.choice.ranks(),
                            with_interval(s.training.days).c_str()) +
                    with_interval_of_amount(a.node_hours) + " node-hours";
  if (f.charge != 1)
    out += ", charged " + with_interval_of_amount(a.charged) + printed(" at %.3g a node-hour", f.charge);
  out += printed(", in %.0f jobs (%.0f to %.0f) of at most %.3g h that each resume from the last checkpoint",
                 a.jobs.value, a.jobs.lower, a.jobs.upper, f.max_time_s / 3600);
  if (f.max_nodes > 0 && a.nodes > f.max_nodes)
    out += printed("; a job there has at most %ld nodes (cluster.max_nodes)", f.max_nodes);
  return out + ".";
}

Table scaling_table(const perf::Facility& f, const std::vector<perf::Scheduled>& rows) {
  Table t{.id = "scaling",
          .title = "Scaling of the training",
          .columns = {number_column("nodes"), number_column("GPUs"), number_column("batch"),
                      number_column("step", "s"), number_column("speedup"), number_column("efficiency", "%"),
                      text_column("days"), text_column("node-hours"), number_column("jobs")},
          .note =
              "Strong scaling of predicted samples a second against the first row, each with its best "
              "layout. In brackets 80 % intervals."};
  const auto rate = [](const perf::Scheduled& s) { return s.choice.samples_per_s().value; };
  for (const perf::Scheduled& s : rows) {
    const perf::Allocation a = perf::allocation_of(f, s);
    const double speedup = rate(s) / rate(rows[0]),
                 more = static_cast<double>(s.choice.ranks()) / static_cast<double>(rows[0].choice.ranks());
    t.rows.push_back({integer(a.nodes), integer(s.choice.ranks()), integer(s.choice.spec.train.global_batch),
                      significant(s.choice.step.value, 3), significant(speedup, 3),
                      number(100 * speedup / more, 0), text(with_interval(s.training.days)),
                      text(with_interval_of_amount(a.node_hours)),
                      integer(static_cast<int64_t>(a.jobs.value))});
  }
  return t;
}

}  // namespace isobar::report
