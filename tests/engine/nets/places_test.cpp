// Nets refuse data that lie elsewhere than their own grid, or than the data that they were trained on.
#include <gtest/gtest.h>
#include <netcdf.h>

#include <cstring>

#include "tests/engine/command.h"

namespace isobar {
namespace {

struct PlacedFields {
  std::vector<double> latitude, longitude;
  std::vector<std::string> names = {"a", "b", "c", "d", "e", "f"};
  double hours = 6;
};

std::vector<double> steps_from(double first, double step, size_t n) {
  std::vector<double> out;
  for (size_t i = 0; i < n; ++i) out.push_back(first + step * static_cast<double>(i));
  return out;
}

/// Fields of noise at 12 times
void write_placed(const std::string& path, const PlacedFields& at) {
  int nc = -1, dims[3], v = -1;
  ASSERT_EQ(nc_create(path.c_str(), NC_NETCDF4 | NC_CLOBBER, &nc), NC_NOERR);
  const auto axis = [&](int k, const char* name, const char* units, const std::vector<double>& values) {
    EXPECT_EQ(nc_def_dim(nc, name, values.size(), &dims[k]), NC_NOERR);
    EXPECT_EQ(nc_def_var(nc, name, NC_DOUBLE, 1, &dims[k], &v), NC_NOERR);
    EXPECT_EQ(nc_put_att_text(nc, v, "units", std::strlen(units), units), NC_NOERR);
    EXPECT_EQ(nc_put_var_double(nc, v, values.data()), NC_NOERR);
  };
  axis(0, "time", "hours since 2001-01-01", steps_from(0, at.hours, 12));
  axis(1, "latitude", "degrees_north", at.latitude);
  axis(2, "longitude", "degrees_east", at.longitude);
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  for (const std::string& name : at.names) {
    std::vector<float> values(12 * at.latitude.size() * at.longitude.size());
    for (float& x : values) x = normal(random);
    ASSERT_EQ(nc_def_var(nc, name.c_str(), NC_FLOAT, 3, dims, &v), NC_NOERR);
    ASSERT_EQ(nc_put_var_float(nc, v, values.data()), NC_NOERR);
  }
  ASSERT_EQ(nc_close(nc), NC_NOERR);
}

class Places : public testing::Test {
 protected:
  Ended train(const std::string& net, const PlacedFields& at) {
    const std::string data = dir_ / ("fields" + std::to_string(runs_) + ".nc");
    write_placed(data, at);
    Words words = {command(), "train", source_dir() + "/configs/models/" + net + ".yaml"};
    Words set = {"data.train=" + data, "train.global_batch=2", "train.steps=1", "run.threads=1",
                 "run.out=" + (dir_ / ("run" + std::to_string(runs_++)))};
    const Words own = net == "aurora-tiny" ? Words{"net.static_vars=[]", "net.in_channels=16"}
                                           : Words{"data.targets=[a,b]"};
    set.insert(set.end(), own.begin(), own.end());
    for (const std::string& one : set) words.insert(words.end(), {"--set", one});
    return Child(words).wait();
  }
  void refused(const std::string& net, const PlacedFields& at, const std::string& says) {
    const Ended e = train(net, at);
    EXPECT_EQ(e.code, 2) << e.text;
    EXPECT_NE(e.text.find(says), std::string::npos) << e.text;
  }
  void taken(const std::string& net, const PlacedFields& at) {
    const Ended e = train(net, at);
    EXPECT_EQ(e.code, 0) << e.text;
  }
  const Folder dir_;
  int runs_ = 0;
};

TEST_F(Places, OfARegionalGnnAreThoseOfItsRegions) {
  const std::string net = "regional-gnn-tiny";  // 52 to 44 N, 0 to 11 E
  taken(net, {steps_from(52, -1, 9), steps_from(0, 1, 12)});
  taken(net, {steps_from(44, 1, 9), steps_from(-360, 1, 12)});  // the south first
  refused(net, {steps_from(42, -1, 9), steps_from(0, 1, 12)}, "latitudes are 42 to 34, and those of the net");
  refused(net, {steps_from(52, -1, 9), steps_from(3, 1, 12)}, "longitudes are 3 to 14, and those of the net");
  refused(net, {steps_from(52, -0.5, 9), steps_from(0, 0.5, 12)}, "'net.north'");
}

TEST_F(Places, OfAGraphcastAreTheGlobeFromPoleToPole) {
  const std::string net = "graphcast-tiny";  // 7 x 12 points
  taken(net, {steps_from(90, -30, 7), steps_from(0, 30, 12)});
  taken(net, {steps_from(-90, 30, 7), steps_from(-180, 30, 12)});
  refused(net, {steps_from(75, -25, 7), steps_from(0, 30, 12)}, "latitudes are 75 to -75");
  refused(net, {steps_from(90, -30, 7), steps_from(0, 20, 12)}, "longitudes are 0 to 220");
  refused(net, {steps_from(90, -30, 7), steps_from(330, -30, 12)}, "longitudes are 330 to 0");
}

TEST_F(Places, HoursAndChannelsOfAnAuroraAreThoseOfTheNet) {
  const std::string net = "aurora-tiny";  // 60 to 53.5 N, 10 to 18.5 E, 6 hours ahead
  PlacedFields at{steps_from(60, -0.5, 14),
                  steps_from(10, 0.5, 18),
                  {"2t", "msl", "t100", "t500", "t850", "u100", "u500", "u850"}};
  taken(net, at);
  PlacedFields other = at;
  other.hours = 1;
  refused(net, other, "'net.lead_time': is 6 hours, and data.dt of these data 1");
  other = at;
  std::swap(other.names[2], other.names[4]);
  refused(net, other, "channel 2 of these data is t850[-1], and of the net t100[-1]");
  other = at;
  other.names[0] = "t2m", other.names[1] = "sp";  // names that the net does not know
  taken(net, other);
  other.latitude = steps_from(50, -0.5, 14);
  refused(net, other, "latitudes are 50 to 43.5");
}

/// A vit has no grid of its own: its checkpoint says where and how far ahead its data were.
class TrainedPlaces : public Places {
 protected:
  void SetUp() override {
    write_placed(dir_ / "train.nc", at_);
    const Ended e = train(dir_ / "train.nc", 1);
    ASSERT_EQ(e.code, 0) << e.text;
  }
  Ended train(const std::string& data, int64_t steps, const Words& more = {}) {
    return Child(train_words(tiny(),
                             {"data.train=" + data, "data.targets=[a,b]", "data.train_fraction=0.5",
                              "net.img_height=16", "net.img_width=16", "net.in_channels=6",
                              "net.out_channels=2", "train.global_batch=2", "train.checkpoint_every=1",
                              "train.steps=" + std::to_string(steps), "run.threads=1", "run.out=" + run_},
                             more))
        .wait();
  }
  Ended on(const PlacedFields& at, const Words& words) {
    write_placed(dir_ / "other.nc", at);
    return Child(Words{command()} + words + Words{dir_ / "other.nc"}).wait();
  }
  void everywhere_refused(const PlacedFields& at, const std::string& says) {
    const Words forecast = {"forecast", run_, "--force", "-o", dir_ / "f.nc", "--data"};
    for (const Words& words : {forecast, Words{"verify", run_, "--data"},
                               Words{"jacobian", run_, "--force", "-o", dir_ / "j.nc", "--data"}}) {
      const Ended e = on(at, words);
      EXPECT_EQ(e.code, 2) << e.text;
      EXPECT_NE(e.text.find(says), std::string::npos) << e.text;
    }
  }
  const PlacedFields at_{steps_from(60, -1, 16), steps_from(0, 1, 16)};
  const std::string run_ = dir_ / "trained";
};

TEST_F(TrainedPlaces, AreThoseOfForecasts) {
  PlacedFields other = at_;
  other.longitude = steps_from(-360, 1, 16);
  const Ended same = on(other, {"forecast", run_, "-o", dir_ / "f.nc", "--data"});
  EXPECT_EQ(same.code, 0) << same.text;
  other.longitude = steps_from(100, 1, 16);
  everywhere_refused(other, "longitudes are 100 to 115, and those of the net 0 to 15");
  other = at_, other.latitude = steps_from(45, 1, 16);  // the same rows, the south first
  other.hours = 6;
  const Ended turned = on(other, {"forecast", run_, "--force", "-o", dir_ / "f.nc", "--data"});
  EXPECT_EQ(turned.code, 0) << turned.text;
  other = at_, other.hours = 1;
  everywhere_refused(other, "'data.dt': is 1 hours in these data, and 6 in those of the net");
}

TEST_F(TrainedPlaces, AreThoseOfAClimatologyAndAResume) {
  PlacedFields other = at_;
  other.latitude = steps_from(30, -1, 16);
  const std::string says = "latitudes are 30 to 15, and those of the net 60 to 45";
  const Ended e = on(other, {"verify", run_, "--climatology"});
  EXPECT_EQ(e.code, 2) << e.text;
  EXPECT_NE(e.text.find(says), std::string::npos) << e.text;
  const Ended resumed = train(dir_ / "other.nc", 2, {"--resume", run_});
  EXPECT_EQ(resumed.code, 2) << resumed.text;
  EXPECT_NE(resumed.text.find(says), std::string::npos) << resumed.text;
  other = at_, other.hours = 1;  // a climatology of all hours
  const Ended hourly = on(other, {"verify", run_, "--climatology"});
  EXPECT_EQ(hourly.code, 0) << hourly.text;
}

// Files of HDF5 without coordinates tell the size of their grid, of which a net may read a part.
TEST(PlacesOfHdf5, AreTheSizeOfTheGrid) {
  const Folder dir;
  const auto make = [&](const std::string& name, int64_t rows) {
    const Ended e = Child({command(), "data", "make", dir / name, "--height", std::to_string(rows), "--width",
                           "32", "--channels", "4", "--samples-per-year", "6"})
                        .wait();
    EXPECT_EQ(e.code, 0) << e.text;
  };
  make("a", 17), make("b", 32), make("c", 16);
  const Ended trained =
      train_command({"data.train=" + (dir / "a/train"), "data.valid=" + (dir / "a/valid"),
                     "net.img_height=16", "net.img_width=32", "train.steps=1", "train.checkpoint_every=1",
                     "run.threads=1", "run.out=" + (dir / "run")});
  ASSERT_EQ(trained.code, 0) << trained.text;
  const auto forecast = [&](const std::string& set) {
    return Child({command(), "forecast", dir / "run", "--force", "-o", dir / "f.nc", "--data", dir / set})
        .wait();
  };
  for (const char* same : {"a/test", "c/test"}) {
    const Ended e = forecast(same);
    EXPECT_EQ(e.code, 0) << e.text;
  }
  const Ended other = forecast("b/test");
  EXPECT_EQ(other.code, 2) << other.text;
  EXPECT_NE(other.text.find("its grid of 32 x 32 is not that of the net's data, 17 x 32"), std::string::npos)
      << other.text;
}

}  // namespace
}  // namespace isobar
