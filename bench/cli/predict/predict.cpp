// isobar predict: one run. What the command did before search, compare, budget and emit were commands of
// their own is still answered, and the new spelling is said.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <memory>

#include "bench/cli/commands.h"
#include "bench/cli/predict/ask.h"
#include "bench/cli/words/options.h"
#include "model/base/error.h"
#include "model/base/system/shared_files.h"
#include "model/base/text/json.h"
#include "perfmodel/ask/choose/emit.h"
#include "perfmodel/fitting/settings_fit.h"

namespace isobar::cli {
namespace {

// isobar predict of a run whose net is not described (run.by_settings): by a fit to runs of other settings.
//
// isobar predict of a run whose net is not described: by a fit to runs of other settings.

bool is_of_settings(const std::string& fit) {
  const nlohmann::json j = json_if_there(fit);
  return j.is_object() && j.contains("by_settings");
}

void refuse_what_prices_nets(const CLI::App& command) {
  for (const CLI::Option* o : command.get_options()) {
    const std::string name = o->get_name();
    if (o->count() == 0 || name == "CONFIG" || name == "--set" || name == "--fit" || name == "--json" ||
        name == "--global-batch")
      continue;
    throw ConfigError("isobar predict", name, "is of a net, and the fit is by settings alone",
                      "leave it out");
  }
}

/// True if it has printed the answer. Throws ConfigError where a run without a net has no such fit.
bool predicted_by_settings(const CLI::App& command, const AskArguments& a) {
  const bool fitted = !a.engine.fit.empty() && is_of_settings(a.engine.fit);
  std::vector<std::string> set = a.set;
  if (!a.global_batch.empty()) set.push_back("train.global_batch=" + a.global_batch);
  const RunSpec spec = load_run_spec(a.config, set);
  if (!fitted && spec.run.by_settings)
    throw ConfigError(a.config, "net", "is missing, so that the run is predicted by its settings alone",
                      "give --fit FITTED of `isobar fit RESULTS -o FITTED`, or describe the net");
  if (!fitted) return false;
  if (!spec.run.by_settings)
    throw ConfigError(a.engine.fit, "by_settings", "is of runs without a net, and " + a.config + " has one",
                      "leave --fit out, or take the configuration of those runs");
  refuse_what_prices_nets(command);
  const perf::SettingsFit fit = perf::SettingsFit::from_json(read_json(a.engine.fit), a.engine.fit);
  const perf::StepRange r = fit(spec);
  const double rate = static_cast<double>(spec.train.global_batch) / r.seconds;
  if (a.json) {
    std::printf("%s\n", json_text({{"by_settings", true},
                                   {"runs", fit.ids().size()},
                                   {"step_s", r.seconds},
                                   {"lo_s", r.lower},
                                   {"hi_s", r.upper},
                                   {"samples_per_s", rate}},
                                  1)
                            .c_str());
    return true;
  }
  std::printf(
      "by settings: no net is described; fitted to %zu runs\n"
      "step        %.4g ms (80 %%: %.4g to %.4g)\nthroughput  %.4g samples/s\n",
      fit.ids().size(), 1e3 * r.seconds, 1e3 * r.lower, 1e3 * r.upper, rate);
  return true;
}

constexpr const char* kPredictHelp =
    R"(Predicts the time of one optimizer step of CONFIG on a machine, term by term and with an 80 % interval, and the
memory of one rank; nothing is run. The interval is meant to cover 80 of 100 measurements: narrow for runs like those
that the machine file was fitted to, widest for a spec sheet; warnings say why.

The device is that of the machine file (CPU cores or accelerators), unless the configuration or --set names run.device.
Where policy.micro_batch is not given, or 0, a GPU's run takes the largest that fits. What does not fit ends with exit
code 4, by how much, and the smallest change that fits. Model FLOPs (MFU) are three times those of the forward pass's
matrix products; hardware FLOPs (HFU) include recomputation.

Predictions are for Isobar's own engine, unless --engine names another (configs/engines), or unknown, a mixture of all:
its coefficients are fitted to the published runs in configs/published.

  isobar search    the best layout on N accelerators        isobar budget    the fewest that keep a deadline, a budget
  isobar compare   machines and what-ifs side by side       isobar emit      a layout for Megatron, NeMo, torchtitan …

Examples:
  isobar predict configs/models/vit-384.yaml --machine results/fitted.yaml --ranks 2 --set policy.amp=bf16
  isobar predict configs/models/llama3-8b.yaml --machine dgx-h100 --set layout.tp=8 --engine nemo
  isobar predict configs/models/vit-384.yaml --machine results/fitted.yaml --json | jq .step_s)";

enum class Mode { run, search, machines, budget, emit };

Mode mode_of(const AskArguments& a) {
  if (a.plans()) return Mode::budget;
  if (a.machines.size() > 1) return Mode::machines;
  if (!a.emit.empty()) return Mode::emit;
  return a.searches() ? Mode::search : Mode::run;
}

// A mode in words: its purpose, and its spelling now.
struct ModeText {
  const char *does, *spelling;
};
ModeText text_of(Mode m) {
  switch (m) {
    case Mode::search:
      return {"layouts are searched", "isobar search"};
    case Mode::machines:
      return {"machines are compared", "isobar compare"};
    case Mode::budget:
      return {"the fewest accelerators are found", "isobar budget"};
    case Mode::emit:
      return {"a layout is printed for other software", "isobar emit … --for SOFTWARE"};
    case Mode::run:
      return {"one layout is predicted", "isobar predict"};
  }
  return {};
}

// Options and the letters of the modes that read them: r(un), s(earch), m(achines), b(udget), e(mit).
void refuse_unread(const CLI::App& command, const AskArguments& a) {
  const Mode mode = mode_of(a);
  const char letter = "rsmbe"[static_cast<size_t>(mode)];
  for (const auto& [option, modes] : {std::pair{"--top", "se"},
                                      {"--pareto", "s"},
                                      {"--offload", "s"},
                                      {"--rates", "r"},
                                      {"--ranks", "rme"},
                                      {"--tokens", "rsmb"},
                                      {"--samples", "rsmb"},
                                      {"--what-if", "rsbe"},
                                      {"--deadline", "b"},
                                      {"--budget", "b"},
                                      {"--emit", "e"},
                                      {"--out", "sm"},
                                      {"--json", "rsmb"}}) {
    const bool page_of_changes = !a.what_if.empty() && std::strcmp(option, "--out") == 0 && mode == Mode::run;
    if (command.count(option) > 0 && !std::strchr(modes, letter) && !page_of_changes)
      throw ConfigError("isobar predict", option, std::string("is not read where ") + text_of(mode).does,
                        std::string("leave it out; ") + text_of(mode).spelling + " says what is");
  }
  if (mode == Mode::emit && a.question.gpus.size() > 1)
    throw ConfigError("isobar predict", "--emit", "is of one layout", "give one --gpus");
}

void answer(Mode mode, const Asked& q) {
  switch (mode) {
    case Mode::machines:
      return print_comparison(q);
    case Mode::emit:
      return print_emitted(with_all_changes(q));
    case Mode::budget:
      return print_schedule(with_all_changes(q));
    case Mode::search:
      return print_with_changes(q, print_search);
    case Mode::run:
      return print_with_changes(q, print_run);
  }
}

// Options of what are commands of their own now.
void add_old_options(CLI::App& command, AskArguments& a) {
  const size_t before = command.get_options().size();
  add_search_options(command, a, false);
  add_limit_options(command, a);
  command.add_option("--top", a.question.top)->check(CLI::Range(1, 1000));
  command.add_flag("--pareto", a.question.pareto);
  command.add_flag("--offload", a.question.offload);
  command.add_option("--emit", a.emit)->check(CLI::IsMember(perf::emit_targets()));
  command.add_option("-o,--out", a.out);
  const std::vector<CLI::Option*> all = command.get_options();
  for (size_t i = before; i < all.size(); ++i) all[i]->group("");
}

}  // namespace

void add_predict_command(CLI::App& app) {
  auto a = std::make_shared<AskArguments>();
  CLI::App* command = app.add_subcommand("predict", "Predict a run's step by term, throughput and memory");
  command->footer(kPredictHelp);
  add_run_options(*command, *a, true);
  add_rank_options(*command, *a);
  add_training_options(*command, *a);
  add_what_if_option(*command, *a);
  command->add_flag("--rates", a->rates,
                    "Print the step's time by coefficient, with the source of each (accelerators)");
  add_output_options(*command, *a, false);
  add_old_options(*command, *a);
  command->callback([a, command] {
    refuse_unread(*command, *a);
    if (predicted_by_settings(*command, *a)) return;
    take_options(*command, *a);
    const Asked q = asked(*a);
    const Mode mode = mode_of(*a);
    if (mode != Mode::run && !a->json)
      std::fprintf(stderr, "isobar predict: spelt `%s` now, with the same options\n", text_of(mode).spelling);
    answer(mode, q);
  });
}

}  // namespace isobar::cli
