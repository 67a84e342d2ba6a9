// The trace file against the Trace Event Format, read with a JSON parser that the writer does not use.
#include "model/trace/chrome.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "model/base/error.h"
#include "tests/trace/fixture.h"

namespace isobar::trace {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class Chrome : public testing::Test {
 protected:
  Chrome() : dir_(fs::temp_directory_path() / ("isobar-trace-" + std::to_string(::getpid()))) {
    fs::create_directories(dir_);
  }
  ~Chrome() override { fs::remove_all(dir_); }
  static json load(const fs::path& p) {
    std::ifstream in(p);
    return json::parse(in);
  }
  fs::path dir_;
};

// Throws or fails for anything that a trace viewer would reject.
void check_schema(const json& trace) {
  ASSERT_TRUE(trace.at("traceEvents").is_array());
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> slices;  // by thread: begin, end
  std::map<int64_t, std::vector<json>> flows;
  std::set<std::pair<int, int>> named, used;
  std::set<int> processes;
  for (const json& e : trace["traceEvents"]) {
    const std::string ph = e.at("ph").get<std::string>();
    ASSERT_TRUE(e.at("pid").is_number_integer());
    ASSERT_TRUE(e.at("tid").is_number_integer());
    ASSERT_TRUE(e.at("name").is_string());
    const std::pair<int, int> thread{e["pid"], e["tid"]};
    if (ph == "M") {
      ASSERT_TRUE(e.at("args").is_object());
      if (e["name"] == "thread_name") named.insert(thread);
      if (e["name"] == "process_name") processes.insert(thread.first);
      continue;
    }
    used.insert(thread);
    ASSERT_TRUE(e.at("ts").is_number());
    ASSERT_TRUE(e.at("cat").is_string());
    if (ph == "X") {
      ASSERT_TRUE(e.at("dur").is_number());
      ASSERT_GE(e["dur"].get<double>(), 0);
      const double ts = e["ts"];
      slices[thread].emplace_back(ts, ts + e["dur"].get<double>());
    } else {
      ASSERT_TRUE(ph == "s" || ph == "f") << ph;
      flows[e.at("id").get<int64_t>()].push_back(e);
      ASSERT_LT(e["id"].get<int64_t>(), int64_t{1} << 53);
      if (ph == "f") {
        ASSERT_EQ(e.at("bp"), "e");
      }
    }
  }
  EXPECT_EQ(named, used);
  for (const auto& [pid, tid] : used) EXPECT_TRUE(processes.count(pid)) << pid;
  for (const auto& [thread, list] : slices)
    for (size_t i = 1; i < list.size(); ++i)
      EXPECT_GE(list[i].first, list[i - 1].second - 1e-6) << thread.first << " " << thread.second;
  const auto inside_a_slice = [&](const json& e) {
    for (const auto& [begin, end] : slices[{e["pid"], e["tid"]}])
      if (e["ts"].get<double>() >= begin - 1e-6 && e["ts"].get<double>() <= end + 1e-6) return true;
    return false;
  };
  for (const auto& [id, pair] : flows) {
    ASSERT_EQ(pair.size(), 2u) << id;
    EXPECT_EQ(pair[0]["ph"], "s");
    EXPECT_EQ(pair[1]["ph"], "f");
    EXPECT_EQ(pair[0]["name"], pair[1]["name"]);
    EXPECT_EQ(pair[0]["cat"], pair[1]["cat"]);
    EXPECT_EQ(pair[0]["pid"], pair[1]["pid"]);
    EXPECT_NE(pair[0]["tid"], pair[1]["tid"]);  // waits are across lanes
    EXPECT_LE(pair[0]["ts"].get<double>(), pair[1]["ts"].get<double>());
    EXPECT_TRUE(inside_a_slice(pair[0]));
    EXPECT_TRUE(inside_a_slice(pair[1]));
  }
}

int count(const json& trace, const std::string& ph) {
  int n = 0;
  for (const json& e : trace["traceEvents"]) n += e["ph"] == ph;
  return n;
}

TEST_F(Chrome, OneRankHasSlicesArrowsAndNamedTracks) {
  const SmallPlan s = small_plan();
  Timeline t;
  for (int step = 0; step < 3; ++step) add_step(t, step, 120 * step);
  write_chrome_trace(dir_ / "t.json", {{&t, &s.plan, &s.program, 0, {1e-6, 2e-6, 3e-6, 4e-6}}});
  const json trace = load(dir_ / "t.json");
  check_schema(trace);
  EXPECT_EQ(count(trace, "X"), 3 * (4 + 1));
  EXPECT_EQ(count(trace, "s"), 3 * 2);
  EXPECT_EQ(count(trace, "f"), 3 * 2);
  int found = 0;
  for (const json& e : trace["traceEvents"]) {
    if (e["name"] != "a/forward" || e["args"]["step"] != 2) continue;
    ++found;
    EXPECT_EQ(e["tid"], static_cast<int>(plan::Lane::compute));
    EXPECT_DOUBLE_EQ(e["ts"].get<double>(), 250);
    EXPECT_DOUBLE_EQ(e["dur"].get<double>(), 30);
    EXPECT_EQ(e["args"]["path"], "a/forward");
    EXPECT_EQ(e["args"]["kind"], "gemm");
    EXPECT_EQ(e["args"]["shape"], "NT 16x8x4");
    EXPECT_EQ(e["args"]["flops"], 1024);
    EXPECT_EQ(e["args"]["bytes"], 4 * (64 + 32 + 128));
    EXPECT_EQ(e["args"]["micro"], 0);
    EXPECT_DOUBLE_EQ(e["args"]["predicted_us"].get<double>(), 1);
  }
  EXPECT_EQ(found, 1);
}

TEST_F(Chrome, ArrowsLeaveACopyAheadAlone) {
  const SmallPlan s = small_plan();
  Timeline t;
  add_step(t, 0, 0);
  Span ahead = t.spans[0];  // beside the op for which the reduction waits, and after it
  ahead.lane = plan::Lane::h2d, ahead.begin_ns = 50'000, ahead.end_ns = 95'000;
  t.spans.push_back(ahead);
  write_chrome_trace(dir_ / "t.json", {{&t, &s.plan, &s.program}});
  const json trace = load(dir_ / "t.json");
  check_schema(trace);
  EXPECT_EQ(count(trace, "s"), 2);
  for (const json& e : trace["traceEvents"])
    if (e["ph"] == "s" || e["ph"] == "f") {
      EXPECT_NE(e["tid"], static_cast<int>(plan::Lane::h2d)) << e;
    }
}

TEST_F(Chrome, WhatIsReadBackAreTheSpansThatWereWritten) {
  const SmallPlan s0 = small_plan(0), s1 = small_plan(1);
  Timeline t0, t1;
  for (int step = 0; step < 2; ++step) {
    add_step(t0, step, 120 * step, 0);
    add_step(t1, step, 120 * step, 1);
  }
  write_chrome_trace(dir_ / "t.json", {{&t0, &s0.plan, &s0.program}, {&t1, &s1.plan, &s1.program, 5'251}});
  const TraceFile read = read_chrome_trace(dir_ / "t.json");
  ASSERT_EQ(read.spans.size(), t0.spans.size() + t1.spans.size());
  ASSERT_EQ(read.steps.size(), 4u);
  for (size_t i = 0; i < read.spans.size(); ++i) {
    const bool first = i < t0.spans.size();
    const Span& was = first ? t0.spans[i] : t1.spans[i - t0.spans.size()];
    const OpSpan& is = read.spans[i];
    const int64_t shift = first ? 0 : 5'251;
    EXPECT_EQ(is.rank, was.rank);
    EXPECT_EQ(is.step, was.step);
    EXPECT_EQ(is.micro, was.micro);
    EXPECT_EQ(is.lane, was.lane);
    EXPECT_EQ(is.begin_ns, was.begin_ns + shift);  // to the nanosecond
    EXPECT_EQ(is.end_ns, was.end_ns + shift);
    EXPECT_EQ(is.path, s0.plan.ops[static_cast<size_t>(was.op)].path);
    EXPECT_EQ(is.kind, plan::name_of(s0.plan.ops[static_cast<size_t>(was.op)].kind));
  }
  EXPECT_EQ(read.steps[3].rank, 1);
  EXPECT_EQ(read.steps[3].step, 1);
  EXPECT_EQ(read.steps[3].begin_ns, 120'000 + 5'251);
  EXPECT_EQ(read.steps[3].end_ns, 230'000 + 5'251);
  std::ofstream(dir_ / "t.json") << R"({"traceEvents": [{"ph": "X", "ts": "soon"}]})";
  EXPECT_THROW(read_chrome_trace(dir_ / "t.json"), ConfigError);
}

TEST_F(Chrome, PartsOfRanksMergeOntoOneClock) {
  const SmallPlan s0 = small_plan(0), s1 = small_plan(1);
  Timeline t0, t1;
  add_step(t0, 0, 0, 0);
  add_step(t1, 0, 0, 1);
  const fs::path out = dir_ / "trace.json";
  EXPECT_EQ(part_path(out, 1).filename(), "trace.rank1.json");
  write_chrome_trace(part_path(out, 0), {{&t0, &s0.plan, &s0.program}});
  write_chrome_trace(part_path(out, 1), {{&t1, &s1.plan, &s1.program, 5'250}});
  check_schema(load(part_path(out, 1)));
  merge_chrome_traces({part_path(out, 0), part_path(out, 1)}, out);
  const json trace = load(out);
  check_schema(trace);
  EXPECT_EQ(count(trace, "X"), 10);
  EXPECT_EQ(count(trace, "s"), 4);
  EXPECT_FALSE(fs::exists(part_path(out, 1)));
  for (const json& e : trace["traceEvents"]) {
    if (e["name"] == "a/forward") {
      EXPECT_DOUBLE_EQ(e["ts"].get<double>(), e["pid"] == 1 ? 15.25 : 10.0);
    }
  }
}

TEST_F(Chrome, TornPartIsRefusedByName) {
  const SmallPlan s = small_plan();
  Timeline t;
  add_step(t, 0, 0);
  const fs::path part = dir_ / "t.rank0.json";
  write_chrome_trace(part, {{&t, &s.plan, &s.program}});
  fs::resize_file(part, fs::file_size(part) - 20);
  try {
    merge_chrome_traces({part}, dir_ / "t.json");
    FAIL() << "a torn part was taken";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("t.rank0.json"), std::string::npos);
  }
  EXPECT_THROW(merge_chrome_traces({dir_ / "none.json"}, dir_ / "t.json"), ConfigError);
}

TEST_F(Chrome, NamesAreEscapedAndSharedNanosecondsDoNotOverlap) {
  const std::string name = "b\"\\\n</script>\xff\xe6\xb0\x94";  // quotes, control, a byte that is not UTF-8
  const SmallPlan s = small_plan(0, name);
  Timeline t;
  for (int i = 0; i < 2'000; ++i)  // adjacent slices, at times that binary fractions of µs cannot hold
    t.spans.push_back(
        {0, i, 2, 2, 0, plan::Lane::compute, 1'000'000'007ll + 333 * i, 1'000'000'007ll + 333 * (i + 1)});
  write_chrome_trace(dir_ / "t.json", {{&t, &s.plan, &s.program}});
  const json trace = load(dir_ / "t.json");
  check_schema(trace);
  EXPECT_EQ(count(trace, "X"), 2'000);
  for (const json& e : trace["traceEvents"]) {
    if (e["ph"] == "X") {
      ASSERT_EQ(e["name"], "b\"\\\n</script>\xef\xbf\xbd\xe6\xb0\x94");
    }
  }
}

TEST_F(Chrome, EmptyTimelineIsStillATrace) {
  const SmallPlan s = small_plan();
  const Timeline t;
  write_chrome_trace(dir_ / "t.json", {{&t, &s.plan, &s.program}});
  EXPECT_EQ(count(load(dir_ / "t.json"), "X"), 0);
}

}  // namespace
}  // namespace isobar::trace
