// Columns of CSV and netCDF files as samples.
#include "model/data/tables/table.h"

#include <gtest/gtest.h>
#include <netcdf.h>

#include <cmath>
#include <fstream>
#include <random>

#include "model/data/dataset.h"
#include "model/data/synthetic/synth_classes.h"
#include "model/data/tables/table_cache.h"
#include "model/data/tables/table_dataset.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

void write_lines(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

data::SampleShape table_shape(int64_t in, int64_t out) {
  data::SampleShape shape({in, 1, 1}, {out, 1, 1});
  shape.of_table = true;
  return shape;
}

TEST(Table, ColumnsComeInTheOrderThatIsAskedFor) {
  TempDir dir;
  const std::string path = dir / "t.csv";
  write_lines(path, "time,\"sst\",ice,sss\n1,2.5,0.25,35\n\n2,-1e-1,0.75,34\r\n");
  const data::SampleTable t = data::read_table(path, "data.train", {"sss", "sst"});
  EXPECT_EQ(t.rows, 2);
  EXPECT_EQ(t.left_out.missing, 0);
  EXPECT_EQ(t.values, (std::vector<float>{35, 2.5, 34, -0.1f}));
}

TEST(Table, RowsWithAMissingValueAreLeftOutAndCounted) {
  TempDir dir;
  const std::string path = dir / "t.csv";
  write_lines(path, "a,b\n1,2\n,3\nNaN,4\n5,6\n7,NA\n");
  const data::SampleTable t = data::read_table(path, "data.train", {"a", "b"});
  EXPECT_EQ(t.values, (std::vector<float>{1, 2, 5, 6}));
  EXPECT_EQ(t.left_out.missing, 3);
  EXPECT_EQ(data::read_table(path, "data.train", {"b"}).rows, 4);  // values of unread columns may be missing
}

TEST(Table, EveryFaultNamesFileColumnAndMend) {
  TempDir dir;
  const std::string path = dir / "t.csv";
  const auto refused = [&](const std::string& text, const std::vector<std::string>& says,
                           const std::vector<std::string>& columns = {"a", "b"}) {
    write_lines(path, text);
    std::vector<std::string> all = says;
    all.push_back(path);
    expect_config_error([&] { data::read_table(path, "data.train", columns); }, all);
    expect_config_error([&] { data::require_table(path, "data.train", columns); }, all);
  };
  refused("a,c\n1,2\n", {"no column 'b'", "a, c"});
  refused("a,b,a\n1,2,3\n", {"two columns 'a'"});
  refused("a,b\n1,x\n", {"line 2", "column 'b'", "'x' is no number"});
  refused("a,b\n1,\n2,NaN\n", {"column 'b' holds no number", "data.inputs"});
  refused("a,b\n1,\n,2\n", {"missing in every row"});
  refused("a,b\n1\n", {"line 2", "1 cells"});
  refused("", {"line 1", "is empty"});
  const std::string other = dir / "t.xlsx";
  write_lines(other, "a,b\n1,2\n");
  expect_config_error([&] { data::read_table(other, "data.train", {"a"}); }, {other, "is no table", ".csv"});
}

// Packed, with fill values, and one variable along another dimension
void write_columns(const std::string& path) {
  int file = 0, row = 0, depth = 0, sst = 0, ice = 0, z = 0;
  ASSERT_EQ(nc_create(path.c_str(), NC_CLOBBER, &file), NC_NOERR);
  nc_def_dim(file, "point", 3, &row);
  nc_def_dim(file, "depth", 2, &depth);
  nc_def_var(file, "sst", NC_SHORT, 1, &row, &sst);
  nc_def_var(file, "ice", NC_DOUBLE, 1, &row, &ice);
  nc_def_var(file, "z", NC_DOUBLE, 1, &depth, &z);
  const double scale = 0.01, offset = 273.15;
  const short fill = -32767, packed[3] = {100, fill, -200};
  nc_put_att_double(file, sst, "scale_factor", NC_DOUBLE, 1, &scale);
  nc_put_att_double(file, sst, "add_offset", NC_DOUBLE, 1, &offset);
  nc_put_att_short(file, sst, "_FillValue", NC_SHORT, 1, &fill);
  nc_enddef(file);
  const double cover[3] = {0.5, 0.25, 1}, levels[2] = {0, 10};
  nc_put_var_short(file, sst, packed);
  nc_put_var_double(file, ice, cover);
  nc_put_var_double(file, z, levels);
  ASSERT_EQ(nc_close(file), NC_NOERR);
}

TEST(Table, NetcdfVariablesAlongOneDimensionAreColumns) {
  TempDir dir;
  const std::string path = dir / "t.nc";
  write_columns(path);
  const data::SampleTable t = data::read_table(path, "data.train", {"ice", "sst"});
  EXPECT_EQ(t.left_out.missing, 1);
  ASSERT_EQ(t.values.size(), 4u);
  EXPECT_FLOAT_EQ(t.values[1], 274.15f);
  EXPECT_FLOAT_EQ(t.values[2], 1);
  EXPECT_FLOAT_EQ(t.values[3], 271.15f);
  expect_config_error(
      [&] {
        data::read_table(path, "data.train", {"ice", "z"});
      },
      {path, "'z'", "different dimensions"});
  expect_config_error([&] { data::read_table(path, "data.train", {"snow"}); },
                      {path, "'snow'", "sst, ice, z"});
}

TEST(TableDataset, NormalisesByTheRowsThatTrain) {
  TempDir dir;
  const std::string path = dir / "t.csv";
  std::mt19937_64 random(std::random_device{}());
  std::normal_distribution<double> normal(5, 3);
  std::vector<std::array<double, 3>> rows(50);
  std::ofstream file(path);
  file << "a,b,y\n";
  file.precision(17);
  for (auto& [a, b, y] : rows) {
    a = normal(random), b = 1e4 * normal(random), y = 1e-3 * normal(random);
    file << a << "," << b << "," << y << "\n";
  }
  file.close();
  DataSpec d;
  d.train = path;
  d.inputs = {"b", "a"};
  d.targets = {"y"};
  d.train_fraction = 0.8;
  const auto train = data::open_dataset(d, path, data::Split::train, table_shape(2, 1));
  const auto valid = data::open_dataset(d, "", data::Split::valid, table_shape(2, 1));
  ASSERT_EQ(train->size(), 40);
  ASSERT_EQ(valid->size(), 10);
  EXPECT_EQ(train->channels().persistent(), std::vector<int64_t>{-1});
  for (const size_t c : {0, 1, 2}) {
    double mean = 0, square = 0;
    for (int r = 0; r < 40; ++r) mean += rows[r][c] / 40;
    for (int r = 0; r < 40; ++r) square += (rows[r][c] - mean) * (rows[r][c] - mean) / 40;
    for (int64_t r = 0; r < 50; ++r) {
      float input[2] = {NAN, NAN}, target[1] = {NAN};
      r < 40 ? train->read(r, input, target) : valid->read(r - 40, input, target);
      const float got = c == 2 ? target[0] : input[1 - c];
      ASSERT_NEAR(got, (rows[r][c] - mean) / std::sqrt(square), 2e-6) << r << " " << c;
    }
  }
}

// Rows like fields of noise: mean 0, variance 1, neighbours correlated, other values in validation.
TEST(TableDataset, OfNoiseHasNumbersOfVarianceOne) {
  const auto set = data::open_dataset({}, "", data::Split::train, table_shape(3, 2));
  const auto valid = data::open_dataset({.train_fraction = 0.5}, "", data::Split::valid, table_shape(3, 2));
  ASSERT_GE(set->size(), 65536);
  double sum[3] = {}, square[3] = {}, next = 0;
  constexpr int kRows = 20000;
  for (int64_t i = 0; i < kRows; ++i) {
    float input[3] = {NAN, NAN, NAN}, target[2] = {NAN, NAN}, other[3], unused[2];
    set->read(i, input, target);
    valid->read(i, other, unused);
    ASSERT_NE(input[0], other[0]);
    for (int c = 0; c < 3; ++c) sum[c] += input[c], square[c] += input[c] * input[c];
    next += input[1] * target[1];
  }
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(sum[c] / kRows, 0, 0.06) << c;
    EXPECT_NEAR(square[c] / kRows, 1, 0.06) << c;
  }
  EXPECT_NEAR(next / kRows, 2.0 / 3, 0.06);
}

// Rows kept in memory equal those of a set so large that it makes them on reading.
TEST(TableDataset, OfNoiseIsTheSameKeptOrMade) {
  DataSpec few, many;
  few.limit_samples = 3000, many.limit_samples = int64_t{1} << 24;
  few.dt = many.dt = 2;
  const auto kept = data::open_dataset(few, "", data::Split::train, table_shape(5, 3)),
             made = data::open_dataset(many, "", data::Split::train, table_shape(5, 3));
  ASSERT_EQ(kept->size(), 3000);
  ASSERT_EQ(made->size(), int64_t{1} << 24);
  for (int64_t i = 0; i < kept->size(); ++i) {
    float a[5], b[3], c[5], d[3];
    kept->read(i, a, b);
    made->read(i, c, d);
    for (int k = 0; k < 5; ++k) ASSERT_EQ(a[k], c[k]) << i;
    for (int k = 0; k < 3; ++k) ASSERT_EQ(b[k], d[k]) << i;
  }
}

TEST(TableDataset, RefusesWhatATableHasNot) {
  TempDir dir;
  const std::string path = dir / "t.csv";
  write_lines(path, "a,b,y\n1,2,3\n2,2,4\n3,2,7\n");
  DataSpec d;
  d.train = path;
  d.inputs = {"a"};
  d.targets = {"y"};
  const auto open = [&](const DataSpec& data) {
    data::open_dataset(data, path, data::Split::train, table_shape(1, 1));
  };
  EXPECT_NO_THROW(open(d));
  const auto refused = [&](const auto& change, const std::vector<std::string>& says) {
    DataSpec other = d;
    change(other);
    expect_config_error([&] { open(other); }, says);
  };
  DataSpec flat = d;
  flat.inputs = {"b"};
  const auto set = data::open_dataset(flat, path, data::Split::train, table_shape(1, 1));
  EXPECT_EQ(set->flat_channels(), std::vector<std::string>{"b"});
  float in = 9, out = 9;
  set->read(1, &in, &out);
  EXPECT_EQ(in, 0) << "a constant is centred";
  refused([](DataSpec& x) { x.targets = {}; }, {"'data.targets'", "name the columns"});
  refused([](DataSpec& x) { x.dt = 2; }, {"'data.dt'", "fields"});
  refused([](DataSpec& x) { x.variables = {"a"}; }, {"'data.variables'"});
  refused([](DataSpec& x) { x.means = "m.npy"; }, {"'data.means'"});
  refused([](DataSpec& x) { x.train_fraction = 0.1; }, {path, "'data.train_fraction'", "no row to train"});
}

// The limit is 1e-6 of the mean's magnitude, in any unit.
TEST(TableDataset, AStandardDeviationBelowAMillionthOfTheMeanCountsAsOne) {
  TempDir dir;
  const double unit = std::pow(10.0, static_cast<double>(random_int(-6, 6)));
  std::ofstream file(dir / "t.csv");
  file.precision(17);
  file << "flat,varies,small,zero,y\n";
  for (int r = 0; r < 40; ++r) {
    const double sign = r % 2 == 0 ? 1 : -1;  // the standard deviation is the factor of it
    file << unit * (1 + sign * 5e-7) << "," << unit * (1 + sign * 4e-6) << "," << unit * 1e-9 * sign << ",0,"
         << r << "\n";
  }
  file.close();
  DataSpec d;
  d.train = dir / "t.csv";
  d.inputs = {"flat", "varies", "small", "zero"};
  d.targets = {"y"};
  const auto set = data::open_dataset(d, d.train, data::Split::train, table_shape(4, 1));
  EXPECT_EQ(set->flat_channels(), (std::vector<std::string>{"flat", "zero"}));
  const data::Statistics s = set->input_statistics();
  EXPECT_EQ(s.std[0], 1);
  EXPECT_NEAR(static_cast<double>(s.std[1]) / (4e-6 * unit), 1, 0.05);  // numbers are f32
  EXPECT_NEAR(static_cast<double>(s.std[2]) / (1e-9 * unit), 1, 1e-5);
  EXPECT_EQ(s.std[3], 1);
  float in[4], out = 0;
  for (int64_t i = 0; i < set->size(); ++i) {
    set->read(i, in, &out);
    for (const float x : in) EXPECT_TRUE(std::isfinite(x));
    EXPECT_LT(std::abs(static_cast<double>(in[0])), 2e-6 * unit);
    EXPECT_EQ(in[3], 0);
  }
}

TEST(TableDataset, OfClassesHoldsThemAsTheyAreWithTheirNames) {
  TempDir dir;
  data::make_classes(
      dir / "set",
      {.samples = 200, .features = 5, .classes = 3, .seed = static_cast<uint64_t>(random_int(0, 9999))});
  DataSpec d;
  d.train = dir / "set/train.nc", d.valid = dir / "set/valid.nc";
  d.inputs = {"x0", "x1", "x2", "x3", "x4"};
  d.targets = {"label"};
  data::SampleShape shape = table_shape(5, 1);
  shape.classes = 3;
  const auto set = data::open_dataset(d, d.train, data::Split::train, shape),
             valid = data::open_dataset(d, d.valid, data::Split::valid, shape);
  EXPECT_EQ(set->size(), 160);
  EXPECT_EQ(valid->size(), 20);
  EXPECT_EQ(set->class_names(), (std::vector<std::string>{"pattern_0", "pattern_1", "pattern_2"}));
  EXPECT_EQ(set->target_statistics().std[0], 1);
  EXPECT_EQ(set->target_statistics().mean[0], 0);
  double mean = 0;
  for (int64_t i = 0; i < set->size(); ++i) {
    float in[5], label = -1;
    set->read(i, in, &label);
    EXPECT_TRUE(label == 0 || label == 1 || label == 2) << label;
    mean += static_cast<double>(in[0]) / 160;
  }
  EXPECT_NEAR(mean, 0, 1e-5) << "inputs are normalised";
  shape.classes = 2;
  expect_config_error([&] { data::open_dataset(d, d.train, data::Split::train, shape); },
                      {d.train, "column 'label' holds class 2", "net.out_features"});
  expect_config_error([&] { data::require_tables(d, 2); }, {d.train, "column 'label' holds class 2"});
}

}  // namespace
}  // namespace isobar::test
