#include "bench/cli/predict/ask.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/predict/unanswered.h"
#include "bench/cli/words/options.h"
#include "bench/cluster/cluster.h"
#include "model/backend/cpu/cpu_backend.h"
#include "model/base/error.h"
#include "model/base/text/json.h"
#include "model/base/text/printed.h"
#include "model/base/text/yaml.h"
#include "model/engine/processor.h"
#include "model/nets/build.h"
#include "perfmodel/ask/choose/emit.h"
#include "perfmodel/machine/machine_file.h"
#include "perfmodel/step/engine_prices.h"
#include "reports/answers/compared.h"
#include "reports/answers/engine_text.h"
#include "reports/answers/prediction_text.h"
#include "reports/answers/run_text.h"
#include "reports/answers/search_text.h"
#include "reports/answers/training_text.h"
#include "reports/pages/budget_page.h"
#include "reports/pages/search_page.h"

namespace isobar::cli {
namespace {

using nlohmann::json;

constexpr int kDoesNotFit = 4;    // the exit code of out of memory
constexpr double kHardly = 0.95;  // useful share of time from which failures hardly move a training

// Assignments of a run: the user's, after those that make way for a search.
std::vector<std::string> assignments_of(const AskArguments& a) {
  std::vector<std::string> set;
  if (a.searches())  // the user's settings are kept, but not the file's own layout
    set = {"layout.dp=1",          "layout.tp=1",
           "layout.cp=1",          "layout.pp=1",
           "layout.vpp=1",         "layout.ep=1",
           "layout.stages=[]",     "policy.micro_batch=0",
           "policy.schedule=1f1b", "layout.order=tp-cp-dp-pp"};
  set.insert(set.end(), a.set.begin(), a.set.end());
  return set;
}

RunSpec spec_of(const std::string& config, std::vector<std::string> set, int64_t ranks) {
  if (ranks == 0) return load_run_spec(config, set);
  // As in `isobar train --ranks`, data parallelism takes the ranks that the other axes leave.
  std::vector<std::string> one = set;
  one.emplace_back("layout.dp=1");
  const int64_t others = load_run_spec(config, one)->layout.world();
  if (ranks % others != 0)
    throw ConfigError(config, "--ranks",
                      std::to_string(ranks) + " cannot be shared by tp * cp * pp = " + std::to_string(others),
                      "use a multiple");
  refuse_contradiction(set, "layout.dp", ranks / others, "--ranks " + std::to_string(ranks));
  set.push_back("layout.dp=" + std::to_string(ranks / others));
  return load_run_spec(config, set);
}

// True if the user names the device; otherwise the machine file does.
bool names_device(const AskArguments& a) {
  const json j = load_yaml(a.config);
  if (j.is_object() && j.contains("run") && j["run"].is_object() && j["run"].contains("device")) return true;
  return std::any_of(a.set.begin(), a.set.end(),
                     [](const std::string& s) { return s.starts_with("run.device="); });
}

void print_json(const json& j) {
  std::printf("%s\n", json_text(j, 1).c_str());
}

void print_text(const std::string& text) {
  std::fputs(text.c_str(), stdout);
}

void say(const perf::NoAnswer& none) {
  std::fprintf(stderr, "isobar: %s\n", none.why.c_str());
}

void say_page(const std::string& out, const std::string& not_drawn) {
  std::printf("page: %s\n", (std::filesystem::path(out) / "index.html").c_str());
  if (!not_drawn.empty()) std::fprintf(stderr, "isobar: figures are not drawn: %s\n", not_drawn.c_str());
}

// Answers for each number of accelerators, by Isobar's own engine or another: `answer` takes the number and
// gives JSON, or prints; `end` prints what comes below all answers.
template <typename Answer, typename End>
void print_each(const Asked& q, const Answer& answer, const End& end) {
  json out = json::array();
  Unanswered unanswered(q.json);
  for (const int64_t gpus : q.question.gpus) try {
      json one = answer(gpus);
      if (q.json) out.push_back(std::move(one));
    } catch (const ConfigError& e) {
      unanswered.say(perf::no_answer(q.machine().name, gpus, e), out);
    }
  q.json ? print_json(out.size() == 1 ? out[0] : out) : end();
  unanswered.end();
}

void print_own_search(const Asked& q) {
  const perf::Machine& m = q.machine();
  std::vector<report::ScalingPoint> points;
  print_each(
      q,
      [&](int64_t gpus) {
        const perf::SearchAnswer a = perf::answer_search(q.spec, m, gpus, q.question, q.options);
        points.push_back({gpus, a.prediction.step_s, perf::text_of(a.found.best.front().layout)});
        if (q.json) return report::json_of(a, m, gpus, q.question);
        print_text(report::text_of(a, m, gpus, q.question));
        return json();
      },
      [&] {
        if (points.size() > 1) print_text(report::scaling_text(points));
      });
}

void print_engine_search(const Asked& q) {
  const perf::EngineOn engine(q.spec, q.machine(), q.engine);
  print_each(
      q,
      [&](int64_t gpus) {
        const perf::EngineSearchAnswer a = perf::answer_search(q.spec, q.machine(), gpus, q.question, engine);
        if (q.json) return report::json_of(a, engine, q.machine(), gpus, q.question);
        print_text(report::text_of(a, engine, q.machine(), gpus, q.question));
        return json();
      },
      [] {});
}

void print_engine_run(const Asked& q) {
  const perf::EngineOn engine(q.spec, q.machine(), q.engine);
  const perf::EngineRunAnswer a = perf::answer_run(q.spec, q.machine(), q.question, engine);
  if (q.json)
    print_json(report::json_of(a, engine, q.machine()));
  else
    print_text(report::text_of(a, engine, q.machine(), q.spec.policy.micro_batch == 0));
  // Memory of other engines is known only to a factor: only a certain excess ends with the exit code.
  if (a.too_large) {
    std::fprintf(stderr, "isobar: does not fit: a rank needs %.3g GB or more of %.3g\n",
                 1e-9 * a.layout.answer.memory.lower, 1e-9 * engine.memory());
    throw CLI::RuntimeError(kDoesNotFit);
  }
}

// Why Isobar's engine does not train the run; "": it does.
std::string untrained(const RunSpec& spec) {
  const plan::Plan plan = nets::build_plan(nets::sample_of(spec), 0, {});
  try {
    nets::require_kernels(spec, plan);
    return "";
  } catch (const ConfigError& e) {
    const std::string what = e.what();
    return what.substr(0, what.find(" -> "));
  }
}

// Without --engine: the software that a layout is emitted for, or an unknown engine for a run that ours does
// not train. A question that ours alone answers stays its.
void take_default_engine(const AskArguments& a, Asked& q) {
  const perf::Machine& m = q.machines.front();
  if (a.names_engine || !a.engine.fit.empty() || perf::device_of(q.spec, m) != perf::Device::accelerator)
    return;
  if (!a.emit.empty()) {
    if (a.emit == "isobar") return;
    q.engine.engine = a.emit;
    return;
  }
  if (a.question.pareto || a.question.offload || a.rates || !perf::engine_running(q.spec, m).empty()) return;
  if (const std::string why = untrained(q.spec); !why.empty())
    q.engine.engine = "unknown",
    q.engine.why = "since Isobar's engine does not train it (--engine isobar prices its plans): " + why;
}

// Prices by plans of the engine that was named, or that runs the net.
void take_engine(Asked& q) {
  const perf::ForeignEngine* named = q.engine.of_plans();
  if (named && q.spec.net.recorded()) {
    bool& compiled = q.spec.net.traced().compiled;
    if (compiled && !named->habits.compiled)
      throw ConfigError(q.spec.file, "net.compiled",
                        "is true, and " + named->name + " is PyTorch's eager mode",
                        "name pytorch-compiled, or leave one of them out");
    compiled = named->habits.compiled;
  }
  for (perf::Machine& m : q.machines)
    m = named                ? perf::run_by(*named, m, q.spec.net.recorded())
        : q.engine.foreign() ? m
                             : perf::machine_of(q.spec, m);
  const std::string runs = q.engine.foreign() ? "" : perf::engine_running(q.spec, q.machines.front());
  if (runs.empty()) return;
  q.question.engine = &perf::engine_named(runs);
  perf::refuse_axes(q.spec, *q.question.engine);
  q.engine.engine = "isobar";
}

/// Prices of several machines are compared as numbers.
void require_one_currency(const std::vector<perf::Machine>& machines) {
  const perf::Machine* first = nullptr;
  for (const perf::Machine& m : machines) {
    if (!m.accelerator || m.accelerator->price_per_hour <= 0) continue;
    if (!first) first = &m;
    if (const std::string& other = first->accelerator->currency; m.accelerator->currency != other)
      throw ConfigError(m.file, "accelerator.currency",
                        "is " + m.accelerator->currency + ", and that of " + first->name + " " + other,
                        "give price_per_hour of both in one currency");
  }
}

}  // namespace

Asked asked(const AskArguments& a) {
  Asked q{.command = "isobar " + a.command, .spec = spec_of(a.config, assignments_of(a), a.ranks)};
  if (q.spec.run.by_settings)
    throw ConfigError(a.config, "net", "is missing, and " + q.command + " prices a net",
                      "describe it under `net:`");
  if (a.machines.empty())
    throw ConfigError(q.command, "--machine", "is missing",
                      "name a machine like dgx-h100, or a file of isobar calibrate");
  for (const std::string& file : a.machines) q.machines.push_back(perf::load_machine(file));
  require_one_currency(q.machines);
  q.question = a.question, q.engine = a.engine;
  q.emit = a.emit, q.out = a.out, q.rates = a.rates, q.json = a.json;
  if (!q.engine.fit.empty()) perf::take_fit(q.machines.front(), q.engine);
  if (!names_device(a)) q.spec.run.device = RunDevice::automatic;
  for (const perf::Machine& m : q.machines)
    if (perf::device_of(q.spec, m) == perf::Device::accelerator && a.ranks_on_host > 0)
      throw ConfigError(q.command, "--ranks-on-host", "is for cores",
                        "of accelerators " + m.file + " says it (accelerator.tiers.host.ranks)");
  if (a.searches()) q.question.keep = perf::given_layout(q.spec, a.set);
  for (const std::string& list : a.fix) q.question.keep.fix(list);
  for (const std::string& list : a.exclude) q.question.keep.exclude(list);
  if (!q.emit.empty())
    for (const perf::Constraint& c : perf::said_by(q.emit)) q.question.keep.add(c);
  take_default_engine(a, q);
  take_engine(q);
  q.options = {.host = {.ranks_on_host = a.ranks_on_host},
               .workspace = cpu_workspace,
               .device_workspace = [spec = q.spec] { return engine::gpu_workspace(spec); }};
  q.changed = perf::with_changes(q.machines.front(), a.what_if, q.question);
  return q;
}

namespace {

// Ends with the exit code of what does not fit, after the answer has been printed.
void refuse_too_large(const perf::LayoutChoice& c, const std::string& of) {
  if (!c.too_large()) return;
  std::fprintf(stderr, "isobar: %sdoes not fit: a rank needs %.3g GB or more of %.3g\n", of.c_str(),
               1e-9 * c.memory.lower, 1e-9 * c.there);
  throw CLI::RuntimeError(kDoesNotFit);
}

}  // namespace

void print_run(const Asked& q) {
  if (q.rates && perf::device_of(q.spec, q.machine()) != perf::Device::accelerator)
    throw ConfigError(q.command, "--rates", "is for accelerators",
                      "name a machine of accelerators, or leave it out");
  if (q.engine.foreign()) return print_engine_run(q);
  const perf::RunAnswer a = perf::answer_run(q.spec, q.machine(), q.question, q.options);
  if (q.json)
    print_json(report::json_of(a, q.machine(), q.rates));
  else
    print_text(report::text_of(a, q.machine(), q.rates));
  if (!a.prediction.fits()) throw CLI::RuntimeError(kDoesNotFit);
}

void print_search(const Asked& q) {
  q.engine.foreign() ? print_engine_search(q) : print_own_search(q);
  if (q.out.empty()) return;
  std::vector<perf::NoAnswer> none;
  const perf::Chooser chooser(q.spec, q.machine(), q.engine, q.options);
  const std::string not_drawn = report::write_search_page(q.out, chooser, q.spec, q.question, none);
  for (const perf::NoAnswer& n : none) say(n);
  say_page(q.out, not_drawn);
}

Asked with_all_changes(Asked q) {
  q.question.tokens *= q.changed.back().longer;
  q.question.samples *= q.changed.back().longer;
  return q;
}

void print_with_changes(const Asked& q, void (*print)(const Asked&)) {
  const bool changes = q.changed.size() > 1;
  Asked changed = with_all_changes(q);
  if (changes) changed.out.clear();  // the page is the comparison's
  print(changed);
  if (!changes || q.json) return;
  std::printf("\nwith and without the changes:\n\n");
  print_comparison(q);
}

void print_comparison(const Asked& q) {
  std::vector<perf::Variant> variants = q.changed;
  if (q.machines.size() > 1) {
    variants.clear();
    for (const perf::Machine& m : q.machines) variants.push_back({m});
  }
  const perf::Compared c = perf::compare(variants, q.spec, q.question, q.engine, q.options);
  json out = q.json && !c.rows.empty() ? report::to_json(report::compared_numbers(c.rows)) : json::array();
  Unanswered unanswered(q.json);
  for (const perf::NoAnswer& none : c.none) unanswered.say(none, out);
  if (!c.rows.empty()) {
    q.json ? print_json(out)
           : print_text(report::to_text(report::compared(c.rows)) + "\n" + report::layouts_text(c.rows));
    if (!q.out.empty())
      say_page(q.out, report::write_machines_page(q.out, report::name_of_file(q.spec), c.rows));
  }
  unanswered.end();
  for (const perf::ComparedRow& r : c.rows) refuse_too_large(r.choice, r.name + ": ");
}

namespace {

// The machine's facility, where its file gives a limit or a charge.
std::optional<perf::Facility> facility_of(const perf::Machine& m) {
  const json file = load_yaml(m.file), cluster = file.value("cluster", json::object());
  if (!cluster.contains("max_time_s") && !cluster.contains("max_nodes") && !cluster.contains("charge"))
    return std::nullopt;
  const cluster::ClusterSpec c = cluster::load_cluster(m.file);
  return perf::Facility{c.ranks_per_node, c.max_nodes, c.max_time_s, c.charge, !c.exclusive};
}

std::vector<perf::Scheduled> rows_of(const std::vector<perf::Scheduled>& all, const perf::Machine& m) {
  std::vector<perf::Scheduled> out;
  for (const perf::Scheduled& s : all)
    if (s.choice.machine.name == m.name) out.push_back(s);
  return out;
}

void print_no_schedule(const Asked& q, const std::vector<perf::NoAnswer>& none) {
  json out = json::array();
  Unanswered unanswered(q.json);
  for (const perf::NoAnswer& n : none) unanswered.say(n, out);
  if (q.json) print_json(out);
  unanswered.end();
}

}  // namespace

void print_schedule(const Asked& q) {
  std::vector<perf::Machine> machines = q.machines;
  if (machines.size() == 1) machines = {q.machine()};
  for (const perf::Machine& m : machines)
    if (q.question.budget > 0 && !(m.accelerator && m.accelerator->price_per_hour > 0))
      throw ConfigError(m.file, "--budget", "wants a price", "give accelerator.price_per_hour there");
  std::vector<perf::NoAnswer> none;
  std::vector<perf::Scheduled> all;
  std::map<std::string, std::unique_ptr<perf::Chooser>> choosers;
  for (const perf::Machine& m : machines) {
    const size_t said = none.size();
    try {
      auto& chooser = choosers[m.name] = std::make_unique<perf::Chooser>(q.spec, m, q.engine, q.options);
      for (perf::Scheduled& s : perf::schedule(*chooser, q.spec, q.question, none))
        all.push_back(std::move(s));
    } catch (const ConfigError& e) {  // each number of --gpus may have said why
      if (none.size() == said) none.push_back(perf::no_answer(m.name, 0, e));
    }
  }
  if (all.empty()) return print_no_schedule(q, none);
  for (const perf::NoAnswer& n : none) say(n);
  if (q.json) return print_json(report::json_of(all));
  const perf::Scheduled& best = perf::advised(all);
  const perf::Limit limit = choosers.at(best.choice.machine.name)->limit(best.choice, q.question);
  std::vector<report::Sentence> sentences = {{.brief = report::answer_of(best, q.question)}};
  print_text(sentences[0].brief + "\nlayout: " + perf::layout_text(best.choice.spec) + ", global batch " +
             std::to_string(best.choice.spec.train.global_batch) + "\n\n" +
             report::to_text(report::schedule_table(perf::worth_it(all), q.question)) +
             "\nwhat would change the answer\n");
  for (const std::string& change : report::changes_of(all, best, q.question, limit)) {
    print_text("  " + change + "\n");
    sentences.push_back({.brief = change});
  }
  std::vector<report::Table> tables;
  if (const std::optional<perf::Facility> f = facility_of(best.choice.machine)) {
    sentences.push_back({.text = report::proposal_text(*f, best)});
    tables.push_back(report::scaling_table(*f, rows_of(all, best.choice.machine)));
    print_text("\n" + sentences.back().text + "\n\n" + report::to_text(tables.back()) + "\n");
  }
  std::vector<std::string> assumed = best.choice.notes;
  if (!best.training.assumed.empty())
    assumed.push_back(
        (best.training.useful > kHardly ? "assumed, moving the days by less than 5 %: " : "assumed: ") +
        best.training.assumed);
  for (const std::string& one : assumed) {
    print_text("note: " + one + "\n");
    sentences.push_back({.head = "Note", .text = one});
  }
  if (!q.out.empty())
    say_page(q.out, report::write_budget_page(q.out, report::name_of_file(q.spec), sentences, all, q.question,
                                              tables));
}

namespace {

std::string emitted_of(const Asked& q, const perf::LayoutChoice& c) {
  const report::TimeUnit u = report::unit_of(c.step.value);
  const std::string engine = q.question.engine ? q.question.engine->name : q.engine.engine;
  return perf::emitted(
      c.spec, q.emit,
      printed("predicted for %s on %ld x %s: %s %s a step (80 %% interval), %s of %.3g GB a rank",
              engine.c_str(), c.ranks(), c.machine.name.c_str(),
              with_interval(c.step.scaled(u.per_second)).c_str(), u.name,
              with_interval(c.memory.scaled(1e-9)).c_str(), 1e-9 * c.there));
}

}  // namespace

void print_emitted(const Asked& q) {
  const perf::Chooser chooser(q.spec, q.machine(), q.engine, q.options);
  if (q.question.gpus.empty()) {
    const perf::LayoutChoice own = chooser.own(q.spec);
    print_text(emitted_of(q, own));
    return refuse_too_large(own, "");
  }
  constexpr size_t kTried = 20;
  perf::LayoutQuestion question = q.question;
  question.top = kTried;
  std::exception_ptr why;
  for (const perf::LayoutChoice& c : chooser.best(q.spec, q.question.gpus.front(), question)) try {
      return print_text(emitted_of(q, c));
    } catch (const ConfigError&) {  // the software lacks it: the next best
      if (!why) why = std::current_exception();
    }
  std::rethrow_exception(why);
}

}  // namespace isobar::cli
