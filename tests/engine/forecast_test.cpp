// `isobar forecast`: the file holds what validation scored, in physical units, at the targets' places and
// times.
#include <gtest/gtest.h>
#include <netcdf.h>

#include <cmath>
#include <numbers>

#include "model/data/files/npz.h"
#include "model/data/synthetic/synth.h"
#include "tests/data/files.h"
#include "tests/engine/command.h"
#include "tests/paths.h"

namespace isobar::engine {
namespace {

Ended forecast(const Words& words) {
  Words all = {command(), "forecast"};
  all.insert(all.end(), words.begin(), words.end());
  return Child(all).wait();
}

std::vector<double> variable(const std::string& path, const std::string& name) {
  int nc = -1, id = -1, dims = 0, dim[NC_MAX_VAR_DIMS];
  EXPECT_EQ(nc_open(path.c_str(), NC_NOWRITE, &nc), NC_NOERR) << path;
  EXPECT_EQ(nc_inq_varid(nc, name.c_str(), &id), NC_NOERR) << name;
  nc_inq_varndims(nc, id, &dims);
  nc_inq_vardimid(nc, id, dim);
  size_t all = 1;
  for (int d = 0; d < dims; ++d) {
    size_t size = 0;
    nc_inq_dimlen(nc, dim[d], &size);
    all *= size;
  }
  std::vector<double> values(all, NAN);
  EXPECT_EQ(nc_get_var_double(nc, id, values.data()), NC_NOERR);
  nc_close(nc);
  return values;
}

json last_validation(const std::string& run) {
  json last;
  for (const json& e : read_run(run).events)
    if (e["event"] == "valid") last = e;
  return last;
}

// Trained under dp2 pp2 and forecast on one rank: each channel's RMSE from the file equals the validation's.
TEST(Forecast, HoldsInItsUnitsWhatTheValidationJudged) {
  const Folder dir;
  data::SyntheticOptions options;
  options.channels = 4, options.height = 32, options.width = 64, options.samples_per_year = 23;
  options.train_years = options.valid_years = 1;
  options.show_progress = false;
  data::make_synthetic(dir / "set", options);
  DataSpec data;
  data.train = dir / "set/train", data.valid = dir / "set/valid";
  data.targets = {"t2m", "u10", "sp"};
  const data::SampleShape shape({4, 32, 64}, {3, 32, 64});
  const auto valid = data::open_dataset(data, data.valid, data::Split::valid, shape);
  ASSERT_EQ(valid->size(), 23);  // five batches of 4 and one of 3
  for (const char* amp : {"none", "bf16"}) {
    const std::string run = dir / (std::string("run-") + amp), out = dir / (std::string(amp) + ".nc");
    const Ended trained =
        train_command({"data.train=" + data.train, "data.valid=" + data.valid, "data.targets=[t2m,u10,sp]",
                       "net.out_channels=3", "train.steps=10", "train.checkpoint_every=10", "train.lr=3e-3",
                       "run.threads=1", "run.out=" + run, std::string("policy.amp=") + amp, "layout.dp=2",
                       "layout.pp=2", "policy.micro_batch=2", "policy.zero=2"},
                      {"--ranks", "4"});
    ASSERT_EQ(trained.code, 0) << trained.text;
    const Ended e = forecast({run, "-o", out, "--json", "--batch", "5", "--threads", "1"});
    ASSERT_EQ(e.code, 0) << e.text;
    const json said = json::parse(e.text), judged = last_validation(run);
    EXPECT_EQ(said.at("samples"), 23);
    const double rounding = std::string(amp) == "bf16" ? 2e-3 : 1e-5;
    EXPECT_NEAR(said.at("loss").get<double>() / judged.at("loss").get<double>(), 1, rounding);
    std::vector<float> input(4 * 32 * 64), target(3 * 32 * 64);
    const data::Statistics s = valid->target_statistics();
    double weight[32], total = 0;
    for (int y = 0; y < 32; ++y)
      total += weight[y] = std::cos((90 - 180.0 * y / 31) * std::numbers::pi / 180);
    for (size_t c = 0; c < 3; ++c) {
      const std::vector<double> values = variable(out, data.targets[c]);
      ASSERT_EQ(values.size(), 23u * 32 * 64);
      double rmse = 0;
      for (int64_t i = 0; i < 23; ++i) {
        valid->read(i, input.data(), target.data());
        double sum = 0;
        for (int y = 0; y < 32; ++y)
          for (int x = 0; x < 64; ++x) {
            const double truth = static_cast<double>(target[(c * 32 + y) * 64 + x]) * s.std[c] + s.mean[c];
            const double off = values[(i * 32 + y) * 64 + x] - truth;
            sum += weight[y] / total * off * off / 64;
          }
        rmse += std::sqrt(sum) / 23;
      }
      const json& channel = said.at("channels").at(c);
      EXPECT_EQ(channel.at("name"), data.targets[c]);
      EXPECT_NEAR(rmse / channel.at("rmse").get<double>(), 1, 1e-4) << amp << " " << c;
      EXPECT_NEAR(channel.at("rmse_normalised").get<double>() / judged.at("rmse").at(c).get<double>(), 1,
                  rounding);
    }
  }
  // Other data, fewer samples, text output
  const Ended e =
      forecast({dir / "run-none", "-o", dir / "test.nc", "--data", dir / "set/train", "--samples", "3"});
  EXPECT_EQ(e.code, 0) << e.text;
  EXPECT_NE(e.text.find("samples     3 of " + (dir / "set/train")), std::string::npos) << e.text;
  EXPECT_EQ(variable(dir / "test.nc", "t2m").size(), 3u * 32 * 64);
  const Ended seen = Child({command(), "data", "inspect", dir / "test.nc"}).wait();
  EXPECT_EQ(seen.code, 0) << seen.text;
  EXPECT_NE(seen.text.find("32 rows x 64 columns, 3 channels"), std::string::npos) << seen.text;
}

// Rows are weighted by their file's latitudes in the metric, in persistence, and in a loss that requests it.
TEST(Forecast, ARegionIsWeighedByItsOwnLatitudes) {
  const Folder dir;
  const test::NetcdfOptions o{
      .steps = 20, .rows = 16, .columns = 24, .south_first = true};  // 65 to 50 degrees
  test::write_netcdf(dir / "era.nc", o, {test::random_packed(o)});
  const Ended trained =
      train_command({"data.train=" + (dir / "era.nc"), "data.train_fraction=0.5", "data.dt=2",
                     "net.in_channels=1", "net.out_channels=1", "net.img_height=16", "net.img_width=24",
                     "train.global_batch=4", "train.steps=2", "train.loss=mse", "train.latitude_weights=true",
                     "train.checkpoint_every=2", "run.threads=1", "layout.dp=2", "run.out=" + (dir / "run")},
                    {"--ranks", "2"});
  ASSERT_EQ(trained.code, 0) << trained.text;
  const Ended e = forecast({dir / "run", "-o", dir / "out.nc", "--json"});
  ASSERT_EQ(e.code, 0) << e.text;
  const json said = json::parse(e.text), judged = last_validation(dir / "run");
  const std::vector<double> packed = variable(dir / "era.nc", "t"), got = variable(dir / "out.nc", "t");
  const size_t points = 16 * 24;
  ASSERT_EQ(got.size(), 8 * points);
  double total = 0, rmse = 0, squares = 0, persistence = 0;
  for (int y = 0; y < 16; ++y) total += std::cos((50 + y) * std::numbers::pi / 180);
  for (size_t i = 0; i < 8; ++i) {
    double sum = 0, same = 0;
    for (size_t y = 0; y < 16; ++y)  // in file order, from the south
      for (size_t x = 0; x < 24; ++x) {
        const double weight = std::cos((50 + static_cast<double>(y)) * std::numbers::pi / 180) / total / 24;
        const auto truth = [&](size_t step) {
          return packed[step * points + y * 24 + x] * o.scale + o.offset;
        };
        sum += weight * std::pow(got[i * points + (15 - y) * 24 + x] - truth(12 + i), 2);
        same += weight * std::pow(truth(10 + i) - truth(12 + i), 2);
      }
    rmse += std::sqrt(sum) / 8, squares += sum / 8, persistence += std::sqrt(same) / 8;
  }
  const json& channel = said.at("channels").at(0);
  const double std = channel.at("rmse").get<double>() / channel.at("rmse_normalised").get<double>();
  EXPECT_NEAR(channel.at("rmse").get<double>() / rmse, 1, 1e-4);
  EXPECT_NEAR(said.at("loss").get<double>() * std * std / squares, 1, 1e-4);
  EXPECT_NEAR(judged.at("rmse").at(0).get<double>() * std / rmse, 1, 1e-4);
  EXPECT_NEAR(judged.at("loss").get<double>() * std * std / squares, 1, 1e-4);
  EXPECT_NEAR(judged.at("persistence_rmse").at(0).get<double>() * std / persistence, 1, 1e-4);
}

// For a regional net points are weighted equally, or by latitude if the loss is.
TEST(Forecast, ARegionsPointsCountAsItWasTrained) {
  const Folder dir;
  const test::NetcdfOptions o{
      .steps = 20, .rows = 16, .columns = 24, .south_first = true};  // 65 to 50 degrees
  test::write_netcdf(dir / "era.nc", o, {test::random_packed(o)});
  const std::vector<double> packed = variable(dir / "era.nc", "t");
  for (const char* weighted : {"true", "false"}) {
    const std::string out = dir / (std::string("run-") + weighted);
    const Ended trained =
        Child(train_words(source_dir() + "/configs/models/regional-gnn-tiny.yaml",
                          {"data.train=" + (dir / "era.nc"), "data.train_fraction=0.5", "data.dt=2",
                           "net.in_channels=1", "net.out_channels=1", "net.img_height=16", "net.img_width=24",
                           "net.north=65", "net.downstream=[51, 62, 4, 12]", "net.upstream=[50, 64, 0, 4]",
                           "net.boundary_longitude=4", "train.global_batch=4", "train.steps=2",
                           std::string("train.latitude_weights=") + weighted, "train.checkpoint_every=2",
                           "run.threads=1", "layout.cp=2", "run.out=" + out},
                          {"--ranks", "2"}))
            .wait();
    ASSERT_EQ(trained.code, 0) << trained.text;
    const Ended e = forecast({out, "-o", out + ".nc", "--json"});
    ASSERT_EQ(e.code, 0) << e.text;
    const json said = json::parse(e.text), judged = last_validation(out);
    const std::vector<double> got = variable(out + ".nc", "t");
    const size_t points = 16 * 24;
    double rmse = 0, squares = 0, persistence = 0;
    for (size_t i = 0; i < 8; ++i) {
      double sum = 0, same = 0, total = 0;
      for (size_t y = 1; y <= 12; ++y)  // in file order: 51 to 62 degrees
        for (size_t x = 4; x <= 12; ++x) {
          const double weight = weighted == std::string("true")
                                    ? std::cos((50 + static_cast<double>(y)) * std::numbers::pi / 180)
                                    : 1;
          const auto truth = [&](size_t step) {
            return packed[step * points + y * 24 + x] * o.scale + o.offset;
          };
          sum += weight * std::pow(got[i * points + (15 - y) * 24 + x] - truth(12 + i), 2);
          same += weight * std::pow(truth(10 + i) - truth(12 + i), 2);
          total += weight;
        }
      rmse += std::sqrt(sum / total) / 8, squares += sum / total / 8,
          persistence += std::sqrt(same / total) / 8;
    }
    const json& channel = said.at("channels").at(0);
    const double std = channel.at("rmse").get<double>() / channel.at("rmse_normalised").get<double>();
    EXPECT_NEAR(channel.at("rmse").get<double>() / rmse, 1, 1e-4) << weighted;
    EXPECT_NEAR(said.at("loss").get<double>() * std * std / squares, 1, 1e-4) << weighted;
    EXPECT_NEAR(judged.at("rmse").at(0).get<double>() * std / rmse, 1, 1e-4) << weighted;
    EXPECT_NEAR(judged.at("loss").get<double>() * std * std / squares, 1, 1e-4) << weighted;
    EXPECT_NEAR(judged.at("persistence_rmse").at(0).get<double>() * std / persistence, 1, 1e-4) << weighted;
  }
}

// Coordinates are those of the input file, times those of the targets.
TEST(Forecast, LiesWhereAndWhenTheTargetsDo) {
  const Folder dir;
  test::NetcdfOptions o{.steps = 20, .rows = 16, .columns = 24, .south_first = true};
  test::write_netcdf(dir / "era.nc", o, {test::random_packed(o)});
  const Ended trained = train_command(
      {"data.train=" + (dir / "era.nc"), "data.train_fraction=0.5", "data.dt=2", "net.in_channels=1",
       "net.out_channels=1", "net.img_height=16", "net.img_width=24", "train.global_batch=4", "train.steps=2",
       "train.checkpoint_every=2", "run.threads=1", "run.out=" + (dir / "run")});
  ASSERT_EQ(trained.code, 0) << trained.text;
  const Ended e = forecast({dir / "run", "-o", dir / "out.nc", "--json"});
  ASSERT_EQ(e.code, 0) << e.text;
  const std::vector<double> times = variable(dir / "era.nc", "time"), got = variable(dir / "out.nc", "time");
  ASSERT_EQ(got.size(), 8u);  // steps 10 to 19, two apart
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], times[12 + i]);
  std::vector<double> north = variable(dir / "era.nc", "latitude");
  std::reverse(north.begin(), north.end());
  EXPECT_EQ(variable(dir / "out.nc", "latitude"), north);
  EXPECT_EQ(variable(dir / "out.nc", "longitude"), variable(dir / "era.nc", "longitude"));
}

TEST(Forecast, OfATableHasARowForEach) {
  const Folder dir;
  std::mt19937_64 random(std::random_device{}());
  std::normal_distribution<double> normal(0, 1);
  std::ofstream file(dir / "t.csv");
  file << "a,b,flux 1,flux_1,time\n";
  std::vector<double> truth;
  for (int r = 0; r < 700; ++r) {
    const double a = normal(random), b = normal(random);
    truth.push_back(200 + 50 * a * b);
    file << a << "," << b << "," << truth.back() << "," << normal(random) << "," << normal(random) << "\n";
  }
  file.close();
  const Ended trained =
      Child(
          train_words(
              source_dir() + "/configs/models/mlp-emulator.yaml",
              {"data.train=" + (dir / "t.csv"), "data.inputs=[a, b]", "data.targets=[\"flux 1\",flux_1,time]",
               "net.out_features=3", "data.train_fraction=0.5", "net.in_features=2", "train.global_batch=64",
               "train.steps=30", "train.checkpoint_every=30", "run.threads=1", "run.out=" + (dir / "run")}))
          .wait();
  ASSERT_EQ(trained.code, 0) << trained.text;
  const Ended e = forecast({dir / "run", "-o", dir / "out.nc", "--json"});
  ASSERT_EQ(e.code, 0) << e.text;
  const std::vector<double> values = variable(dir / "out.nc", "flux_1");
  ASSERT_EQ(values.size(), 350u);
  double mae = 0;
  for (size_t r = 0; r < 350; ++r) mae += std::abs(values[r] - truth[350 + r]) / 350;
  for (const char* other : {"flux_1_", "time_"})
    EXPECT_EQ(variable(dir / "out.nc", other).size(), 350u) << other;
  const Ended arrays = forecast({dir / "run", "-o", dir / "out.npz"});
  ASSERT_EQ(arrays.code, 0) << arrays.text;
  const data::NpzFile npz(dir / "out.npz", "data.train");
  EXPECT_EQ(npz.names(), (std::vector<std::string>{"flux 1", "flux_1", "time"}));
  EXPECT_EQ(npz.read("flux 1").values, values);
  EXPECT_EQ(npz.read("time").values, variable(dir / "out.nc", "time_"));
  EXPECT_FALSE(fs::exists(dir / "out.npz.part"));
  const json channel = json::parse(e.text).at("channels").at(0);
  EXPECT_NEAR(mae / channel.at("mae").get<double>(), 1, 1e-3);  // the file has six digits
  EXPECT_NEAR(
      channel.at("mae_normalised").get<double>() / last_validation(dir / "run").at("mae").at(0).get<double>(),
      1, 1e-5);
}

TEST(Forecast, RefusesWhatItCannotDoInOneLine) {
  const Folder dir;
  const auto refused = [&](const Words& words, const std::string& says) {
    const Ended e = forecast(words);
    EXPECT_EQ(e.code, 2) << e.text;
    EXPECT_NE(e.text.find(says), std::string::npos) << e.text;
    EXPECT_EQ(std::count(e.text.begin(), e.text.end(), '\n'), 1) << e.text;
  };
  refused({dir / "nowhere", "-o", dir / "a.nc"}, "holds no checkpoint: there is no such");
  const Ended noise = train_command(
      {"train.steps=1", "train.checkpoint_every=1", "run.threads=1", "run.out=" + (dir / "noise")});
  ASSERT_EQ(noise.code, 0) << noise.text;
  refused({dir / "noise", "-o", dir / "a.nc"}, "'data.train': is empty: this net was trained on noise");
  data::SyntheticOptions options;
  options.channels = 4, options.height = 32, options.width = 64, options.samples_per_year = 10;
  options.train_years = options.valid_years = 1;
  options.show_progress = false;
  data::make_synthetic(dir / "set", options);
  const Ended good = train_command({"data.train=" + (dir / "set/train"), "train.steps=1",
                                    "train.checkpoint_every=1", "run.threads=1", "run.out=" + (dir / "run")});
  ASSERT_EQ(good.code, 0) << good.text;
  refused({dir / "run", "-o", dir / "a.nc"}, "name data: --data PATH");
  const std::string valid = dir / "set/valid";
  refused({dir / "run", "--data", valid, "-o", dir / "no/such/a.nc"}, "there is no folder");
  refused({dir / "run", "--data", valid, "--force", "-o", dir / "set"}, "is a folder");
  std::ofstream(dir / "there.nc") << "mine";
  refused({dir / "run", "--data", valid, "-o", dir / "there.nc"}, "is there already");
  EXPECT_EQ(text_of(dir / "there.nc"), "mine");
  const std::string weights = dir / "run/checkpoints/step-00000001/model.safetensors";
  std::string bytes = text_of(weights);
  bytes.back() ^= 1;
  std::ofstream(weights, std::ios::binary) << bytes;
  refused({dir / "run", "--data", valid, "-o", dir / "a.nc"}, "is damaged");
  EXPECT_FALSE(fs::exists(dir / "a.nc") || fs::exists(dir / "a.nc.part"));
}

}  // namespace
}  // namespace isobar::engine
