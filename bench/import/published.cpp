// Converts table rows in the columns of configs/published to runs with a RunSpec.
#include <cmath>

#include "bench/import/import.h"
#include "bench/sweep/results/trials.h"
#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/records/files/result_file.h"
#include "perfmodel/score/published/published_spec.h"

namespace isobar::foreign {
namespace {

using nlohmann::json;

// True when the directory holds another source's run of the same specification; a repeated import of the same
// row does not count.
bool is_taken(const std::filesystem::path& trial, const json& provenance) {
  if (!std::filesystem::exists(trial / "result.jsonl")) return false;
  bool taken = false;
  records::for_each_record(trial / "result.jsonl", nullptr, [&](const records::Record& r) {
    const auto* start = std::get_if<records::StartRecord>(&r);
    if (!start || start->provenance.empty()) return;  // damaged: replaced by this run
    for (const char* key : {"source", "row"})
      taken = taken || start->provenance.value(key, json()) != provenance[key];
  });
  return taken;
}

}  // namespace

Imported import_published(const std::string& csv, const std::filesystem::path& results,
                          const std::string& only) {
  const perf::PublishedTable table = perf::read_published(csv);
  Imported out;
  for (const auto& [reason, rows] : table.refused) out.refused[reason] += static_cast<size_t>(rows);
  for (const auto& [reason, line] : table.first_refused) out.first[reason] = "line " + std::to_string(line);
  const auto leave_out = [&](const std::string& reason, const perf::PublishedRun& p) {
    ++out.refused[reason];
    out.first.try_emplace(reason, "row " + p.id);
  };
  for (const perf::OpenRun& o : table.open)
    leave_out("leaves " + o.missing.front() + " open", o.candidates.front());
  std::map<std::string, int64_t> seen;  // repetitions of each specification
  for (const perf::PublishedRun& p : table.runs) {
    if (p.gpu_type.find(only) == std::string::npos) {
      leave_out("another accelerator", p);
      continue;
    }
    records::RunRecord r;
    try {
      r.spec = perf::spec_of(p);
      r.spec.run.device = RunDevice::cuda;  // any accelerator, of any vendor
    } catch (const ConfigError& e) {
      const std::string why = e.what();
      leave_out(why.starts_with(": ") ? why.substr(2) : why, p);
      continue;
    }
    r.axes = {{"net", p.model},
              {"gpus", std::llround(p.gpus)},
              {"layout.dp", r.spec.layout.dp},
              {"layout.tp", r.spec.layout.tp},
              {"layout.cp", r.spec.layout.cp},
              {"layout.pp", r.spec.layout.pp},
              {"layout.ep", r.spec.layout.ep},
              {"policy.micro_batch", r.spec.policy.micro_batch},
              {"policy.recompute", r.spec.policy.recompute},
              {"policy.amp", r.spec.policy.amp}};
    r.ranks = r.spec.layout.world();
    r.ranks_on_host = std::min<int64_t>(r.ranks, std::llround(p.node));
    r.threads = 1;
    r.step_s = {p.step_s, p.step_s, p.step_s, p.step_s, 1};
    r.peak_rss_bytes = std::llround(p.memory_gb * 1e9);
    r.provenance = {{"imported_from", csv},
                    {"row", p.id},
                    {"source", p.source},
                    {"engine", p.engine},
                    {"gpu", p.gpu_type}};
    int64_t& next = seen[to_json(r.spec).dump()];
    do {
      r.repetition = next++;
      r.id = sweep::trial_id(r.spec, r.repetition);
    } while (is_taken(results / "trials" / r.id, r.provenance));
    write_imported_run(r, results);
    ++out.runs;
  }
  return out;
}

void write_imported_run(const records::RunRecord& r, const std::filesystem::path& results) {
  const std::filesystem::path dir = results / "trials" / r.id;
  std::string lines;
  const auto line = [&](const records::Record& record) { lines += records::line_of(record) + "\n"; };
  line(records::StartRecord{.time_utc = r.time_utc,
                            .spec = to_json(r.spec),
                            .ranks = r.ranks,
                            .ranks_on_host = r.ranks_on_host,
                            .threads = r.threads,
                            .provenance = r.provenance});
  for (const records::StepRecord& s : r.steps) line(s);
  line(records::EndRecord{.status = "ok",
                          .steps = r.step_s.count,
                          .step_s = r.step_s,
                          .samples_per_s = r.rate(kStatistic),
                          .peak_rss_bytes = r.peak_rss_bytes,
                          .ops = r.ops});
  const auto text = [](const json& j) {
    return j.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
  };
  write_atomically(dir / "result.jsonl", lines);
  // No warm-up: the source has chosen which steps count.
  write_atomically(dir / "trial.json", text({{"schema", 1},
                                             {"id", r.id},
                                             {"repetition", r.repetition},
                                             {"axes", r.axes},
                                             {"ranks", r.ranks},
                                             {"warmup", 0},
                                             {"spec", to_json(r.spec)}}));
  write_atomically(dir / "status.json", text({{"schema", 1},
                                              {"id", r.id},
                                              {"class", "ok"},
                                              {"final", true},
                                              {"message", ""},
                                              {"attempt", 1},
                                              {"wall_s", 0.0}}));
}

}  // namespace isobar::foreign
