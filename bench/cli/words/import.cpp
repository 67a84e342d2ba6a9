// isobar import: machines and models of other performance models, and runs and links that others measured.
#include "perfmodel/machine/import.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/cli/commands.h"
#include "bench/cli/words/options.h"
#include "bench/import/import.h"
#include "bench/import/training_log.h"
#include "bench/logs/log_text.h"
#include "bench/logs/output_reader.h"
#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/json.h"
#include "model/base/text/json_fault.h"

namespace isobar::cli {
namespace {

constexpr const char* kImportHelp =
    R"(Takes over what other programs wrote; the files say themselves what they are:

  Calculon (systems/, models/, executions) and transformer-perf-estimates (config-*.json, models): JSON
      -> a machine file or a run configuration
  Hugging Face's config.json of a gpt2, llama, mistral, mixtral, deepseek, deepseek_v3, qwen2, qwen3 or qwen3_moe
      -> a run configuration: its net
  runs of other engines: CSV in the columns of configs/published (README.md there)
      -> a results directory, for isobar fit and isobar report; --only A100 takes rows of that accelerator
  PyTorch's profiler: traces (export_chrome_trace) with a schedule and step() marks, one a rank, with --config RUN.yaml
      -> a run in a results directory; steps by their kernels where the host runs ahead of those
  logs of Megatron-LM, NeMo, torchtitan and MLPerf's loggers, one a run: arguments, step times, memory
      -> a CSV for isobar fit --engine, a row a log; --config RUN.yaml says what a log leaves out
         (NeMo 2 and MLPerf: net and layout), and what both say has to agree; so have the log's own numbers: rates,
         counts of samples, its clock
  nccl-tests: the text it printed
      -> a CSV for isobar score; or, with --machine M.yaml, that machine with the measured latency and bandwidth

  weights of a net in the form that it was published in (aurora; gpt and llama: transformers'), PyTorch's .ckpt or
  safetensors, with --config RUN.yaml
      -> a safetensors file for train.init_from; its adapters apart where RUN.yaml has train.lora_rank, else merged

  a net written in PyTorch (2.6 or later): net.py:build or package.module:build, which returns the model, or config.json
  of any model of transformers, with --inputs of one sample
      -> a JSON file that isobar plan, predict and search take as a run of that net; Python is --python, ISOBAR_PYTHON
         or python3
  --try: output of any training, metrics.csv or TensorBoard's event files, as run.reads would read them
      -> which readers know it, the first steps, lines like steps that were not read, the warm-up; nothing is written

Logs and traces may be gzipped, and have the labels of srun, mpirun, torchrun and pdsh before their lines.

Examples:
  isobar import systems/a100_80g.json -o a100.yaml
  isobar import models/megatron-1T.json examples/3072_t4_p64_d12_mbs4_full.json -o run.yaml
  isobar import my_megatron_runs.csv --only H100 -o results/megatron
  isobar import tp4.log tp8.log -o mine.csv
  isobar import nemo.log --config configs/models/llama3-8b.yaml -o mine.csv
  isobar import trace.rank0.json trace.rank1.json --config run.yaml -o results/torch
  isobar import gpt2/config.json -o gpt2.yaml
  isobar import gpt2/model.safetensors --config gpt2.yaml -o gpt2.safetensors
  isobar import aurora-0.25-small-pretrained.ckpt --config configs/models/aurora-small.yaml -o small.safetensors
  isobar import net.py:build --inputs 3x224x224 --loss cross_entropy -o net.json
  isobar import phi3/config.json --inputs input_ids=4096:int64 labels=4096:int64 -o phi3.json
  isobar import --try slurm-17.out --reads 'iter {step} * loss {loss} * {ms} ms'
  isobar import all_reduce.log --machine configs/machines/dgx-h100.yaml -o mine.yaml)";

struct ImportArguments {
  std::vector<std::string> files;
  std::vector<std::string> inputs;
  std::string out, config, machine, only, collective, loss, python, reads = logs::OutputOptions().reads;
  bool force = false, attempt = false;
};

nlohmann::json read(const std::string& path) {
  nlohmann::json j = read_json(path);
  if (j.is_discarded())
    throw ConfigError(path, "", json_fault(read_file(path)), "give the file as its program reads it");
  return j;
}

void write(const ImportArguments& a, const std::string& text) {
  if (a.out.empty()) {
    std::fputs(text.c_str(), stdout);
  } else {
    refuse_to_replace(a.out, a.force);
    write_atomically(a.out, text);
  }
}

void peers(const ImportArguments& a) {
  const nlohmann::json first = read(a.files[0]);
  if (perf::is_machine(first, a.files[0])) {
    if (a.files.size() > 1)
      throw ConfigError(a.files[1], "", "comes behind a machine", "import one machine at a time");
    write(a, perf::to_yaml(perf::import_machine(first, a.files[0])));
    return;
  }
  nlohmann::json all = nlohmann::json::object();
  for (const std::string& f : a.files) all.merge_patch(perf::import_model(read(f), f));
  write(a, json_text(all, 1) + "\n");  // JSON is YAML
}

void only_one(const ImportArguments& a, const char* what) {
  if (a.files.size() > 1)
    throw ConfigError(a.files[1], "", "comes behind " + std::string(what), "import one at a time");
}

void needs(const std::string& value, const std::string& file, const char* option, const char* mend) {
  if (value.empty()) throw ConfigError(file, option, "is missing", mend);
}

void tell(const foreign::Imported& i, const std::string& file, const std::string& out) {
  std::printf("%zu runs in %s\n", i.runs, out.c_str());
  for (const std::string& note : i.notes) std::printf("  %s\n", note.c_str());
  for (const auto& [reason, n] : i.refused) {
    const auto first = i.first.find(reason);
    std::printf("  %zu left out: %s%s\n", n, reason.c_str(),
                first == i.first.end() ? "" : (" (" + file + ", first in " + first->second + ")").c_str());
  }
  if (i.runs == 0) throw ConfigError(out, "", "got no run", "see the reasons above");
}

// Refuses options that a file of this kind does not have.
void refuse_others(const CLI::App& command, const std::string& kind, const std::string& own) {
  for (const char* option : {"--config", "--machine", "--only", "--collective", "--force", "--inputs",
                             "--loss", "--python", "--reads"})
    refuse_unused(command,
                  {{option, own.find(option) == std::string::npos, "is not for " + kind, "leave it out"}});
}

void weights(const ImportArguments& a) {
  only_one(a, "weights");
  needs(a.config, a.files[0], "--config", "say which net they are of: --config RUN.yaml");
  needs(a.out, a.files[0], "--output", "say where they go, e.g. -o first.safetensors");
  refuse_to_replace(a.out, a.force);
  std::fputs(foreign::import_weights(a.files[0], a.config, a.out).c_str(), stdout);
  std::printf("weights in %s: isobar train %s --set train.init_from=%s\n", a.out.c_str(), a.config.c_str(),
              a.out.c_str());
}

void logs(const ImportArguments& a) {
  std::vector<foreign::LoggedRun> runs;
  for (const std::string& f : a.files) runs.push_back(foreign::read_training_log({f}, a.config));
  write(a, foreign::table_of(runs));
  if (a.out.empty()) {
    for (const foreign::LoggedRun& r : runs)
      for (const std::string& note : r.notes) std::fprintf(stderr, "%s: %s\n", r.file.c_str(), note.c_str());
    return;
  }
  for (const foreign::LoggedRun& r : runs) {
    std::printf("%s: %s, %.4g s a step, the median of %zu\n", r.file.c_str(), foreign::name_of(r.kind),
                r.seconds(), r.steps.size());
    for (const std::string& note : r.notes) std::printf("  %s\n", note.c_str());
  }
  std::printf("%zu runs in %s: isobar fit %s --machine M --engine E -o mine-fit.json\n", runs.size(),
              a.out.c_str(), a.out.c_str());
}

void torch_net(const ImportArguments& a) {
  only_one(a, "a net");
  const std::string& target = a.files[0];
  if (a.inputs.empty())
    throw ConfigError(target, "--inputs", "is missing",
                      "give the sizes of one sample, e.g. --inputs 3x224x224");
  needs(a.out, target, "--output", "say where it goes, e.g. -o net.json");
  refuse_to_replace(a.out, a.force);
  std::fputs(foreign::import_torch_net(target, a.inputs, a.loss, a.python, a.out).c_str(), stdout);
  std::printf("%s: isobar plan %s --totals\n", a.out.c_str(), a.out.c_str());
}

/// Shows what run.reads makes of each file.
void attempts(const ImportArguments& a) {
  logs::OutputOptions options{.reads = a.reads, .file = "--reads"};
  if (!a.config.empty()) {
    const RunSpec spec = load_run_spec(a.config);
    options.batch = spec.train.global_batch;
    options.tokens = spec.net.words() ? spec.net.words()->seq_length : 0;
    options.ranks = spec.layout.world();
  }
  for (const std::string& f : a.files) std::fputs(logs::tried_log(f, options).c_str(), stdout);
}

bool looks_like_json(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && (text[first] == '{' || text[first] == '[');
}

void run_import(const ImportArguments& a, const CLI::App& command) {
  const std::string& file = a.files[0];
  if (a.attempt) {
    refuse_others(command, "--try", "--config --reads");
    refuse_unused(command, {{"--output", true, "is not for --try, which only shows", "leave it out"}});
    return attempts(a);
  }
  if (foreign::is_torch_target(file) || (!a.inputs.empty() && file.ends_with(".json"))) {
    refuse_others(command, "a net", "--force --inputs --loss --python");
    return torch_net(a);
  }
  if (foreign::is_weights(file)) {
    refuse_others(command, "weights", "--config --force");
    return weights(a);
  }
  const std::string text = logs::log_text(file);
  if (foreign::is_kineto(text)) {
    refuse_others(command, "a PyTorch trace", "--config");
    needs(a.config, file, "--config", "say what was trained: --config RUN.yaml");
    needs(a.out, file, "--output", "say where the run goes, e.g. -o results/torch");
    tell(foreign::import_kineto(a.files, a.config, a.out), file, a.out);
  } else if (foreign::is_nccl_tests(text)) {
    refuse_others(command, "a log of nccl-tests", "--machine --collective --force");
    only_one(a, "a log of nccl-tests");
    const foreign::Collectives c = foreign::read_nccl_tests(file, a.collective);
    write(a, a.machine.empty() ? foreign::to_csv(c)
                               : perf::to_yaml(foreign::with_links(perf::load_machine(a.machine), c)));
  } else if (std::filesystem::path(file).extension() == ".csv") {
    refuse_others(command, "a table of runs", "--only");
    only_one(a, "a table");
    needs(a.out, file, "--output", "say where the runs go, e.g. -o results/mine");
    tell(foreign::import_published(file, a.out, a.only), file, a.out);
  } else if (foreign::log_kind(text)) {
    refuse_others(command, "a log of a training", "--config --force");
    logs(a);
  } else if (looks_like_json(text)) {
    refuse_others(command, "a machine or model of another program", "--force");
    peers(a);
  } else {
    throw ConfigError(
        file, "",
        "is of no kind that is known: it is no weights (zip, safetensors), no .csv and no JSON, and has "
        "none of " +
            foreign::log_kinds_looked_for() + ", 'algbw' with 'busbw' (nccl-tests)",
        "see isobar import --help for the files that are read");
  }
}

}  // namespace

void add_import_command(CLI::App& app) {
  auto a = std::make_shared<ImportArguments>();
  CLI::App* c = app.add_subcommand(
      "import", "Import runs, links, machines and models that other programs measured or wrote");
  c->footer(kImportHelp);
  c->add_option("FILE", a->files, "Files to import")->required();
  c->add_option("-o,--output", a->out, "File or directory to write [text goes to stdout]");
  c->add_option(
      "--config", a->config,
      "Run configuration of what a PyTorch trace shows or a log leaves out, or of the net that weights "
      "are of");
  add_machine_option(*c, a->machine, "Machine file that gets the links of an nccl-tests log");
  c->add_flag("--force", a->force, "Replace the file of -o");
  c->add_flag("--try", a->attempt,
              "Show what run.reads makes of a training's output, table of metrics or event files");
  c->add_option("--reads", a->reads, "With --try: as run.reads, a reader or a line of one's own")
      ->capture_default_str();
  c->add_option("--only", a->only, "Rows of a table whose gpu_type holds this text");
  c->add_option("--collective", a->collective, "What an nccl-tests log measured, if it does not say")
      ->check(CLI::IsMember({"all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast"}));
  c->add_option("--inputs", a->inputs,
                "Inputs of a net, of one sample: 3x224x224, or by name and type: input_ids=1024:int64");
  c->add_option("--loss", a->loss, "Loss of a net that returns none of its own [mse]")
      ->check(CLI::IsMember({"mse", "cross_entropy"}));
  c->add_option("--python", a->python, "Python with the net's packages [ISOBAR_PYTHON, else python3]");
  c->callback([a, c] { run_import(*a, *c); });
}

}  // namespace isobar::cli
