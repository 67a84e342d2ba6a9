#include "reports/comparison/check.h"

#include <algorithm>
#include <cmath>

#include "model/base/error.h"
#include "model/base/text/printed.h"

namespace isobar::report {
namespace {

// Display order: problems first, then changes.
constexpr const char* kOrder[] = {"failed", kSlower, kFaster, kCannotTell, kAsFast, "new", "not run"};

std::string only_cpu(const std::vector<ReferenceRun>& runs) {
  for (const ReferenceRun& r : runs)
    if (r.cpu != runs[0].cpu)
      throw ConfigError("isobar check", "DIR", "holds runs of " + runs[0].cpu + " and of " + r.cpu,
                        "check the results of one kind of processor at a time");
  return runs.empty() ? "" : runs[0].cpu;
}

// Raises an error that names the processors that the reference covers.
[[noreturn]] void refuse(const Reference& reference, const std::filesystem::path& file,
                         const std::string& cpu) {
  std::string others;
  for (const ReferenceRun& r : reference.runs)
    if (r.cpu != cpu && others.find(r.cpu) == std::string::npos)
      others += (others.empty() ? "" : ", ") + r.cpu;
  throw ConfigError(file, "cpu",
                    "has nothing to hold these runs of " + cpu + " against" +
                        (others.empty() ? ": other specifications" : "; it is of " + others),
                    "run the sweep that it is of, on such a processor, or add these runs with --update");
}

void refuse_other_statistic(const std::vector<ReferenceRun>& runs, const Reference& reference,
                            const std::filesystem::path& file) {
  for (const ReferenceRun& r : reference.runs)
    if (!runs.empty() && r.statistic != runs[0].statistic)
      throw ConfigError(file, "statistic",
                        std::string("is of the steps' ") + name_of(r.statistic) + ", and these are their " +
                            name_of(runs[0].statistic),
                        std::string("add --statistic ") + name_of(r.statistic));
}

}  // namespace

size_t CheckResult::count(const std::string& verdict) const {
  return static_cast<size_t>(std::count_if(specifications.begin(), specifications.end(),
                                           [&](const auto& s) { return s.verdict == verdict; }));
}

std::map<std::string, std::string> failed_of(const ReportData& d) {
  std::map<std::string, std::string> out;
  for (const ReportRun* r : d.failed())
    out.emplace(experiment_id(*r), r->label + ": " + records::name_of(r->run.run_class));
  for (const ReportRun* r : d.ok()) out.erase(experiment_id(*r));  // another repetition finished
  return out;
}

CheckResult check(const std::vector<ReferenceRun>& runs, const std::map<std::string, std::string>& failed,
                  const Reference& reference, const std::filesystem::path& file, double tolerance) {
  refuse_other_statistic(runs, reference, file);
  CheckResult out;
  out.cpu = only_cpu(runs);
  BeforeAfter groups;
  for (const auto& [experiment, before] : reference.latest(out.cpu)) groups[experiment].first = before;
  for (const ReferenceRun& r : runs) groups[r.experiment].second.push_back(r.measured);
  out.comparison = compare(groups);
  std::map<std::string, const Change*> changes;
  for (const Change& c : out.comparison.changes) changes[c.after_id] = &c;
  for (const auto& [experiment, both] : groups) {
    const auto& [before, after] = both;
    CheckedSpecification s;
    if (!before.empty() && !after.empty()) {
      s.change = *changes.at(after[0].id);
      s.verdict = verdict_of(s.change, tolerance, tolerance);
    } else {
      const bool fails = failed.contains(experiment);
      s.change.label = fails ? failed.at(experiment) : (before.empty() ? after : before)[0].label;
      s.verdict = before.empty() ? "new" : fails ? "failed" : "not run";
    }
    out.specifications.push_back(std::move(s));
  }
  if (out.count("new") + out.count("not run") == out.specifications.size()) refuse(reference, file, out.cpu);
  const auto rank = [](const CheckedSpecification& s) {
    return std::find(std::begin(kOrder), std::end(kOrder), s.verdict) - std::begin(kOrder);
  };
  std::stable_sort(out.specifications.begin(), out.specifications.end(), [&](const auto& a, const auto& b) {
    return rank(a) != rank(b) ? rank(a) < rank(b) : a.change.ratio > b.change.ratio;
  });
  return out;
}

Table check_table(const CheckResult& c) {
  Table t{"check",
          "Against the reference",
          {text_column("verdict"), text_column("run"), number_column("reference", "ms"),
           number_column("now", "ms"), number_column("change", "%"), number_column("from", "%"),
           number_column("to", "%"), number_column("sees", "%")},
          {},
          ""};
  for (const CheckedSpecification& s : c.specifications) {
    const Change& x = s.change;
    if (s.verdict == "failed" || s.verdict == "not run" || s.verdict == "new") {
      t.rows.push_back({text(s.verdict), text(x.label), number(NAN, 1), number(NAN, 1), number(NAN, 1),
                        number(NAN, 1), number(NAN, 1), number(NAN, 1)});
      continue;
    }
    t.rows.push_back({text(s.verdict), text(x.label), significant(x.before_s * 1e3, 4),
                      significant(x.after_s * 1e3, 4), signed_number(100 * (x.ratio - 1), 1),
                      signed_number(100 * (x.lower - 1), 1), signed_number(100 * (x.upper - 1), 1),
                      number(100 * x.sees(), 1)});
  }
  const RunToRun& between = c.comparison.between;
  const std::string noise = printed("%.1f %% between repetitions%s", 100 * between.sigma,
                                    between.df == 0 ? " (assumed: there are none)" : "");
  t.note =
      std::string(c.comparison.busy > 0 ? "Measured on a busy machine. " : "") +
      "From and to: 95 % interval of all together; sees: the least change that would be told from noise, " +
      noise + ". " + c.cpu;
  return t;
}

Table history_table(const Reference& reference, const std::vector<ReferenceRun>& runs) {
  Table t{"history",
          "History",
          {text_column("run"), number_column("update"), text_column("commit"), text_column("time"),
           text_column("cpu"), number_column("step", "ms")},
          {},
          ""};
  const auto add = [&t](const ReferenceRun& r, int64_t update) {
    t.rows.push_back({text(r.measured.label), integer(update), text(r.commit), text(r.time_utc), text(r.cpu),
                      significant(std::exp(r.measured.log_s) * 1e3, 4)});
  };
  for (const ReferenceRun& r : reference.runs) add(r, r.update);
  for (const ReferenceRun& r : runs) add(r, reference.updates() + 1);
  return t;
}

}  // namespace isobar::report
