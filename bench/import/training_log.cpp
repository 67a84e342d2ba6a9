#include "bench/import/training_log.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "bench/import/import.h"
#include "bench/logs/log_text.h"
#include "bench/logs/output_reader.h"
#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/csv_table.h"
#include "model/base/text/printed.h"
#include "perfmodel/fitting/statistics.h"

namespace isobar::foreign {
namespace {

constexpr const char* kColumns =
    "row_id,source,framework,model_name,arch,layers,hidden,ffn_hidden,heads,kv_heads,head_dim,"
    "vocab,seq_len,experts,top_k,expert_ffn,shared_experts,dense_layers,q_lora_rank,kv_lora_rank,"
    "qk_head_dim,v_head_dim,gpus,dp,tp,cp,pp,vpp,ep,sequence_parallel,zero_stage,micro_batch,"
    "global_batch,precision,recompute,recomputed_layers,schedule,attention_kernel,compiled,"
    "step_time_s,memory_gb";

constexpr std::array<const char*, 11> kNeeded{"arch",         "layers",    "hidden",   "heads",
                                              "seq_len",      "gpus",      "tp",       "micro_batch",
                                              "global_batch", "precision", "recompute"};

/// By LogKind.
constexpr struct {
  const char* name;
  void (*read)(const std::string& text, LoggedRun& run);  // null: kineto_steps, of several files
} kLogs[] = {{"Megatron-LM", read_megatron_log},
             {"NeMo", read_nemo_log},
             {"torchtitan", read_torchtitan_log},
             {"MLPerf", read_mlperf_log},
             {"PyTorch", nullptr}};

std::string number_cell(double v) {
  return printed("%.10g", v);
}

/// Adds cells that only the configuration has, and throws when it contradicts the log.
void add_config(LoggedRun& r, const std::string& config) {
  for (const auto& [column, cell] : r.given) {
    const auto [at, is_new] = r.cells.try_emplace(column, cell);
    if (is_new || at->second == cell) continue;
    // The engine's attention kernels and schedules have other names than ours, and vocabularies are padded by
    // layout: no contradiction.
    if (column == "attention_kernel" || column == "schedule" || column == "vocab") continue;
    throw ConfigError(r.file, column, "is " + at->second + " by the log and " + cell + " by " + config,
                      "give the configuration of this run");
  }
}

void refuse_gaps(LoggedRun& r, const std::string& config) {
  std::vector<const char*> needed(kNeeded.begin(), kNeeded.end());
  if (r.cells["arch"] == "llama") needed.push_back("ffn_hidden");  // tables take 4 times the width otherwise
  for (const char* column : needed) {
    if (!r.cells[column].empty()) continue;
    const auto why = r.open.find(column);
    throw ConfigError(
        r.file, column,
        why != r.open.end() ? why->second : std::string("is nowhere in this log of ") + name_of(r.kind),
        config.empty() ? "say what was trained: --config RUN.yaml" : "add it to " + config);
  }
}

std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\n") == std::string::npos) return cell;
  std::string out = "\"";
  for (const char c : cell) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

/// The cells that a row of configs/published would have for this specification.
std::map<std::string, std::string> cells_of(const RunSpec& s) {
  std::map<std::string, std::string> c;
  const auto count = [&](const char* column, int64_t v) { c[column] = std::to_string(v); };
  const WordsSpec* words = s.net.words();
  if (!words && s.net.kind() != VitSpec::kKind)
    throw ConfigError(s.file, "net.kind", "'" + s.net.kind() + "' is no net of other engines' that is priced",
                      "give a vit, gpt or llama");
  c["arch"] = s.net.kind();
  count("layers", s.net.blocks());
  count("hidden", s.net.width());
  count("ffn_hidden", words ? words->hidden() : s.net.vit().hidden());
  count("heads", s.net.heads());
  count("kv_heads", words ? words->kv_heads() : s.net.heads());
  if (words) count("vocab", words->vocab_size);
  count("seq_len", s.net.tokens());
  count("gpus", s.layout.world());
  count("dp", s.layout.dp);
  count("tp", s.layout.tp);
  count("cp", s.layout.cp);
  count("pp", s.layout.pp);
  count("vpp", s.layout.vpp);
  count("ep", s.layout.ep);
  c["sequence_parallel"] = s.policy.sequence_parallel && s.layout.tp > 1 ? "y" : "n";
  count("zero_stage", s.policy.zero);
  count("micro_batch", s.micro_batch());
  count("global_batch", s.train.global_batch);
  c["precision"] = precision_name(s.policy.amp);
  c["recompute"] = name_of(s.policy.recompute);
  if (s.policy.recompute == Recompute::full && s.policy.recompute_method == RecomputeMethod::block)
    count("recomputed_layers", s.policy.recompute_num_layers);
  c["schedule"] = s.policy.schedule == PipelineSchedule::zb_h1 ? "ZB-H1"
                  : s.layout.vpp > 1                           ? "interleaved-1F1B"
                                                               : "1F1B";
  c["attention_kernel"] = s.policy.attention == AttentionKind::flash ? "sdpa" : "fused";
  return c;
}

}  // namespace

double LoggedRun::seconds() const {
  return quantile(steps, 0.5);
}
double LoggedRun::number(const std::string& column) const {
  for (const auto* from : {&cells, &given})
    if (const auto at = from->find(column); at != from->end() && !at->second.empty())
      return std::atof(at->second.c_str());
  return 0;
}
void LoggedRun::set(const std::string& column, double value) {
  cells[column] = number_cell(value);
}
void LoggedRun::set(const std::string& column, const std::string& value) {
  cells[column] = value;
}

const char* name_of(LogKind kind) {
  return kLogs[static_cast<size_t>(kind)].name;
}

std::optional<LogKind> log_kind(const std::string& text) {
  const auto has = [&](const char* words) { return text.find(words) != std::string::npos; };
  if (is_kineto(text)) return LogKind::kineto;
  if (has("elapsed time per iteration (ms):") || has("elapsed time per iteration (s):"))
    return LogKind::megatron;
  if (has("train_step_timing in s")) return LogKind::nemo;
  if (has(":::MLLOG")) return LogKind::mlperf;
  if ((has("tps:") || has("wps:")) && has("step:")) return LogKind::torchtitan;
  return std::nullopt;
}

std::string log_kinds_looked_for() {
  return "'elapsed time per iteration' (Megatron-LM), 'train_step_timing in s' (NeMo), ':::MLLOG' (MLPerf), "
         "'step:' with 'tps:' or 'wps:' (torchtitan), '\"traceEvents\"' (PyTorch)";
}

LoggedRun read_training_log(const std::vector<std::string>& files, const std::string& config) {
  LoggedRun r;
  r.file = files.front();
  const std::string text = logs::log_text(r.file);
  const std::optional<LogKind> kind = log_kind(text);
  if (!kind)
    throw ConfigError(r.file, "", "is no log that is known: it has none of " + log_kinds_looked_for(),
                      "give one with its steps' times in it, or a table in the columns of configs/published");
  r.kind = *kind;
  if (files.size() > 1 && r.kind != LogKind::kineto)
    throw ConfigError(files[1], "", "is a second file of one run", "give one log a run");
  if (!config.empty()) {
    const RunSpec spec = load_run_spec(config);
    validate(spec);
    r.given = cells_of(spec);
  }
  if (const auto read = kLogs[static_cast<size_t>(r.kind)].read) {
    read(text, r);
  } else {
    std::optional<int64_t> world;
    r.steps = kineto_steps(files, r.notes, &world);
    if (world) r.set("gpus", static_cast<double>(*world));
  }
  if (!config.empty()) add_config(r, config);
  refuse_gaps(r, config);
  if (r.cells["vocab"].empty() && r.cells["arch"] != VitSpec::kKind)
    r.notes.insert(r.notes.begin(), "no line says how large the vocabulary is: 50304 is taken");
  if (r.steps.empty())
    throw ConfigError(r.file, "", "has no time of a step", "give the log of a run that trained for some");
  if (const double places = r.number("tp") * std::max(1.0, r.number("cp")) * std::max(1.0, r.number("pp"));
      std::fmod(r.number("gpus"), places) != 0)
    throw ConfigError(r.file, "gpus",
                      "are " + r.cells["gpus"] +
                          ", no multiple of tensor, context and pipeline parallelism, " + number_cell(places),
                      "check the log, and that a configuration is of this run");
  if (r.steps.size() == 1)
    r.notes.push_back("the only time is of its first line, and may include the start-up");
  r.steps.erase(r.steps.begin(), r.steps.begin() + static_cast<std::ptrdiff_t>(logs::warm_up(r.steps).steps));
  check_second_numbers(r);
  r.set("row_id", r.file);
  r.set("source", r.file);
  if (r.cells["framework"].empty()) r.set("framework", name_of(r.kind));
  r.set("step_time_s", r.seconds());
  return r;
}

std::string table_of(const std::vector<LoggedRun>& runs) {
  const std::vector<std::string> columns = parse_csv(kColumns, "").columns;
  std::string out = kColumns + std::string("\n");
  for (const LoggedRun& r : runs)
    for (const std::string& c : columns) {
      const auto at = r.cells.find(c);
      out += (at == r.cells.end() ? "" : quoted(at->second)) + (c == columns.back() ? "\n" : ",");
    }
  return out;
}

std::string own_table(const std::vector<std::string>& files, const std::string& config,
                      std::vector<std::string>& notes) {
  if (std::filesystem::path(files.front()).extension() == ".csv") {
    if (files.size() > 1)
      throw ConfigError(files[1], "", "comes behind a table", "put all runs into one table");
    if (!config.empty())
      throw ConfigError(files.front(), "--config", "is for logs", "the table's columns say what was run");
    return read_file(files.front(), most::table);
  }
  std::vector<LoggedRun> runs;
  if (log_kind(logs::log_text(files.front())) == LogKind::kineto)
    runs.push_back(read_training_log(files, config));
  else
    for (const std::string& f : files) runs.push_back(read_training_log({f}, config));
  for (const LoggedRun& r : runs)
    for (const std::string& note : r.notes) notes.push_back(r.file + ": " + note);
  return table_of(runs);
}

}  // namespace isobar::foreign
