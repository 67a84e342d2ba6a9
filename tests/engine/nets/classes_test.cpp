// Classifiers through the real command: from synthetic classes to a CF file of classes, under several
// layouts; errors about classes name their cause; gradients with dropout against finite differences.
#include <gtest/gtest.h>
#include <netcdf.h>
#include <omp.h>

#include <cmath>

#include "model/data/synthetic/synth_classes.h"
#include "model/inference/arena.h"
#include "tests/engine/in_process.h"
#include "tests/engine/layouts.h"
#include "tests/paths.h"

namespace isobar::engine {
namespace {

const std::string kConfig = source_dir() + "/configs/models/mlp-classifier.yaml";

// 1003 rows: neither training nor validation comes out even. A rounding that moves a unit of relu over its
// kink turns its gradient on or off; gelu has none.
TestNet classifier_on(const std::string& dir) {
  return {kConfig,
          {"data.train=" + dir + "/train.nc", "data.valid=" + dir + "/valid.nc", "data.inputs=[x0..x39]",
           "net.in_features=40", "net.out_features=4", "net.hidden=[24,16,16]", "net.activation=gelu",
           "train.global_batch=48", "train.steps=60", "train.lr=5e-3", "train.valid_every=30",
           "train.checkpoint_every=60", "run.threads=1", "run.hang_timeout=60"}};
}

std::vector<float> floats_of(const std::string& path, const char* name, size_t count) {
  int file = -1, id = -1;
  std::vector<float> out(count);
  EXPECT_EQ(nc_open(path.c_str(), NC_NOWRITE, &file), NC_NOERR) << path;
  EXPECT_EQ(nc_inq_varid(file, name, &id), NC_NOERR) << name;
  EXPECT_EQ(nc_get_var_float(file, id, out.data()), NC_NOERR);
  nc_close(file);
  return out;
}

std::string text_of_attribute(const std::string& path, const char* name, const char* attribute) {
  int file = -1, id = -1;
  size_t length = 0;
  EXPECT_EQ(nc_open(path.c_str(), NC_NOWRITE, &file), NC_NOERR) << path;
  EXPECT_EQ(nc_inq_varid(file, name, &id), NC_NOERR) << name;
  EXPECT_EQ(nc_inq_attlen(file, id, attribute, &length), NC_NOERR) << attribute;
  std::string out(length, ' ');
  nc_get_att_text(file, id, attribute, out.data());
  nc_close(file);
  return out;
}

void set_meanings(const std::string& path, const std::string& meanings) {
  int file = -1, id = -1;
  ASSERT_EQ(nc_open(path.c_str(), NC_WRITE, &file), NC_NOERR) << path;
  ASSERT_EQ(nc_inq_varid(file, "label", &id), NC_NOERR);
  EXPECT_EQ(nc_put_att_text(file, id, "flag_meanings", meanings.size(), meanings.c_str()), NC_NOERR);
  nc_close(file);
}

TEST(Classifier, LearnsUnderEveryLayoutAlikeAndForecastsWhatItsValidationSays) {
  const Folder dir;
  data::make_classes(dir / "data",
                     {.samples = 1003, .features = 40, .classes = 4, .seed = std::random_device{}()});
  const TestNet net = classifier_on(dir / "data");
  const TrainedNet one = trained_to(dir / "one", {}, 1, 60, {}, net);
  const json valid = one.record.end.at("valid");
  const double accuracy = valid.at("accuracy"), baseline = valid.at("baseline_accuracy");
  EXPECT_FALSE(valid.contains("mae") || valid.contains("rmse")) << valid;
  EXPECT_LT(one.record.losses.at(60), one.record.losses.at(1)) << "nothing is learnt: nothing is tested";

  const std::vector<float> labels = floats_of(dir / "data/valid.nc", "label", 100);
  std::map<float, double> frequency;
  for (const float x : labels) frequency[x] += 0.01;
  double most = 0;
  for (const auto& [label, share] : frequency) most = std::max(most, share);
  EXPECT_NEAR(baseline, most, 1e-9) << "of all 100, not of whole batches";

  const Ended e = Child({command(), "forecast", dir / "one", "-o", dir / "classes.nc", "--json"}).wait();
  ASSERT_EQ(e.code, 0) << e.text;
  const json said = json::parse(e.text);
  EXPECT_NEAR(said.at("accuracy").get<double>(), accuracy, 1e-6);
  EXPECT_NEAR(said.at("loss").get<double>(), valid.at("loss").get<double>(), 2e-5);
  EXPECT_NEAR(said.at("baseline_accuracy").get<double>(), baseline, 1e-9);
  EXPECT_EQ(said.at("samples"), 100);
  const std::vector<float> classes = floats_of(dir / "classes.nc", "label", 100),
                           p = floats_of(dir / "classes.nc", "label_probability", 400);
  double right = 0, loss = 0;
  for (size_t r = 0; r < 100; ++r) {
    double sum = 0;
    for (size_t k = 0; k < 4; ++k) {
      sum += static_cast<double>(p[4 * r + k]);
      EXPECT_LE(p[4 * r + k], p[4 * r + static_cast<size_t>(classes[r])]);
    }
    EXPECT_NEAR(sum, 1, 1e-5);
    right += classes[r] == labels[r];
    loss -= std::log(static_cast<double>(p[4 * r + static_cast<size_t>(labels[r])]));
  }
  EXPECT_NEAR(right / 100, accuracy, 1e-6);
  EXPECT_NEAR(loss / 100, valid.at("loss").get<double>(), 2e-5);
  EXPECT_EQ(text_of_attribute(dir / "classes.nc", "label", "flag_meanings"),
            "pattern_0 pattern_1 pattern_2 pattern_3");

  fs::copy(dir / "data/valid.nc", dir / "other.nc");
  set_meanings(dir / "other.nc", "pattern_1 pattern_0 pattern_2 pattern_3");
  Words validated = net.set;
  validated.insert(validated.end(), {"data.valid=" + (dir / "other.nc"), "run.out=" + (dir / "other")});
  for (const Words& words :
       {Words{command(), "forecast", dir / "one", "-o", dir / "other-classes.nc", "--data", dir / "other.nc"},
        train_words(net.config, validated)}) {
    const Ended other = Child(words).wait();
    EXPECT_EQ(other.code, 2) << other.text;
    EXPECT_NE(other.text.find("pattern_1, pattern_0, pattern_2, pattern_3, and of the net with pattern_0, "),
              std::string::npos)
        << other.text;
  }

  Reordered reordered(one,
                      [&] { return trained_to(dir / "again", {"policy.micro_batch=6"}, 1, 60, {}, net); });
  int n = 0;
  for (const auto& [ranks, layout] :
       {std::pair<int64_t, Words>{2, {"layout.dp=2"}},
        {2, {"layout.pp=2", "policy.micro_batch=8", "policy.recompute=full"}},
        {4, {"layout.dp=2", "layout.pp=2", "policy.zero=2", "policy.micro_batch=12"}}}) {
    const TrainedNet other = trained_to(dir / std::to_string(++n), layout, ranks, 60, {}, net);
    reordered.expect_like_one(other, layout[0]);
    EXPECT_NEAR(other.record.end.at("valid").at("baseline_accuracy").get<double>(), baseline, 1e-9);
    EXPECT_NEAR(other.record.end.at("valid").at("loss").get<double>() / valid.at("loss").get<double>(), 1,
                1e-3);
  }
}

TEST(Classifier, WhatIsNoClassEndsTheRunByName) {
  const Folder dir;
  const auto table = [&](const char* name, const std::string& labels) {
    std::ofstream file(dir / name);
    file << "a,b,kind\n";
    std::istringstream words(labels);
    for (std::string word; words >> word;)
      file << word.size() << "," << 0.5 << "," << (word == "-" ? "" : word) << "\n";
    return dir / name;
  };
  const std::string good = table("good.csv", "0 1 2 0 1 2 0 1 2 0 1 2");
  const auto ends = [&](const std::string& train, const std::string& valid, const Words& more = {}) {
    Words set = {"data.train=" + train,
                 "data.inputs=[a,b]",
                 "data.targets=[kind]",
                 "net.in_features=2",
                 "net.out_features=3",
                 "net.hidden=[4]",
                 "train.steps=2",
                 "train.global_batch=4",
                 "train.valid_every=0",
                 "train.checkpoint_every=0",
                 "train.checkpoint_best=false",
                 "run.threads=1",
                 "data.valid=" + valid};
    set.insert(set.end(), more.begin(), more.end());
    return Child(train_words(kConfig, set)).wait();
  };
  const Ended fine = ends(good, good);
  EXPECT_EQ(fine.code, 0) << fine.text;
  EXPECT_NE(fine.text.find("WARNING    these channels hardly vary in the training data and are only centred, "
                           "not scaled: a, b"),
            std::string::npos)
      << fine.text;
  struct Case {
    std::string train, valid, file, says;
    Words more;
  };
  for (const Case& c :
       {Case{table("large.csv", "0 1 3 1 2 0"),
             good,
             "large.csv",
             "column 'kind' holds class 3, and classes are 0 to 2",
             {}},
        {table("negative.csv", "0 1 -1 1 2 0"), good, "negative.csv", "holds class -1", {}},
        {table("half.csv", "0 1 1.5 1 2 0"), good, "half.csv", "holds 1.5, which is no class", {}},
        {table("word.csv", "0 1 one 1 2 0"), good, "word.csv", "one", {}},
        {good, table("unknown.csv", "0 1 2 3"), "unknown.csv", "holds class 3", {}},
        {good, good, "good.csv", "holds class 2, and classes are 0 to 1", {"net.out_features=2"}},
        {table("none.csv", "- - - -"), good, "none.csv", "column 'kind' holds no number", {}}}) {
    for (const Words& ranks : {Words{}, Words{"layout.dp=2"}}) {
      const Ended e = ends(c.train, c.valid, c.more + ranks);
      EXPECT_EQ(e.code, 2) << e.text;
      for (const std::string& part : {c.file, c.says})
        EXPECT_NE(e.text.find(part), std::string::npos) << part << " is not in: " << e.text;
      EXPECT_EQ(std::count(e.text.begin(), e.text.end(), '\n'), 1) << "more than one line: " << e.text;
    }
  }
}

// d(loss)/d(weights) along a random direction; the step's number fixes what is dropped
TEST(Classifier, GradientsWithDropoutAreThoseOfFiniteDifferences) {
  const RunSpec spec = load_run_spec(
      kConfig,
      {"data.train=", "data.valid=", "data.inputs=", "data.targets=", "net.in_features=9",
       "net.out_features=5", "net.hidden=[12,7]", "net.activation=tanh", "net.dropout=0.4",
       "train.global_batch=24", "policy.micro_batch=8", "train.optimizer=sgd", "train.momentum=0",
       "train.lr=1e-30", "train.lr_schedule=constant", "train.valid_every=0", "train.checkpoint_every=0",
       "train.checkpoint_best=false", "train.seed=" + std::to_string(std::random_device{}() % 100000)});
  omp_set_num_threads(1);
  const plan::Plan plan = nets::build_plan(spec, 0, cpu_workspace(1));
  inference::Arena arena(plan.memory.arena);
  CpuBackend backend(plan, arena.data());
  Executor execute(plan, backend, nullptr);
  const auto floats = [&](const plan::View& v) { return reinterpret_cast<float*>(backend.at(v)); };
  inference::init_params(plan, static_cast<uint64_t>(spec.train.seed), floats(plan.params_all));
  const plan::Program step = plan::link(plan, plan.train), eval = plan::link(plan, plan.eval);
  const auto loss_at = [&](int64_t number, const plan::Program& program, float training) {
    backend.on_fetch([&](int32_t micro, const BatchPlaces& to) {
      for (int64_t b = 0; b < 8; ++b) {
        for (int64_t i = 0; i < 9; ++i) to.floats("input")[b * 9 + i] = normal(4, micro * 8 + b, i);
        to.floats("target")[b] = static_cast<float>((micro + b) % 5);
      }
    });
    float* scalars = floats(plan.scalars);
    scalars[plan::kLearningRate] = 0, scalars[plan::kStep] = static_cast<float>(number),
    scalars[plan::kUnscale] = 1;
    scalars[plan::kTraining] = training;
    execute(program, 0);
    return static_cast<double>(floats(plan.metrics)[0]);
  };
  const double dropped = loss_at(3, step, 1);
  EXPECT_EQ(loss_at(3, step, 1), dropped) << "the same step drops the same";
  EXPECT_NE(loss_at(4, step, 1), dropped) << "another step drops others";
  EXPECT_EQ(loss_at(3, eval, 0), loss_at(4, eval, 0)) << "a validation drops nothing";
  loss_at(3, step, 1);
  const int64_t count = plan.params_all.count;
  const std::vector<float> at(floats(plan.params_all), floats(plan.params_all) + count),
      gradient(floats(plan.grads_all), floats(plan.grads_all) + count);
  double slope = 0, size = 0;
  std::vector<float> direction(static_cast<size_t>(count), 0);
  for (const plan::Param& p : plan.params)
    for (int64_t i = p.offset; i < p.offset + p.count; ++i) {
      direction[i] = normal(5, static_cast<uint64_t>(spec.train.seed), static_cast<uint64_t>(i));
      slope += static_cast<double>(direction[i]) * static_cast<double>(gradient[i]);
      size += static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
    }
  constexpr double kEps = 3e-3;
  const auto moved = [&](double by) {
    for (int64_t i = 0; i < count; ++i)
      floats(plan.params_all)[i] =
          static_cast<float>(static_cast<double>(at[i]) + by * static_cast<double>(direction[i]));
    return loss_at(3, step, 1);
  };
  const double difference = (moved(kEps) - moved(-kEps)) / (2 * kEps);
  EXPECT_NEAR(difference, slope, 2e-3 * std::sqrt(size)) << "gradient of size " << std::sqrt(size);
}

}  // namespace
}  // namespace isobar::engine
