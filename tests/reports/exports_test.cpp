// Exports parsed by independent implementations of their formats, and a sweep watched while it runs.
#include "reports/report.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "model/base/error.h"
#include "model/records/files/event_file.h"
#include "reports/live/watch.h"
#include "tests/reports/fixture.h"

namespace isobar::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Bitwise CRC from its definition.
uint32_t slow_crc(const std::string& s) {
  uint32_t c = ~0u;
  for (const char ch : s)
    for (int bit = 0; bit < 8; ++bit) {
      const uint32_t in = (static_cast<unsigned char>(ch) >> bit) & 1;
      c = (c >> 1) ^ ((c & 1) != in ? 0x82F63B78u : 0);
    }
  return ~c;
}

struct Fields {  // of one protobuf message
  std::map<int, std::vector<std::string>> bytes;
  std::map<int, uint64_t> numbers;
};

Fields parsed(const std::string& s) {
  Fields out;
  size_t i = 0;
  const auto varint = [&] {
    uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
      const auto b = static_cast<unsigned char>(s.at(i++));
      v |= static_cast<uint64_t>(b & 0x7F) << shift;
      if (b < 0x80) return v;
    }
  };
  while (i < s.size()) {
    const uint64_t key = varint();
    const int field = static_cast<int>(key >> 3), type = static_cast<int>(key & 7);
    if (type == 0) {
      out.numbers[field] = varint();
      continue;
    }
    const size_t n = type == 1 ? 8 : type == 5 ? 4 : varint();
    out.bytes[field].push_back(s.substr(i, n));
    EXPECT_LE(i + n, s.size());
    i += n;
  }
  return out;
}

template <class T>
T as(const std::string& s) {
  T v{};
  EXPECT_EQ(s.size(), sizeof v);
  std::memcpy(&v, s.data(), sizeof v);
  return v;
}

TEST(Exports, CrcIsCastagnolis) {
  EXPECT_EQ(records::crc32c("123456789"), 0xE3069283u);  // the check value of RFC 3720's CRC
  std::mt19937_64 rng(std::random_device{}());
  for (int n = 0; n < 50; ++n) {
    std::string s;
    for (int i = 0; i < n; ++i) s += static_cast<char>(rng());
    EXPECT_EQ(records::crc32c(s), slow_crc(s));
  }
}

TEST(Exports, EventFilesHoldEveryCurve) {
  TempDir dir, out;
  MadeUpResults made(dir.path);
  made.write_run("long", MadeUpResults::spec(1, "none", 0), {{"gpus", 1}}, 4, 24);
  std::ofstream(dir.path / "trials/long/result.jsonl", std::ios::app)
      << R"({"event": "set_up", "seconds": {"planning": 0.5}, "channels": ["u10m", "t2m"]})"
      << "\n";
  const ReportData d = collect({dir.path}, {});
  EXPECT_EQ(write_tensorboard(d, out.path), 1u);
  const fs::path file = fs::directory_iterator(out.path / "long")->path();
  EXPECT_TRUE(file.filename().string().starts_with("events.out.tfevents."));
  const std::string text = read_file(file);
  std::map<std::string, std::map<int64_t, float>> curves;
  size_t records = 0;
  std::string plugin;
  for (size_t i = 0; i < text.size(); ++records) {
    const auto n = as<uint64_t>(text.substr(i, 8));
    const std::string data = text.substr(i + 12, n);
    for (const auto& [what, at] : {std::pair(text.substr(i, 8), i + 8), std::pair(data, i + 12 + n)}) {
      const uint32_t c = slow_crc(what);
      EXPECT_EQ(as<uint32_t>(text.substr(at, 4)),
                static_cast<uint32_t>(((c >> 15) | (c << 17)) + 0xa282ead8u));
    }
    i += 16 + n;
    const Fields event = parsed(data);
    if (records == 0) {
      EXPECT_EQ(event.bytes.at(3).at(0), "brain.Event:2");
      continue;
    }
    const Fields value = parsed(parsed(event.bytes.at(5).at(0)).bytes.at(1).at(0));
    if (value.bytes.at(1).at(0) == "_hparams_/session_start_info") {
      plugin = value.bytes.at(9).at(0);
      continue;
    }
    curves[value.bytes.at(1).at(0)][static_cast<int64_t>(event.numbers.at(2))] =
        as<float>(value.bytes.at(2).at(0));
  }
  const records::RunRecord& run = d.runs[0].run;
  EXPECT_NE(plugin.find("hparams"), std::string::npos);
  EXPECT_NE(plugin.find("train.global_batch"), std::string::npos);
  EXPECT_EQ(run.set_up.seconds.at("planning"), 0.5);
  ASSERT_EQ(curves["Loss/train"].size(), run.steps.size());
  for (const records::StepRecord& s : run.steps) {
    EXPECT_FLOAT_EQ(curves["Loss/train"][s.step], static_cast<float>(s.loss.value()));
    EXPECT_FLOAT_EQ(curves["Avg iters per sec"][s.step], static_cast<float>(1 / s.seconds));
  }
  ASSERT_EQ(curves["RMSE(u10m)/valid"].size(), run.valid.size());
  for (const records::ValidRecord& v : run.valid)
    EXPECT_FLOAT_EQ(curves["RMSE(u10m)/valid"][v.step], static_cast<float>(v.rmse[0]));
}

TEST(Exports, BenchmarkJsonAndMlperfLinesHoldEveryRun) {
  TempDir dir, out;
  MadeUpResults made(dir.path);
  made.write_sweep();
  made.write_run("run500", MadeUpResults::spec(1, "none", 0),
                 {{"gpus", 1}, {"policy.amp", "none"}, {"data.workers", 0}});
  const ReportData d = collect({dir.path}, {});
  const json j = benchmark_json(d);
  ASSERT_EQ(j["benchmarks"].size(), 13u);
  int repeated = 0;
  for (const json& b : j["benchmarks"]) {
    EXPECT_GT(b["real_time"].get<double>(), 0);
    EXPECT_EQ(b["name"].get<std::string>().find(" #"), std::string::npos);
    repeated += b["repetitions"] == 2;
  }
  EXPECT_EQ(repeated, 2);
  EXPECT_EQ(write_mlperf(d, out.path), 13u);
  std::ifstream in(out.path / "run500.log");
  std::vector<std::string> keys;
  for (std::string line; std::getline(in, line);) {
    ASSERT_TRUE(line.starts_with(":::MLLOG {"));
    keys.push_back(json::parse(line.substr(9))["key"]);
  }
  EXPECT_NE(std::find(keys.begin(), keys.end(), "run_start"), keys.end());
  EXPECT_EQ(keys.back(), "run_stop");
}

TEST(Watch, ShowsPlannedRunningDoneAndFailedTrialsAsTheyCome) {
  TempDir dir;
  json sweep = {{"trials", json::array()}};
  for (int i = 0; i < 6; ++i)
    sweep["trials"].push_back(
        {{"id", "run" + std::to_string(i)}, {"repetition", 0}, {"axes", {{"gpus", i}}}});
  EXPECT_THROW(SweepWatch(dir.path), ConfigError);
  write_atomically(dir.path / "sweep.json", sweep.dump());
  SweepWatch watch(dir.path);
  watch.refresh();
  EXPECT_EQ(watch.state().counts.at("planned"), 6u);
  EXPECT_EQ(watch.state().done, 0u);

  MadeUpResults made(dir.path);
  const RunSpec spec = MadeUpResults::spec(1, "none", 0);
  made.write_run("run0", spec, {{"gpus", 0}});
  write_atomically(dir.path / "trials/run0/status.json", R"({"class": "ok", "final": true, "wall_s": 2})");
  made.write_failure("run1", spec, {{"gpus", 1}}, "oom_host", "no memory\nleft");
  made.write_run("run2", spec, {{"gpus", 2}});
  fs::remove(dir.path / "trials/run2/status.json");
  // A writer is in the middle of a line.
  const std::string text = read_file(dir.path / "trials/run2/result.jsonl");
  const size_t fifth = text.find("\"step\":5}");
  ASSERT_NE(fifth, std::string::npos);
  write_atomically(dir.path / "trials/run2/result.jsonl", text.substr(0, text.find('\n', fifth) + 30));
  watch.refresh();
  const WatchState& s = watch.state();
  EXPECT_EQ(s.counts.at("ok"), 1u);
  EXPECT_EQ(s.counts.at("oom_host"), 1u);
  EXPECT_EQ(s.counts.at("running"), 1u);
  EXPECT_EQ(s.counts.at("planned"), 3u);
  EXPECT_EQ(s.done, 2u);
  EXPECT_EQ(s.trials[2].step, 5);
  EXPECT_EQ(s.trials[2].steps, 12);
  ASSERT_NE(s.fastest(), nullptr);
  EXPECT_EQ(s.fastest()->id, "run0");
  for (const size_t width : {30u, 80u, 200u})
    for (const size_t rows : {5u, 12u, 50u}) {
      std::istringstream lines(frame(s, {.width = width, .rows = rows}));
      size_t n = 0;
      for (std::string line; std::getline(lines, line); ++n) {
        size_t columns = 0;
        for (const char c : line) columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
        EXPECT_LE(columns, width) << line;
      }
      EXPECT_LE(n, rows);
    }
  const std::string wide = frame(s, {.width = 200, .rows = 50});
  EXPECT_NE(wide.find("2 of 6 trials"), std::string::npos) << wide;
  EXPECT_NE(wide.find("step 5/12"), std::string::npos) << wide;
  EXPECT_NE(wide.find("no memory"), std::string::npos) << wide;
  // A class unknown to this program is shown verbatim.
  write_atomically(dir.path / "trials/run3/status.json", R"({"class": "node_fail", "final": true})");
  watch.refresh();
  EXPECT_EQ(s.counts.at("node_fail"), 1u);
  EXPECT_EQ(s.done, 3u);
}

TEST(Watch, LabelsTellTrialsApartAndGiveWayToWhatIsSaidOfThem) {
  TempDir dir;
  json sweep = {{"trials", json::array()}};
  for (int i = 0; i < 2; ++i)
    sweep["trials"].push_back({{"id", "run" + std::to_string(i)},
                               {"name", std::string("dp2 tp1 zero-bubble train=era5.nc recompute=") +
                                            (i == 0 ? "selective" : "full") + " recompute_method=uniform"}});
  write_atomically(dir.path / "sweep.json", sweep.dump());
  MadeUpResults(dir.path).write_run("run0", MadeUpResults::spec(1, "none", 0), json::object());
  write_atomically(dir.path / "trials/run0/status.json", R"({"class": "ok", "final": true, "wall_s": 2})");
  SweepWatch watch(dir.path);
  watch.refresh();
  const std::string wide = frame(watch.state(), {.width = 200, .rows = 50});
  EXPECT_NE(wide.find("train=era5.nc"), std::string::npos) << wide;
  const std::string narrow = frame(watch.state(), {.width = 60, .rows = 50});
  EXPECT_NE(narrow.find("samples/s  in 2 s"), std::string::npos) << narrow;
  EXPECT_NE(narrow.find("\u2026"), std::string::npos) << narrow;
}

}  // namespace
}  // namespace isobar::report
