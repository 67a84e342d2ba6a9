#include "bench/cli/predict/ask.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/commands.h"
#include "bench/cluster/cluster.h"
#include "model/base/error.h"
#include "model/base/text/json.h"
#include "model/base/text/printed.h"
#include "model/base/text/yaml.h"
#include "perfmodel/ask/choose/emit.h"
#include "reports/answers/answers.h"
#include "reports/pages/pages.h"

namespace isobar::cli {
namespace {

using nlohmann::json;

constexpr int kDoesNotFit = 4;    // the exit code of out of memory
constexpr double kHardly = 0.95;  // useful share of time from which failures hardly move a training

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

/// Questions of one command without an answer: reported beside the answers, they decide the exit code at the
/// end. Bad input outranks a misfit.
class Unanswered {
 public:
  explicit Unanswered(bool as_json) : json_(as_json) {}
  /// Reports on stderr and, with JSON, as an entry of `out`.
  void say(const perf::NoAnswer& none, nlohmann::json& out) {
    constexpr int kBadInput = 2;
    code_ = code_ == kBadInput || !none.does_not_fit ? kBadInput : kDoesNotFit;
    if (json_)
      out.push_back({{"gpus", none.gpus},
                     {"machine", none.machine},
                     {none.does_not_fit ? "does_not_fit" : "refused", none.why}});
    std::fprintf(stderr, "isobar: %s\n", none.why.c_str());
  }
  /// Throws ExitCode where anything was reported.
  void end() const {
    if (code_ != 0) throw ExitCode{code_};
  }

 private:
  bool json_;
  int code_ = 0;
};

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
  std::vector<perf::SearchAnswer> answers;
  print_each(
      q,
      [&](int64_t gpus) {
        const perf::SearchAnswer& a =
            answers.emplace_back(perf::answer_search(q.spec, m, gpus, q.question, q.options));
        if (q.json) return report::json_of(a, m, gpus, q.question);
        print_text(report::text_of(a, m, gpus, q.question));
        return json();
      },
      [&] {
        if (answers.size() > 1) print_text(report::scaling_text(answers));
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
    throw ExitCode{kDoesNotFit};
  }
}

}  // namespace

namespace {

// Ends with the exit code of what does not fit, after the answer has been printed.
void refuse_too_large(const perf::LayoutChoice& c, const std::string& of) {
  if (!c.too_large()) return;
  std::fprintf(stderr, "isobar: %sdoes not fit: a rank needs %.3g GB or more of %.3g\n", of.c_str(),
               1e-9 * c.memory.lower, 1e-9 * c.there);
  throw ExitCode{kDoesNotFit};
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
  if (!a.prediction.fits()) throw ExitCode{kDoesNotFit};
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
