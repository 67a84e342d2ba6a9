// Cases with the shapes of a given run.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/micro/cases.h"
#include "model/nets/build.h"
#include "model/plan/ops/op_table.h"
#include "perfmodel/step/shapes.h"
#include "tests/paths.h"

namespace isobar::micro {
namespace {

TEST(ShapeCases, TimeEveryOpOfARankOnceUnderTheNameThatPredictionsAskFor) {
  std::set<std::string> known, wanted, found;
  for (const int ranks : {1, 2}) {  // two ranks have halved shapes, and all-reduces, which are not timed
    const RunSpec spec = load_run_spec(source_dir() + "/configs/models/mlp-emulator.yaml",
                                       {"train.global_batch=128", "layout.dp=" + std::to_string(ranks)});
    for (const plan::Op& op : nets::build_plan(spec, 0, {}).ops)
      if (op.kind != plan::OpKind::fetch && !plan::is_collective(op.kind))
        wanted.insert(perf::case_name(op, "f32", 1));
    EXPECT_TRUE(register_shape_cases(spec, 1, known));
    EXPECT_FALSE(register_shape_cases(spec, 1, known));  // already known
    const nlohmann::json j = run_registered("shapes", false);
    for (const auto& b : j["benchmarks"])
      if (b["run_type"] == "iteration") {
        EXPECT_EQ(b["own_shape"], 1);
        EXPECT_GT(b["real_time"], 0);
        found.insert(
            b["run_name"].get<std::string>().substr(0, b["run_name"].get<std::string>().find("/iterations")));
      }
  }
  EXPECT_EQ(found, wanted);
  EXPECT_EQ(known, wanted);
}

}  // namespace
}  // namespace isobar::micro
