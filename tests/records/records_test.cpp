// result.jsonl: records are written in the documented format and read back unchanged, also from older
// versions with fewer keys.
#include "model/records/records.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/base/error.h"

namespace isobar::records {
namespace {

using nlohmann::json;

template <class R>
R read(const json& j, std::vector<std::string>* problems = nullptr) {
  return std::get<R>(record_from_json(j, {"run/result.jsonl", 7, problems}));
}

// Lines of the stored format with all keys of all events.
const char* const kLines[] = {
    R"({"event":"run_start","flops_forward_per_sample":1e9,"kernels":{"gemm f32":{"oneDNN":3}},"memory":{"arena":100,"by_category":{"loader":5,"params":10},"host":3,"total":108},"parameters":1000,"plan_hash":"ab","provenance":{"host":"h"},"ranks":2,"ranks_on_host":2,"resumed":false,"schema":1,"spec":{"net":{"depth":1}},"threads":1,"time_utc":"2026-01-01T00:00:00Z"})",
    R"({"event":"device","gpu":{"device":"H100"}})",
    R"({"changed":{"train.lr":[0.1,0.2]},"checked":true,"event":"resume","path":"c/step-2","step":2})",
    R"({"data_wait_s":0.0,"epoch":0,"event":"step","grad_norm":1.5,"loss":0.5,"loss_scale":1024.0,"lr":0.001,"rmse":0.25,"rss_bytes":1000,"samples_per_s":80.0,"seconds":0.1,"skipped":true,"step":1})",
    R"({"event":"valid","loss":0.5,"persistence_rmse":[0.3],"rmse":[0.1,0.2],"seconds":0.1,"step":2})",
    R"({"energy":"package-0","event":"ranks","joules_per_step":3.5,"ranks":[{"busy":0.5,"busy_cores":1.5,"celsius":60.0,"compute_s":0.5,"cores":2.0,"data_wait_s":0.0,"host":"a","mhz":2000.0,"pcie_in_bytes_s":4.0,"pcie_out_bytes_s":2.0,"peak_rss_bytes":9,"rank":0,"rss_bytes":8,"step_s":0.75,"used_cores":1.25,"watts":4.5}],"step":2,"steps":1})",
    R"({"event":"checkpoint","path":"c/step-2","seconds":0.5,"step":2})",
    R"({"activities":12,"device_s":0.5,"event":"device_share","joined_share":0.9,"lost":0,"text":"most"})",
    R"({"checkpoint":"c/step-2","event":"run_end","file_rss_bytes":5,"final_loss":0.5,"ops":[{"bytes":1e6,"count":2,"flops":1e9,"kind":"gemm","lane":"compute","part":{"kind":"block","path":"block00"},"path":"block00/qkv/forward","seconds":0.1}],"peak_rss_bytes":7,"routines":[{"chunk":0,"count":3,"name":"forward","seconds":0.2}],"samples_per_s":80.0,"seconds":1.5,"status":"ok","step_s":{"count":4,"median":0.1,"min":0.08,"p10":0.09,"p90":0.2},"steps":6,"trained_steps":6,"unattributed_share":0.01,"valid":{"loss":0.5,"persistence_rmse":0.3,"rmse":0.1,"step":2}})",
    R"({"class":"hang","event":"run_end","message":"no progress","op":"gradients/bucket0","rank":1,"status":"failed"})",
    R"({"class":"interrupted","event":"run_end","message":"stopped","signal":"SIGTERM","status":"failed"})",
    // an imported run, and a training that was already complete
    R"({"event":"step","samples_per_s":80.0,"seconds":0.1,"step":1})",
    R"({"checkpoint":"c/step-2","event":"run_end","status":"ok","steps":2,"trained_steps":0})",
    // a net with scalar outputs
    R"({"event":"step","mae":0.5,"samples_per_s":80.0,"seconds":0.1,"step":1})",
    R"({"event":"valid","loss":0.5,"mae":[0.1,0.2],"seconds":0.1,"step":2})",
    R"({"event":"run_end","status":"ok","steps":2,"trained_steps":2,"valid":{"loss":0.5,"mae":0.1,"step":2}})",
};

TEST(Records, EveryKeyOfEveryEventIsReadAndWrittenAsItStood) {
  for (const char* line : kLines) {
    const Record r = record_from_json(json::parse(line), {"run/result.jsonl", 1});
    EXPECT_FALSE(std::holds_alternative<UnknownRecord>(r)) << line;
    EXPECT_EQ(to_json(r), json::parse(line));
    EXPECT_EQ(to_json(r).dump(), json::parse(line).dump());  // 80.0 stays a float
  }
}

TEST(Records, ValuesStandInTheirMembers) {
  const auto start = read<StartRecord>(json::parse(kLines[0]));
  EXPECT_EQ(start.ranks_on_host, 2);
  EXPECT_EQ(start.memory->by_category.at("loader"), 5);
  EXPECT_EQ(start.spec["net"]["depth"], 1);
  const auto step = read<StepRecord>(json::parse(kLines[3]));
  EXPECT_EQ(step.step, 1);
  EXPECT_DOUBLE_EQ(*step.loss, 0.5);
  EXPECT_DOUBLE_EQ(*step.rmse, 0.25);
  EXPECT_TRUE(*step.skipped);
  const auto end = read<EndRecord>(json::parse(kLines[8]));
  EXPECT_TRUE(end.ok());
  EXPECT_DOUBLE_EQ(end.step_s->p90, 0.2);
  EXPECT_EQ(end.step_s->count, 4);
  EXPECT_EQ(end.ops->at(0).path_in_kind(), "block*/qkv/forward");
  EXPECT_EQ(read<EndRecord>(json::parse(kLines[9])).failure, "hang");
}

TEST(Records, WhatAnOlderFileDoesNotSayIsNotMadeUp) {
  const auto step = read<StepRecord>({{"event", "step"}, {"step", 3}, {"loss", nullptr}});
  EXPECT_EQ(step.step, 3);
  EXPECT_FALSE(step.loss.has_value());
  EXPECT_TRUE(std::isnan(or_nan(step.loss)));
  EXPECT_FALSE(read<EndRecord>({{"event", "run_end"}, {"status", "ok"}}).ops.has_value());
  EXPECT_EQ(read<StartRecord>({{"event", "run_start"}, {"colour", "blue"}}).ranks, 0);  // unknown: ignored
}

TEST(Records, ANumberThatIsNoneIsNull) {
  const json j = to_json(StepRecord{.step = 1, .grad_norm = INFINITY});
  EXPECT_EQ(json::parse(j.dump())["grad_norm"], nullptr);
  EXPECT_FALSE(j.contains("loss"));
}

TEST(Records, AnEventOfALaterVersionIsPassedOver) {
  const Record r = record_from_json({{"event", "weather"}, {"step", "x"}}, {"f", 1});
  EXPECT_EQ(event_of(r), "weather");
  EXPECT_EQ(event_of(record_from_json(7, {"f", 1})), "");
}

TEST(Records, ABrokenKeyIsOneErrorThatNamesFileLineAndKey) {
  const struct {
    json record;
    const char *key, *must;
  } cases[] = {
      {{{"event", "step"}, {"seconds", "x"}}, "'seconds': is \"x\"", "not a number"},
      {{{"event", "step"}, {"step", 1.5}}, "'step': is 1.5", "not a whole number"},
      {{{"event", "step"}, {"step", 1e300}}, "'step': is 1e+300", "not a whole number"},
      {{{"event", "step"}, {"skipped", 1}}, "'skipped': is 1", "not true or false"},
      {{{"event", "run_start"}, {"memory", {{"arena", "big"}}}}, "'memory.arena'", "not a whole number"},
      {{{"event", "run_start"}, {"spec", json::array()}}, "'spec': is []", "not an object"},
      {{{"event", "run_end"}, {"step_s", {{"p10", {1}}}}}, "'step_s.p10': is [1]", "not a number"},
      {{{"event", "run_end"}, {"ops", {json::object(), {{"path", 3}}}}}, "'ops[1].path': is 3", "not a text"},
      {{{"event", "valid"}, {"rmse", {0.1, "y"}}}, "'rmse': is \"y\"", "not a number"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.record.dump());
    try {
      record_from_json(c.record, {"run/result.jsonl", 7});
      ADD_FAILURE() << "was taken";
    } catch (const ConfigError& e) {
      const std::string what = e.what();
      EXPECT_NE(what.find("run/result.jsonl:7: "), std::string::npos) << what;
      EXPECT_NE(what.find(c.key), std::string::npos) << what;
      EXPECT_NE(what.find(c.must), std::string::npos) << what;
      EXPECT_NE(what.find(" -> "), std::string::npos) << what;
    }
    std::vector<std::string> problems;  // with problems collected, the rest of the record is read
    record_from_json(c.record, {"run/result.jsonl", 7, &problems});
    EXPECT_EQ(problems.size(), 1u);
  }
}

}  // namespace
}  // namespace isobar::records
