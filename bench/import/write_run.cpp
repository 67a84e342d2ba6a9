#include "bench/import/import.h"
#include "bench/sweep/trials.h"
#include "model/base/files.h"

namespace isobar {

using nlohmann::json;

void write_imported_run(const RunRecord& r, const std::filesystem::path& results) {
  const std::filesystem::path dir = results / "trials" / r.id;
  std::string lines;
  const auto line = [&](const json& e) {
    lines += e.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  };
  line({{"event", "run_start"},
        {"schema", 1},
        {"time_utc", r.time_utc},
        {"spec", to_json(r.spec)},
        {"ranks", r.ranks},
        {"ranks_on_host", r.ranks_on_host},
        {"threads", r.threads},
        {"provenance", r.provenance}});
  for (const StepRecord& s : r.steps)
    line({{"event", "step"}, {"step", s.step}, {"seconds", s.seconds}, {"samples_per_s", s.samples_per_s}});
  json ops = json::array();
  for (const OpRecord& o : r.ops)
    ops.push_back({{"path", o.path},
                   {"kind", o.kind},
                   {"lane", o.lane},
                   {"count", o.count},
                   {"seconds", o.seconds},
                   {"flops", o.flops},
                   {"bytes", o.bytes}});
  line({{"event", "run_end"},
        {"status", "ok"},
        {"steps", r.step_s.count},
        {"step_s",
         {{"median", r.step_s.median},
          {"p10", r.step_s.p10},
          {"p90", r.step_s.p90},
          {"min", r.step_s.min},
          {"count", r.step_s.count}}},
        {"samples_per_s", r.rate(kStatistic)},
        {"peak_rss_bytes", r.peak_rss_bytes},
        {"ops", ops}});
  const auto text = [](const json& j) {
    return j.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
  };
  write_atomically(dir / "result.jsonl", lines);
  // A trial without warm-up: what was imported is what its owner counts.
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

}  // namespace isobar
