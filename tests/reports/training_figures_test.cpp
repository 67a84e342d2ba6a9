// Training curves against the records that they are drawn from.
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>

#include "reports/figures/figures.h"

namespace isobar::report {
namespace {

using nlohmann::json;

const Figure* figure(const std::vector<Figure>& all, const std::string& id) {
  for (const Figure& f : all)
    if (f.id == id) return &f;
  return nullptr;
}

// The values of a curve by step
std::map<int64_t, double> points_of(const std::vector<Figure>& all, const std::string& id,
                                    const std::string& what) {
  std::map<int64_t, double> out;
  const Figure* f = figure(all, id);
  if (f == nullptr) return out;
  for (const json& row : f->spec["data"]["values"])
    if (row["what"] == what) out[row["step"]] = row["value"];
  return out;
}

ReportData one_run(ReportRun run) {
  ReportData d;
  d.sets = {"only"};
  run.set = run.label = "only";
  d.runs.push_back(std::move(run));
  return d;
}

TEST(TrainingFigures, NormAndConditionOfTheJacobianAreTheRecords) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<double> number(0.5, 5);
  ReportRun run;
  std::map<int64_t, double> norms, conditions;
  for (int64_t step = 10; step <= 100; step += 10) {
    records::ValidRecord v{.step = step, .loss = number(rng)};
    if (step > 20) {  // tracked only from here on, as in a resumed run
      v.jacobian = records::JacobianRecord{.samples = 8, .frobenius = number(rng)};
      norms[step] = v.jacobian->frobenius;
      if (rng() % 2 == 0 || step == 30) conditions[step] = *(v.jacobian->condition = number(rng));
    }
    run.run.valid.push_back(v);
  }
  const auto figures = training_figures(one_run(run));
  EXPECT_EQ(points_of(figures, "jacobian-norm", "Frobenius norm"), norms);
  EXPECT_EQ(points_of(figures, "jacobian-condition", "condition number"), conditions);
  EXPECT_EQ(points_of(figures, "training-loss", "validation").size(), 10u);
  EXPECT_EQ(figure(figures, "accuracy"), nullptr);
}

TEST(TrainingFigures, AccuracyHasTheCurvesOfStepsAndOfValidation) {
  ReportRun run;
  for (int64_t step = 1; step <= 40; ++step)
    run.run.steps.push_back({.step = step, .seconds = 1, .accuracy = 0.01 * static_cast<double>(step)});
  run.run.valid.push_back({.step = 20, .accuracy = 0.5, .baseline_accuracy = 0.125});
  run.run.valid.push_back({.step = 40, .accuracy = std::numeric_limits<double>::quiet_NaN()});
  const auto figures = training_figures(one_run(run));
  const auto training = points_of(figures, "accuracy", "training");
  ASSERT_EQ(training.size(), 40u);
  EXPECT_EQ(training.at(7), 0.07);
  EXPECT_EQ(points_of(figures, "accuracy", "validation"), (std::map<int64_t, double>{{20, 0.5}}));
  EXPECT_EQ(points_of(figures, "accuracy", "most frequent class"), (std::map<int64_t, double>{{20, 0.125}}));
  EXPECT_EQ(figure(figures, "jacobian-norm"), nullptr);
  EXPECT_EQ(figure(figures, "jacobian-condition"), nullptr);
  EXPECT_EQ(figure(figures, "perplexity"), nullptr);
}

TEST(TrainingFigures, PerplexityHasTheCurveOfValidation) {
  ReportRun run;
  run.run.steps.push_back({.step = 1, .seconds = 1, .loss = 3.0});
  run.run.valid.push_back({.step = 20, .loss = 3.0, .perplexity = 20.0});
  run.run.valid.push_back({.step = 40, .loss = 2.5, .perplexity = 12.0});
  EXPECT_EQ(points_of(training_figures(one_run(run)), "perplexity", "validation"),
            (std::map<int64_t, double>{{20, 20.0}, {40, 12.0}}));
}

}  // namespace
}  // namespace isobar::report
