// Aurora on an archive of surface, upper-air and static fields: it trains through a roll-out, and `isobar
// forecast --steps` writes every variable and level by lead time, consistent with the run's own validation.
#include <gtest/gtest.h>
#include <netcdf.h>

#include <cmath>
#include <numbers>

#include "tests/engine/command.h"
#include "tests/paths.h"
#include "tests/worst.h"

namespace isobar::engine {
namespace {

constexpr size_t kTimes = 60, kLevels = 3, kRows = 14, kColumns = 18, kFields = 8;
constexpr double kTrained = 40;
const std::string kNames[] = {"t2m", "msl", "t100", "t500", "t900", "u100", "u500", "u900"};

// Eastward waves; each field has its own scale
double field(size_t c, size_t t, size_t y, size_t x) {
  const double turn =
      2 * std::numbers::pi *
      (static_cast<double>(t) / 12 + (1 + static_cast<double>(c % 3)) * static_cast<double>(x) / 20);
  return 10.0 * static_cast<double>(c) + (1 + static_cast<double>(c)) * std::sin(turn) +
         0.3 * static_cast<double>(y);
}

void must(int status) {
  ASSERT_EQ(status, NC_NOERR) << nc_strerror(status);
}

class AuroraForecast : public testing::Test {
 protected:
  void SetUp() override {
    int nc = -1, dims[4], id = -1;
    must(nc_create((dir_ / "era.nc").c_str(), NC_NETCDF4, &nc));
    must(nc_def_dim(nc, "time", kTimes, &dims[0]));
    must(nc_def_dim(nc, "level", kLevels, &dims[1]));
    must(nc_def_dim(nc, "latitude", kRows, &dims[2]));
    must(nc_def_dim(nc, "longitude", kColumns, &dims[3]));
    const auto axis = [&](const char* name, int dim, const char* units, size_t n, double first, double by) {
      must(nc_def_var(nc, name, NC_DOUBLE, 1, &dim, &id));
      must(nc_put_att_text(nc, id, "units", std::strlen(units), units));
      std::vector<double> values;
      for (size_t i = 0; i < n; ++i) values.push_back(first + by * static_cast<double>(i));
      must(nc_put_var_double(nc, id, values.data()));
    };
    axis("time", dims[0], "hours since 2019-03-01", kTimes, 0, 6);
    axis("level", dims[1], "hPa", kLevels, 100, 400);
    axis("latitude", dims[2], "degrees_north", kRows, 60, -0.5);
    axis("longitude", dims[3], "degrees_east", kColumns, 10, 0.5);
    const int flat[3] = {dims[0], dims[2], dims[3]};
    size_t c = 0;
    for (const char* name : {"t2m", "msl", "t", "u"}) {
      const bool upper = std::strlen(name) == 1;
      must(nc_def_var(nc, name, NC_FLOAT, upper ? 4 : 3, upper ? dims : flat, &id));
      std::vector<float> values;
      for (size_t t = 0; t < kTimes; ++t)
        for (size_t k = 0; k < (upper ? kLevels : 1); ++k)
          for (size_t y = 0; y < kRows; ++y)
            for (size_t x = 0; x < kColumns; ++x) values.push_back(static_cast<float>(field(c + k, t, y, x)));
      must(nc_put_var_float(nc, id, values.data()));
      c += upper ? kLevels : 1;
    }
    must(nc_def_var(nc, "lsm", NC_FLOAT, 2, &dims[2], &id));
    std::vector<float> land(kRows * kColumns);
    for (size_t i = 0; i < land.size(); ++i) land[i] = static_cast<float>(i % 5 == 0);
    must(nc_put_var_float(nc, id, land.data()));
    must(nc_close(nc));
  }
  Ended train(const Words& more) const {
    const Words words = {"data.train=" + (dir_ / "era.nc"),
                         "data.train_fraction=" + std::to_string(kTrained / kTimes),
                         "data.static_fields=[lsm]",
                         "net.levels=[100,500,900]",
                         "train.global_batch=2",
                         "train.steps=30",
                         "train.checkpoint_every=30",
                         "train.valid_every=30",
                         "run.threads=1",
                         "run.out=" + (dir_ / "run")};
    return Child(train_words(source_dir() + "/configs/models/aurora-tiny.yaml", words + more)).wait();
  }
  Ended forecast(const Words& more) const {
    return Child(Words{command(), "forecast", dir_ / "run", "--threads", "1", "--json"} + more).wait();
  }
  std::vector<double> read(const std::string& file, const char* name, size_t wanted) const {
    int nc = -1, id = -1;
    std::vector<double> values(wanted, NAN);
    must(nc_open((dir_ / file).c_str(), NC_NOWRITE, &nc));
    must(nc_inq_varid(nc, name, &id));
    int dims = 0, dim[NC_MAX_VAR_DIMS];
    nc_inq_varndims(nc, id, &dims);
    nc_inq_vardimid(nc, id, dim);
    size_t all = 1, size = 0;
    for (int d = 0; d < dims; ++d) nc_inq_dimlen(nc, dim[d], &size), all *= size;
    EXPECT_EQ(all, wanted) << name;
    if (all == wanted) must(nc_get_var_double(nc, id, values.data()));
    nc_close(nc);
    return values;
  }
  const Folder dir_;
};

TEST_F(AuroraForecast, WritesAllVariablesAndLevelsByLeadTime) {
  const Ended trained = train({"train.rollout=2"});
  ASSERT_EQ(trained.code, 0) << trained.text;
  const WrittenRun log = read_run(dir_ / "run");
  EXPECT_LT(log.losses.rbegin()->second, 0.85 * log.losses.begin()->second)
      << "the loss, absolute errors, falls";

  // Two of the last 20 times are read, and three are predicted
  const size_t steps = 3, samples = 20 - 1 - steps;
  const Ended rolled = forecast({"-o", dir_ / "days.nc", "--steps", "3", "--batch", "5"});
  ASSERT_EQ(rolled.code, 0) << rolled.text;
  const json said = json::parse(rolled.text);
  EXPECT_EQ(said.at("samples"), samples);
  const std::vector<double> lead = read("days.nc", "step", steps), time = read("days.nc", "time", samples);
  for (size_t k = 0; k < steps; ++k) EXPECT_EQ(lead[k], 6.0 * static_cast<double>(k + 1));
  double weights[kRows], total = 0;
  for (size_t y = 0; y < kRows; ++y)
    total += weights[y] = std::cos((60 - 0.5 * static_cast<double>(y)) * std::numbers::pi / 180);
  double off = 0;
  for (size_t c = 0; c < kFields; ++c) {
    const std::vector<double> values = read("days.nc", kNames[c].c_str(), samples * steps * kRows * kColumns);
    for (size_t k = 0; k < steps; ++k) {
      double rmse = 0;
      for (size_t i = 0; i < samples; ++i) {
        double squares = 0;
        for (size_t y = 0; y < kRows; ++y)
          for (size_t x = 0; x < kColumns; ++x) {
            const double e = values[((i * steps + k) * kRows + y) * kColumns + x] -
                             static_cast<double>(static_cast<float>(field(c, 42 + i + k, y, x)));
            squares += weights[y] / total * e * e / kColumns;
          }
        rmse += std::sqrt(squares) / samples;
      }
      const json& target = said.at("steps").at(k).at("channels").at(c);
      EXPECT_EQ(target.at("name"), kNames[c]);
      off = worst(off, std::abs(rmse / target.at("rmse").get<double>() - 1));
    }
  }
  EXPECT_LE(off, 1e-4);
  EXPECT_EQ(time.at(0), 17956.0 * 24 + 41 * 6);  // days from 1970 to 2019-03-01; the newest input

  // The first lead equals a forecast of one step; the first two leads average to the run's validation.
  const Ended one = forecast({"-o", dir_ / "one.nc"});
  ASSERT_EQ(one.code, 0) << one.text;
  const std::vector<double> first = read("one.nc", "u900", (samples + 2) * kRows * kColumns),
                            rolling = read("days.nc", "u900", samples * steps * kRows * kColumns);
  for (size_t i = 0; i < samples; ++i)
    for (size_t p = 0; p < kRows * kColumns; ++p)
      ASSERT_NEAR(rolling[i * steps * kRows * kColumns + p], first[i * kRows * kColumns + p], 1e-4);
  const Ended two = forecast({"-o", dir_ / "two.nc", "--steps", "2"});
  ASSERT_EQ(two.code, 0) << two.text;
  json last;
  for (const json& e : log.events)
    if (e["event"] == "valid") last = e;
  const json both = json::parse(two.text).at("steps");
  double judged = 0;
  for (size_t c = 0; c < kFields; ++c) {
    const double mean = (both.at(0).at("channels").at(c).at("rmse_normalised").get<double>() +
                         both.at(1).at("channels").at(c).at("rmse_normalised").get<double>()) /
                        2;
    judged = worst(judged, std::abs(mean / last.at("rmse").at(c).get<double>() - 1));
  }
  EXPECT_LE(judged, 1e-5);
}

TEST_F(AuroraForecast, RefusesWhatItWouldIgnore) {
  const auto refused = [&](const Words& more, const std::string& text) {
    const Ended e = train(more);
    EXPECT_EQ(e.code, 2) << e.text;
    EXPECT_NE(e.text.find(text), std::string::npos) << e.text;
  };
  refused({"data.forcings=[time_of_day]"}, "data.forcings");
  refused({"data.history=2"}, "data.history");
  refused({"train.prediction=increment"}, "train.prediction");
  refused({"data.static_fields=[]"}, "data.targets");
}

}  // namespace
}  // namespace isobar::engine
