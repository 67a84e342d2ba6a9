#include "bench/import/import.h"
#include "bench/sweep/results/trials.h"
#include "model/base/system/files.h"
#include "model/records/files/result_file.h"

namespace isobar::foreign {

using nlohmann::json;

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
