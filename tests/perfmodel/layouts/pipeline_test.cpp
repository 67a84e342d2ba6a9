#include "perfmodel/step/simulate.h"

#include <gtest/gtest.h>

#include "perfmodel/ask/predict.h"
#include "perfmodel/fitting/statistics.h"
#include "perfmodel/step/cost.h"
#include "tests/perfmodel/support.h"

namespace isobar::perf {
namespace {

RunSpec piped(int64_t p, int64_t m, int64_t v, PipelineSchedule schedule) {
  RunSpec s = test::tiny();
  s.net.vit().depth = 16;
  s.layout.pp = p;
  s.layout.vpp = v;
  s.policy.schedule = v > 1 ? PipelineSchedule::interleaved : schedule;
  s.train.global_batch = m;
  s.policy.micro_batch = 1;
  validate(s);
  return s;
}

// The closed form assumes equal virtual stages and transfers shorter than a micro-batch; the bound is its
// error with embedding and head at the ends and random prices.
TEST(Pipeline, ClosedFormAgreesWithReplay) {
  std::mt19937_64 random(31);
  std::vector<double> gaps;
  for (const int64_t p : {1, 2, 4})
    for (const int64_t m : {4, 8})
      for (const int64_t v : {1, 2})
        for (const int64_t tp : {1, 2})
          for (const PipelineSchedule schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b})
            for (const bool serial : {false, true}) {
              if (p == 1 && v > 1) continue;
              RunSpec s = piped(p, m, v, schedule);
              s.layout.tp = tp;
              s.policy.sequence_parallel = tp > 1 && m == 8;
              s.run.serial = serial;
              validate(s);
              const Machine machine = test::perturbed(test::machine(), 0.3, random);
              const double fast = test::closed(s, machine), full = test::replay(s, machine).step_s;
              gaps.push_back(std::abs(fast / full - 1));
              EXPECT_LT(gaps.back(), 0.10) << "pp " << p << " m " << m << " v " << v << " tp " << tp << " "
                                           << name_of(s.policy.schedule) << (serial ? " serial" : "")
                                           << "\nclosed " << fast << " replay " << full;
            }
  EXPECT_LT(quantile(gaps, 0.5), 0.03);
}

TEST(Pipeline, TensorAndContextParallelAgreeWithReplay) {
  std::mt19937_64 random(32);
  for (const auto& [tp, cp, dp] :
       {std::array{2, 1, 1}, {2, 1, 2}, {1, 2, 1}, {1, 4, 2}, {2, 2, 2}, {4, 1, 1}})
    for (const bool sequence : {false, true})
      for (const Amp amp : {Amp::none, Amp::bf16}) {
        RunSpec s = test::tiny();
        s.layout.tp = tp, s.layout.cp = cp, s.layout.dp = dp;
        s.policy.sequence_parallel = sequence;
        s.policy.amp = amp;
        s.policy.micro_batch = 2;
        validate(s);
        const Machine m = test::perturbed(test::machine(), 0.5, random);
        EXPECT_NEAR(test::closed(s, m) / test::replay(s, m).step_s, 1, 0.10)
            << "tp " << tp << " cp " << cp << " dp " << dp << " sequence " << sequence;
      }
}

// Equal ops, negligible transfers: the bubble of Huang 2019 and Narayanan 2019.
TEST(Pipeline, BubbleOfTheReplayIsThatOfThePapers) {
  Machine m = test::machine();
  for (size_t i = 0; i < kCoefs; ++i) m.coefficients[i].value = 0;
  m[Coef::op].value = 1e-3;
  m.identity.cores = 4;  // one a rank, without time-sharing
  for (const PipelineSchedule schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b})
    for (const int64_t p : {2, 4})
      for (const int64_t micro : {4, 8}) {
        RunSpec s = piped(p, micro, 1, schedule);
        s.net.vit().depth = 64;  // embedding, head and optimizer weigh little
        double busiest = 0;      // seconds of compute
        for (const nets::StageProgram& stage : nets::stages_of(s, {})) {
          double own = 0;
          for (const plan::Instr& i : stage.program.instrs)
            own += plan::is_collective(stage.plan.ops[i.op].kind) ? 0 : 1e-3;
          busiest = std::max(busiest, own);
        }
        const double bubble = test::replay(s, m).step_s / busiest - 1;
        const double ideal = static_cast<double>(p - 1) / static_cast<double>(micro);
        EXPECT_NEAR(bubble, ideal, 0.06 * ideal + 0.01) << name_of(schedule) << " p " << p << " m " << micro;
      }
}

TEST(Pipeline, BubbleIsALineOfThePredictionAndMemoryThatOfTheFullestStage) {
  const RunSpec s = piped(4, 8, 1, PipelineSchedule::one_f_one_b);
  const Prediction p = predict(s, test::machine(), {});
  double sum = 0;
  bool named = false;
  for (const Term& t : p.terms) {
    sum += t.seconds;
    named |= t.name == "pipeline bubble";
  }
  EXPECT_TRUE(named);
  EXPECT_NEAR(sum, p.step_s, 1e-9 * p.step_s);
  int64_t most = 0;
  for (int rank = 0; rank < 4; ++rank) most = std::max(most, nets::build_plan(s, rank, {}).memory.total());
  EXPECT_EQ(p.memory_total, most + static_cast<int64_t>(test::machine()[Coef::process].value));
}

TEST(Pipeline, ReplayHoldsEveryRanksSpansAndTransfersEndTogether) {
  const RunSpec s = piped(2, 4, 1, PipelineSchedule::one_f_one_b);
  const std::vector<nets::StageProgram> stages = nets::stages_of(s, {});
  const Replay r = test::replay(s, test::machine());
  size_t instrs = 0;
  for (const nets::StageProgram& stage : stages) instrs += stage.program.instrs.size();
  EXPECT_EQ(r.timeline.spans.size(), instrs);
  EXPECT_EQ(r.timeline.steps.size(), 2U);
  std::map<std::pair<plan::Lane, int>, std::vector<int64_t>> ends;  // of transfers, by lane and micro-batch
  for (const trace::Span& span : r.timeline.spans) {
    const plan::Lane l = span.lane;
    if (l == plan::Lane::send_forward || l == plan::Lane::recv_forward)
      ends[{plan::Lane::send_forward, span.micro}].push_back(span.end_ns);
    if (l == plan::Lane::send_backward || l == plan::Lane::recv_backward)
      ends[{plan::Lane::send_backward, span.micro}].push_back(span.end_ns);
  }
  EXPECT_EQ(ends.size(), 8U);
  for (const auto& [which, both] : ends) {
    ASSERT_EQ(both.size(), 2U);
    EXPECT_EQ(both[0], both[1]);
  }
}

}  // namespace
}  // namespace isobar::perf
