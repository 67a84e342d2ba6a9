// An mlp on the points of an ocean and an atmosphere file made by the command: masked and thinned, under
// several layouts. Excluded rows are counted independently from the files with netCDF.
#include <gtest/gtest.h>
#include <netcdf.h>

#include "tests/engine/layouts.h"
#include "tests/paths.h"

namespace isobar::engine {
namespace {

constexpr int kPairSteps = 6, kPairHeight = 20, kPairWidth = 36;
constexpr size_t kPairPoints = size_t{kPairSteps} * kPairHeight * kPairWidth;
const std::string kPairInputs = "sst,sss,tair,tsfc,hi,hs,sice,uocn,vocn,uatm,vatm,qref,flwdn,fswdn";

// Comma-separated paths of the pair
std::string made_pair(const std::string& dir, const std::string& seed, const Words& more = {}) {
  const Words sizes = {"--steps", std::to_string(kPairSteps), "--height", std::to_string(kPairHeight),
                       "--width", std::to_string(kPairWidth), "--seed",   seed};
  const Ended made = Child(Words{command(), "data", "make-points", dir} + sizes + more).wait();
  EXPECT_EQ(made.code, 0) << made.text;
  return dir + "/ocean.nc," + dir + "/atmosphere.nc";
}

std::string any_seed() {
  return std::to_string(std::random_device{}());
}

// Unpacked by the CF rules; NaN for fill values
std::vector<double> variable_of(const std::string& path, const std::string& name) {
  int file = -1, id = -1;
  std::vector<short> packed(kPairPoints);
  short fill = 0;
  double scale = 0, offset = 0;
  EXPECT_EQ(nc_open(path.c_str(), NC_NOWRITE, &file), NC_NOERR) << path;
  EXPECT_EQ(nc_inq_varid(file, name.c_str(), &id), NC_NOERR) << name;
  EXPECT_EQ(nc_get_var_short(file, id, packed.data()), NC_NOERR);
  EXPECT_EQ(nc_get_att_short(file, id, "_FillValue", &fill), NC_NOERR);
  EXPECT_EQ(nc_get_att_double(file, id, "scale_factor", &scale), NC_NOERR);
  EXPECT_EQ(nc_get_att_double(file, id, "add_offset", &offset), NC_NOERR);
  nc_close(file);
  std::vector<double> values;
  for (const short p : packed) values.push_back(p == fill ? std::nan("") : p * scale + offset);
  return values;
}

struct IceCount {
  int64_t land = 0, ice = 0, open = 0;
};
IceCount counted(const std::string& dir, double least) {
  IceCount n;
  for (const double ice : variable_of(dir + "/ocean.nc", "aice"))
    ++(std::isnan(ice) ? n.land : ice >= least ? n.ice : n.open);
  return n;
}

TestNet ice_net(const std::string& files) {
  return {source_dir() + "/configs/models/mlp-ice.yaml",
          {"data.train=" + files, "data.thin_fraction=0.6", "data.train_fraction=0.75",
           "train.global_batch=96", "train.steps=40", "train.lr=3e-3", "train.seed=5", "train.log_every=1",
           "run.threads=1", "run.hang_timeout=60", "train.checkpoint_every=40"}};
}

// The number before `what` in the command's first lines: "14,360 rows left out" is 14360; -1: absent
int64_t number_before(const std::string& text, const std::string& what) {
  size_t at = text.find(" " + what);
  if (at == std::string::npos) return -1;
  std::string digits;
  for (; at > 0 && (std::isdigit(static_cast<unsigned char>(text[at - 1])) || text[at - 1] == ','); --at)
    if (text[at - 1] != ',') digits.insert(digits.begin(), text[at - 1]);
  return digits.empty() ? -1 : std::stoll(digits);
}

Ended trained_on(const TestNet& net, const Words& change) {
  return Child(train_words(net.config, net.set + change)).wait();
}

TEST(MadePoints, AreLearntUnderEveryLayoutAlike) {
  const Folder dir;
  const TestNet net = ice_net(made_pair(dir / "pair", any_seed()));
  const TrainedNet one = trained_to(dir / "one", {}, 1, 40, {}, net);
  ASSERT_EQ(one.record.losses.size(), 40u);
  EXPECT_LT(one.record.losses.at(40), 0.3 * one.record.losses.at(1));
  EXPECT_LT(one.record.end.at("valid").at("loss").get<double>(), 0.4);  // the mean of the targets has 1
  Reordered reordered(one,
                      [&] { return trained_to(dir / "again", {"policy.micro_batch=16"}, 1, 40, {}, net); });
  int n = 0;
  for (const auto& [ranks, layout] : {std::pair<int64_t, Words>{2, {"layout.dp=2"}},
                                      {4, {"layout.dp=2", "layout.pp=2", "policy.micro_batch=24"}}}) {
    const TrainedNet other = trained_to(dir / std::to_string(++n), layout, ranks, 40, {}, net);
    reordered.expect_like_one(other, layout[0]);
  }
}

TEST(MadePoints, AreLeftOutAsCountedFromTheFiles) {
  const Folder dir;
  const TestNet net = ice_net(made_pair(dir / "pair", any_seed()));
  const IceCount n = counted(dir / "pair", 0.15), thick = counted(dir / "pair", 0.5);
  ASSERT_GT(n.land, 100);
  ASSERT_GT(n.ice, 500);
  ASSERT_GT(n.open, 500);
  ASSERT_LT(thick.ice, n.ice);
  const Ended ice = trained_on(net, {"train.steps=1"});
  EXPECT_EQ(ice.code, 0) << ice.text;
  EXPECT_EQ(number_before(ice.text, "rows with missing values skipped"), n.land) << ice.text;
  EXPECT_EQ(number_before(ice.text, "masked (sea_ice)"), n.open) << ice.text;
  const int64_t thinned = number_before(ice.text, "removed by thinning");
  const auto all = static_cast<double>(n.ice);
  EXPECT_NEAR(static_cast<double>(thinned) / all, 0.4, 6 * std::sqrt(0.24 / all)) << ice.text;
  const double training = std::round(0.75 * static_cast<double>(n.ice - thinned));
  EXPECT_EQ(number_before(ice.text, "steps an epoch"), static_cast<int64_t>(training) / 96) << ice.text;
  const Ended open = trained_on(net, {"train.steps=1", "data.mask_mode=ocean",
                                      "data.min_ice_concentration=0.5", "data.thin_fraction=1"});
  EXPECT_EQ(open.code, 0) << open.text;
  EXPECT_EQ(number_before(open.text, "masked (ocean)"), thick.ice) << open.text;
  EXPECT_EQ(number_before(open.text, "removed by thinning"), -1) << open.text;
}

TEST(MadePoints, WithAColumnOfNanAreRefused) {
  const Folder dir;
  const TestNet net = ice_net(made_pair(dir / "pair", any_seed()));
  int file = -1, id = -1, dims[3] = {};
  ASSERT_EQ(nc_create((dir / "waves.nc").c_str(), NC_CLOBBER, &file), NC_NOERR);
  nc_def_dim(file, "time", kPairSteps, &dims[0]);
  nc_def_dim(file, "lat", kPairHeight, &dims[1]);
  nc_def_dim(file, "lon", kPairWidth, &dims[2]);
  ASSERT_EQ(nc_def_var(file, "swell", NC_FLOAT, 3, dims, &id), NC_NOERR);
  nc_enddef(file);
  const std::vector<float> nan(kPairPoints, NAN);
  ASSERT_EQ(nc_put_var_float(file, id, nan.data()), NC_NOERR);
  ASSERT_EQ(nc_close(file), NC_NOERR);
  const std::string inputs = kPairInputs.substr(0, kPairInputs.rfind(',')) + ",swell";
  const std::string pair = dir / "pair";
  const Ended e =
      trained_on(net, {"data.train=" + pair + "/ocean.nc," + pair + "/atmosphere.nc," + (dir / "waves.nc"),
                       "data.inputs=[" + inputs + "]"});
  EXPECT_EQ(e.code, 2) << e.text;
  EXPECT_NE(e.text.find("column 'swell' holds no number"), std::string::npos) << e.text;
}

TEST(MadePoints, AreTheSameForASeedAndNotReplacedUnasked) {
  const Folder dir;
  const std::string seed = any_seed(), other = any_seed();
  for (const char* name : {"a", "b"}) made_pair(dir / name, seed);
  made_pair(dir / "c", other);
  int differ = 0, land = 0;
  const std::string air = "tair,uatm,vatm,qref,flwdn,fswdn";
  std::stringstream names(kPairInputs + ",aice");
  for (std::string name; std::getline(names, name, ',');) {
    const std::string file = air.find(name) == std::string::npos ? "/ocean.nc" : "/atmosphere.nc";
    const auto a = variable_of((dir / "a") + file, name), b = variable_of((dir / "b") + file, name),
               c = variable_of((dir / "c") + file, name);
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) << name << " " << i;
      differ += !(a[i] == c[i]) && !(std::isnan(a[i]) && std::isnan(c[i]));
      land += std::isnan(a[i]);
      if (!std::isnan(a[i])) low = std::min(low, a[i]), high = std::max(high, a[i]);
    }
    EXPECT_LT(low, high) << name;
    if (name == "aice") {
      EXPECT_GE(low, -1e-9);
      EXPECT_LE(high, 1 + 1e-9);
    }
  }
  EXPECT_GT(differ, static_cast<int>(kPairPoints));
  EXPECT_EQ(land % 9, 0);  // the same ocean points at every step, for all nine variables
  EXPECT_GT(land, 0);
  const Ended again = Child({command(), "data", "make-points", dir / "a"}).wait();
  EXPECT_EQ(again.code, 2) << again.text;
  EXPECT_NE(again.text.find("ocean.nc: is there already -> name another directory, or add --force"),
            std::string::npos)
      << again.text;
  made_pair(dir / "a", other, {"--force"});
  const auto replaced = variable_of((dir / "a/atmosphere.nc"), "tair");
  EXPECT_EQ(replaced, variable_of((dir / "c/atmosphere.nc"), "tair"));
  const Ended flat = Child({command(), "data", "make-points", dir / "flat", "--height", "1"}).wait();
  EXPECT_EQ(flat.code, 2) << flat.text;
}

}  // namespace
}  // namespace isobar::engine
