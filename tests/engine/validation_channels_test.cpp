// Validation data have the channels of data.train, by name and unit: others of the same number would be
// normalised by its means.
#include <gtest/gtest.h>
#include <netcdf.h>

#include "tests/engine/command.h"

namespace isobar {
namespace {

class ValidationChannels : public testing::Test {
 protected:
  void SetUp() override {
    const Ended made = Child({command(), "data", "make-archive", dir_ / "archive", "--steps", "12"}).wait();
    ASSERT_EQ(made.code, 0) << made.text;
    convert("train.nc", {"t2m", "u10"});
  }
  void convert(const std::string& name, const Words& variables) const {
    const Ended e = Child(Words{command(), "data", "convert", dir_ / "archive/single.nc", dir_ / name,
                                "--format", "netcdf4", "--variables"} +
                          variables)
                        .wait();
    ASSERT_EQ(e.code, 0) << e.text;
  }
  /// As train(), resumed with other training data
  Ended resumed(const std::string& data, int64_t steps, const std::string& from) const {
    Words words = {"--resume", from};
    if (from.empty()) words.clear();
    return train_command({"net.img_height=32", "net.img_width=64", "net.in_channels=2", "net.out_channels=2",
                          "train.global_batch=4", "train.steps=" + std::to_string(steps),
                          "train.checkpoint_every=1", "run.threads=1", "data.train=" + (dir_ / data),
                          "data.valid=" + (dir_ / data), "run.out=" + (dir_ / ("run-" + data))},
                         words);
  }
  void change(const std::string& file, const std::function<void(int nc, int v)>& to) const {
    int nc = -1, v = -1;
    ASSERT_EQ(nc_open((dir_ / file).c_str(), NC_WRITE, &nc), NC_NOERR);
    ASSERT_EQ(nc_redef(nc), NC_NOERR);
    ASSERT_EQ(nc_inq_varid(nc, "t2m", &v), NC_NOERR);
    to(nc, v);
    ASSERT_EQ(nc_close(nc), NC_NOERR);
  }
  Ended train(const std::string& valid) const {
    return train_command({"net.img_height=32", "net.img_width=64", "net.in_channels=2", "net.out_channels=2",
                          "train.global_batch=4", "train.steps=1", "train.valid_every=1", "run.threads=1",
                          "data.train=" + (dir_ / "train.nc"), "data.valid=" + (dir_ / valid),
                          "run.out=" + (dir_ / ("run-" + valid))});
  }
  const Folder dir_;
};

TEST_F(ValidationChannels, AreThoseOfTraining) {
  convert("same.nc", {"t2m", "u10"});
  const Ended same = train("same.nc");
  EXPECT_EQ(same.code, 0) << same.text;
  convert("turned.nc", {"u10", "t2m"});
  const Ended turned = train("turned.nc");
  EXPECT_EQ(turned.code, 2) << turned.text;
  EXPECT_NE(turned.text.find("channel 0 of these data is u10, and of the net t2m"), std::string::npos)
      << turned.text;
}

TEST_F(ValidationChannels, AreInTheUnitsOfTraining) {
  convert("other.nc", {"t2m", "u10"});
  int nc = -1, v = -1;
  ASSERT_EQ(nc_open((dir_ / "other.nc").c_str(), NC_WRITE, &nc), NC_NOERR);
  ASSERT_EQ(nc_redef(nc), NC_NOERR);
  ASSERT_EQ(nc_inq_varid(nc, "t2m", &v), NC_NOERR);
  ASSERT_EQ(nc_put_att_text(nc, v, "units", 4, "degC"), NC_NOERR);
  ASSERT_EQ(nc_close(nc), NC_NOERR);
  const Ended e = train("other.nc");
  EXPECT_EQ(e.code, 2) << e.text;
  EXPECT_NE(e.text.find("t2m in 'degC', and of the net in 'K'"), std::string::npos) << e.text;
}

TEST_F(ValidationChannels, LieOnTheGridOfTraining) {
  convert("south.nc", {"t2m", "u10"});
  convert("turned.nc", {"t2m", "u10"});
  const auto shift = [&](const std::string& file, const char* axis, double by) {
    int nc = -1, v = -1, dim = -1;
    size_t n = 0;
    ASSERT_EQ(nc_open((dir_ / file).c_str(), NC_WRITE, &nc), NC_NOERR);
    ASSERT_EQ(nc_inq_varid(nc, axis, &v), NC_NOERR);
    ASSERT_EQ(nc_inq_vardimid(nc, v, &dim), NC_NOERR);
    ASSERT_EQ(nc_inq_dimlen(nc, dim, &n), NC_NOERR);
    std::vector<double> values(n);
    ASSERT_EQ(nc_get_var_double(nc, v, values.data()), NC_NOERR);
    for (double& x : values) x += by;
    ASSERT_EQ(nc_put_var_double(nc, v, values.data()), NC_NOERR);
    ASSERT_EQ(nc_close(nc), NC_NOERR);
  };
  shift("south.nc", "latitude", -0.5);
  const Ended south = train("south.nc");
  EXPECT_EQ(south.code, 2) << south.text;
  EXPECT_NE(south.text.find("'data': its latitudes are"), std::string::npos) << south.text;
  shift("turned.nc", "longitude", -360);
  EXPECT_EQ(train("turned.nc").code, 0);
}

TEST_F(ValidationChannels, AreAsFarAheadAsInTraining) {
  convert("later.nc", {"t2m", "u10"});  // steps of 6 hours, as in train.nc
  int nc = -1, v = -1;
  double hours[12];
  ASSERT_EQ(nc_open((dir_ / "later.nc").c_str(), NC_WRITE, &nc), NC_NOERR);
  ASSERT_EQ(nc_inq_varid(nc, "time", &v), NC_NOERR);
  ASSERT_EQ(nc_get_var_double(nc, v, hours), NC_NOERR);
  const double sixth = (hours[1] - hours[0]) / 6;
  for (int t = 1; t < 12; ++t) hours[t] = hours[0] + t * sixth;
  ASSERT_EQ(nc_put_var_double(nc, v, hours), NC_NOERR);
  ASSERT_EQ(nc_close(nc), NC_NOERR);
  const Ended e = train("later.nc");
  EXPECT_EQ(e.code, 2) << e.text;
  EXPECT_NE(e.text.find("'data.dt': is 1 hours in these data, and 6 in"), std::string::npos) << e.text;
}

TEST_F(ValidationChannels, OfAResumeAreThoseOfTheCheckpoint) {
  ASSERT_EQ(resumed("train.nc", 1, "").code, 0);
  for (const char* file : {"moved.nc", "celsius.nc", "warmer.nc"}) convert(file, {"t2m", "u10"});
  const std::string from = dir_ / "run-train.nc";
  const Ended moved = resumed("moved.nc", 2, from);
  EXPECT_EQ(moved.code, 0) << moved.text;
  EXPECT_EQ(moved.text.find("other data?"), std::string::npos) << moved.text;
  change("celsius.nc", [](int nc, int v) { nc_put_att_text(nc, v, "units", 4, "degC"); });
  const Ended celsius = resumed("celsius.nc", 2, from);
  EXPECT_EQ(celsius.code, 2) << celsius.text;
  EXPECT_NE(celsius.text.find("t2m in 'degC', and of the net in 'K'"), std::string::npos) << celsius.text;
  change("warmer.nc", [](int nc, int v) {
    std::vector<float> values(12 * 32 * 64);
    nc_enddef(nc);
    ASSERT_EQ(nc_get_var_float(nc, v, values.data()), NC_NOERR);
    for (float& x : values) x += 40;
    ASSERT_EQ(nc_put_var_float(nc, v, values.data()), NC_NOERR);
  });
  const Ended warmer = resumed("warmer.nc", 2, from);
  EXPECT_EQ(warmer.code, 0) << warmer.text;
  EXPECT_NE(warmer.text.find("t2m has mean"), std::string::npos) << warmer.text;
}

TEST_F(ValidationChannels, OfATableOfPointsAreInTheUnitsOfTraining) {
  convert("same.nc", {"t2m", "u10"}), convert("other.nc", {"t2m", "u10"});
  change("other.nc", [](int nc, int v) { nc_put_att_text(nc, v, "units", 4, "degC"); });
  const auto points = [&](const std::string& valid) {
    Words words = {command(), "train", source_dir() + "/configs/models/mlp-emulator.yaml"};
    for (const std::string& set :
         Words{"data.train=" + (dir_ / "train.nc"), "data.valid=" + (dir_ / valid), "data.inputs=[t2m]",
               "data.targets=[u10]", "net.in_features=1", "net.out_features=1", "train.steps=1",
               "train.valid_every=1", "run.threads=1", "run.out=" + (dir_ / ("points-" + valid))})
      words.insert(words.end(), {"--set", set});
    return Child(words).wait();
  };
  const Ended same = points("same.nc");
  EXPECT_EQ(same.code, 0) << same.text;
  const Ended other = points("other.nc");
  EXPECT_EQ(other.code, 2) << other.text;
  EXPECT_NE(other.text.find("t2m in 'degC', and of the net in 'K'"), std::string::npos) << other.text;
}

}  // namespace
}  // namespace isobar
