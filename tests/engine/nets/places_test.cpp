// Nets that compute distances and positions on a grid of their own refuse data that lie elsewhere.
#include <gtest/gtest.h>
#include <netcdf.h>

#include <cstring>

#include "tests/engine/command.h"

namespace isobar {
namespace {

struct PlacedFields {
  std::vector<double> latitude, longitude;
};

std::vector<double> steps_from(double first, double step, size_t n) {
  std::vector<double> out;
  for (size_t i = 0; i < n; ++i) out.push_back(first + step * static_cast<double>(i));
  return out;
}

/// Six fields of noise at 12 times
void write_placed(const std::string& path, const PlacedFields& at) {
  int nc = -1, dims[3], v = -1;
  ASSERT_EQ(nc_create(path.c_str(), NC_NETCDF4 | NC_CLOBBER, &nc), NC_NOERR);
  const auto axis = [&](int k, const char* name, const char* units, const std::vector<double>& values) {
    EXPECT_EQ(nc_def_dim(nc, name, values.size(), &dims[k]), NC_NOERR);
    EXPECT_EQ(nc_def_var(nc, name, NC_DOUBLE, 1, &dims[k], &v), NC_NOERR);
    EXPECT_EQ(nc_put_att_text(nc, v, "units", std::strlen(units), units), NC_NOERR);
    EXPECT_EQ(nc_put_var_double(nc, v, values.data()), NC_NOERR);
  };
  axis(0, "time", "hours since 2001-01-01", steps_from(0, 6, 12));
  axis(1, "latitude", "degrees_north", at.latitude);
  axis(2, "longitude", "degrees_east", at.longitude);
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    std::vector<float> values(12 * at.latitude.size() * at.longitude.size());
    for (float& x : values) x = normal(random);
    ASSERT_EQ(nc_def_var(nc, name, NC_FLOAT, 3, dims, &v), NC_NOERR);
    ASSERT_EQ(nc_put_var_float(nc, v, values.data()), NC_NOERR);
  }
  ASSERT_EQ(nc_close(nc), NC_NOERR);
}

class Places : public testing::Test {
 protected:
  Ended train(const std::string& net, const PlacedFields& at) {
    const std::string data = dir_ / ("fields" + std::to_string(runs_) + ".nc");
    write_placed(data, at);
    return Child({command(), "train", source_dir() + "/configs/models/" + net + ".yaml", "--set",
                  "data.train=" + data, "--set", "data.targets=[a,b]", "--set", "train.global_batch=2",
                  "--set", "train.steps=1", "--set", "run.threads=1", "--set",
                  "run.out=" + (dir_ / ("run" + std::to_string(runs_++)))})
        .wait();
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

}  // namespace
}  // namespace isobar
