// Tables in NumPy's .npz, written by NumPy and by libzip: intact, damaged and invalid.
#include "model/data/files/npz.h"

#include <gtest/gtest.h>
#include <zip.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "model/base/system/files.h"
#include "model/data/fields/field_file.h"
#include "model/data/tables/table.h"
#include "model/data/tables/table_cache.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

using Member = std::pair<std::string, std::string>;  // name in the zip, bytes

void write_zip(const std::string& path, const std::vector<Member>& members, bool deflated = false) {
  int code = 0;
  zip_t* zip = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  ASSERT_NE(zip, nullptr) << code;
  for (const auto& [name, bytes] : members) {
    zip_source_t* source = zip_source_buffer(zip, bytes.data(), bytes.size(), 0);
    const zip_int64_t i = zip_file_add(zip, name.c_str(), source, 0);
    ASSERT_GE(i, 0) << zip_strerror(zip);
    ASSERT_EQ(zip_set_file_compression(zip, static_cast<zip_uint64_t>(i),
                                       deflated ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0),
              0);
  }
  ASSERT_EQ(zip_close(zip), 0) << zip_strerror(zip);
}

// A .npy file by its specification, version 1.0
template <class T>
std::string npy_of(const std::vector<T>& values, const std::string& type, const std::string& shape) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(118, ' ');
  header[117] = '\n';
  std::string bytes("\x93NUMPY\x01\x00\x76\x00", 10);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return bytes;
}

std::string column_of(const std::vector<double>& values) {
  return npy_of(values, "<f8", "(" + std::to_string(values.size()) + ",)");
}

std::string npy_column_of_one() {
  return column_of({1});
}

TEST(Npz, OfLibzipsIsReadWhetherStoredOrDeflated) {
  for (const bool deflated : {false, true}) {
    TempDir dir;
    const int n = static_cast<int>(random_int(1, 300000));  // sometimes more than one piece
    const std::vector<float> a = random_floats(n);
    std::vector<double> b;
    for (const float x : random_floats(n)) b.push_back(random_int(0, 9) == 0 ? NAN : x * 1e30);
    write_zip(dir / "t.npz",
              {{"b.npy", column_of(b)},
               {"notes.txt", "no array"},
               {"a.npy", npy_of(a, "<f4", "(" + std::to_string(n) + ",)")}},
              deflated);
    const data::NpzFile file(dir / "t.npz", "data.train");
    EXPECT_EQ(file.names(), (std::vector<std::string>{"b", "a"}));
    const data::SampleTable t = data::read_table(dir / "t.npz", "data.train", {"a", "b"});
    int64_t row = 0;
    for (int i = 0; i < n; ++i) {
      if (std::isnan(b[i])) continue;
      ASSERT_EQ(t.values[2 * row], a[i]) << i;
      ASSERT_EQ(t.values[2 * row + 1], static_cast<float>(b[i])) << i;
      ++row;
    }
    EXPECT_EQ(t.rows, row);
    EXPECT_EQ(t.left_out.missing, n - row);
  }
}

TEST(Npz, IsGatheredThroughTheCacheWithAMask) {
  TempDir dir;
  ::setenv("ISOBAR_CACHE_DIR", (dir / "cache").c_str(), 1);
  write_zip(dir / "t.npz", {{"a.npy", column_of({1, 2, 3, 4})}, {"aice.npy", column_of({0, 0.2, 0.1, 1})}});
  data::RowChoice ice{.ice = "aice", .least_ice = 0.15, .with_ice = true};
  data::require_table(dir / "t.npz", "data.train", {"a"}, ice);
  const auto table = data::mapped_table(dir / "t.npz", "data.train", {"a"}, ice);
  ASSERT_EQ(table->rows(), 2);
  EXPECT_EQ(table->row(0)[0], 2);
  EXPECT_EQ(table->row(1)[0], 4);
  EXPECT_EQ(table->left_out().masked, 2);
}

// One row a sample, as the cache of an ice emulator has its features; a whole name goes before a column's.
TEST(Npz, ColumnsOfAnArrayOfTwoAxesAreNamedByNumber) {
  TempDir dir;
  std::vector<float> features(300);
  for (float& x : features) x = static_cast<float>(random_int(-1000, 1000));
  std::vector<double> target(100);
  for (double& x : target) x = static_cast<double>(random_int(0, 9));
  write_zip(dir / "t.npz", {{"features.npy", npy_of(features, "<f4", "(100, 3)")},
                            {"target.npy", column_of(target)},
                            {"target[1].npy", column_of(target)}});
  const data::SampleTable t =
      data::read_table(dir / "t.npz", "data.train", {"features[2]", "target", "features[0]", "target[1]"});
  ASSERT_EQ(t.rows, 100);
  for (int64_t r = 0; r < 100; ++r) {
    EXPECT_EQ(t.values[4 * r + 0], features[3 * r + 2]);
    EXPECT_EQ(t.values[4 * r + 1], target[r]);
    EXPECT_EQ(t.values[4 * r + 2], features[3 * r]);
    EXPECT_EQ(t.values[4 * r + 3], target[r]);
  }
  const auto refused = [&](const std::string& column, const std::vector<std::string>& says) {
    expect_config_error([&] { data::read_table(dir / "t.npz", "data.train", {column}); }, says);
  };
  refused("features[3]", {"'features' has 3 columns", "features[0], features[1]"});
  refused("features", {"'features' has 2 axes", "features[0], features[1]"});
  refused("target[0]", {"'target' has 1 axes"});
  refused("other[0]", {"no column 'other[0]'"});
}

TEST(Npz, EveryFaultNamesFileArrayAndMend) {
  TempDir dir;
  const std::string path = dir / "t.npz";
  const auto refused = [&](const std::vector<std::string>& says) {
    std::vector<std::string> all = says;
    all.push_back(path);
    all.emplace_back("data.train");
    expect_config_error([&] { data::read_table(path, "data.train", {"a", "b"}); }, all);
    expect_config_error([&] { data::require_table(path, "data.train", {"a", "b"}); }, all);
  };
  const std::string two = column_of({1, 2});
  write_zip(path, {{"a.npy", two}, {"c.npy", two}, {"b.txt", "1"}});
  refused({"no column 'b'", "the file has a, c"});
  write_zip(path, {{"a.npy", two}, {"b.npy", column_of({1, 2, 3})}});
  refused({"array 'b' has 3 numbers, 'a' has 2"});
  write_zip(path, {{"a.npy", two}, {"b.npy", npy_of<double>({1, 2}, "<f8", "(1, 2)")}});
  refused({"array 'b' has 2 axes"});
  write_zip(path, {{"a.npy", two}, {"b.npy", npy_of<int64_t>({1, 2, 3, 4}, "<c16", "(2,)")}});
  refused({"b.npy", "<c16", "numpy.savez"});
  write_zip(path, {{"a.npy", two}, {"b.npy", "not an array"}});
  refused({"b.npy", "is not a .npy file"});
  write_zip(path, {{"a.npy", two}, {"b.npy", two}});
  const std::string whole = read_file(path);
  std::string wrong = whole;  // a flipped bit: the zip's checksum finds it
  wrong[wrong.rfind(column_of({1, 2}).substr(128)) + 3] ^= 1;
  std::ofstream(path, std::ios::binary) << wrong;
  refused({"b.npy", "CRC"});
  std::ofstream(path, std::ios::binary) << whole.substr(0, whole.size() / 2);
  refused({"is no .npz file"});
  std::ofstream(path) << "a,b\n1,2\n";
  refused({"is no .npz file", "numpy.savez"});
  fs::remove(path);
  refused({"No such file"});
}

TEST(Npz, OfNumPysHoldsWhatNumPyWrote) {
  const char* peer = std::getenv("ISOBAR_PEER_PYTHON");
  const std::string python = peer ? peer : "python3";
  if (std::system((python + " -c 'import numpy' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "no numpy in " << python << "; ISOBAR_PEER_PYTHON names another";
  TempDir dir;
  // The columns, once as .npz in both kinds, once as raw bytes: [a, c, i, u, big, f] rows of f32, fifth c
  // missing
  std::ofstream(dir / "write.py")
      << "import numpy as np, os\n"
         "r = np.random.default_rng()\n"
         "n = int(r.integers(10, 100000))\n"
         "a = r.normal(280, 5, n).astype('float32')\n"
         "c = np.round(r.normal(0, 1, n), 2)\n"
         "c[4] = np.nan\n"
         "os.chdir('" +
             dir.path() +
             "')\n"
             "i = r.integers(-9, 9, n)\n"
             "u = r.integers(0, 255, n).astype('uint8')\n"
             "big = r.normal(0, 1, n).astype('>f4')\n"
             "f = np.asfortranarray(r.normal(0, 1, (n, 2)))[:, 1]\n"
             "of = dict(a=a, b=r.normal(0, 1, (n, 3)), c=c, i=i, u=u, big=big, f=f)\n"
             "np.savez('stored.npz', **of)\n"
             "np.savez_compressed('deflated.npz', **of)\n"
             "np.savez('fortran.npz', a=np.asfortranarray(np.stack([c, a], 1)))\n"
             "np.stack([a, c, i, u, big, f], 1).astype('float32').tofile('raw')\n";
  ASSERT_EQ(std::system((python + " " + (dir / "write.py")).c_str()), 0);
  const std::string raw = read_file(dir / "raw");
  std::vector<float> want(raw.size() / sizeof(float));
  std::memcpy(want.data(), raw.data(), raw.size());
  want.erase(want.begin() + 24, want.begin() + 30);
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const data::SampleTable t = data::read_table(dir / name, "data.train", {"a", "c", "i", "u", "big", "f"});
    EXPECT_EQ(t.left_out.missing, 1);
    EXPECT_EQ(t.values, want) << name;
  }
  EXPECT_LT(fs::file_size(dir / "deflated.npz"), fs::file_size(dir / "stored.npz"));
  const data::SampleTable columns = data::read_table(dir / "fortran.npz", "data.train", {"a[1]", "a[0]"});
  ASSERT_EQ(columns.values.size(), want.size() / 3);
  for (size_t r = 0; r < columns.values.size(); ++r)
    EXPECT_EQ(columns.values[r], want[r / 2 * 6 + r % 2]) << r;
  expect_config_error([&] { data::read_table(dir / "stored.npz", "data.train", {"b"}); },
                      {"array 'b' has 2 axes"});

  // NumPy reads the files written here
  const std::vector<float> x = random_floats(random_int(1, 5000));
  data::NpzOutput out(dir / "ours.npz");
  const std::string bytes(reinterpret_cast<const char*>(x.data()), x.size() * sizeof(float));
  out.add("x y", data::npy_bytes("<f4", {static_cast<int64_t>(x.size())}, bytes));
  out.add("grid", data::npy_bytes("<i4", {1, static_cast<int64_t>(x.size())}, bytes));
  EXPECT_FALSE(fs::exists(dir / "ours.npz"));
  out.finish();
  std::ofstream(dir / "read.py")
      << "import numpy as np, os\n"
         "os.chdir('" +
             dir.path() +
             "')\n"
             "z = np.load('ours.npz')\n"
             "assert z.files == ['x y', 'grid'], z.files\n"
             "assert z['grid'].shape == (1, len(z['x y'])) and z['grid'].dtype == 'int32'\n"
             "assert z['grid'].tobytes() == z['x y'].tobytes()\n"
             "z['x y'].tofile('back')\n";
  ASSERT_EQ(std::system((python + " " + (dir / "read.py")).c_str()), 0);
  EXPECT_EQ(read_file(dir / "back"), bytes);
}

// As numpy.savez writes a turned array: the first axis varies fastest.
TEST(Npz, FieldsInFortranOrderAreTheSame) {
  const int64_t T = 3, H = 4, W = 5;
  const std::vector<float> values = random_floats(T * H * W);
  std::vector<float> turned(values.size());
  for (int64_t t = 0; t < T; ++t)
    for (int64_t y = 0; y < H; ++y)
      for (int64_t x = 0; x < W; ++x) turned[(x * H + y) * T + t] = values[(t * H + y) * W + x];
  std::string npy = npy_of(turned, "<f4", "(3, 4, 5)");
  npy.replace(npy.find("False"), 5, "True ");
  for (const bool deflated : {false, true}) {
    TempDir dir;
    write_zip(dir / "f.npz", {{"t.npy", npy}}, deflated);
    const auto files = data::open_fields(dir / "f.npz", "data.train", {});
    const data::FieldShape shape = files.at(0)->info().shape, part{1, H - 1, W - 2};
    ASSERT_EQ(shape.size(), H * W);
    for (int64_t t = 0; t < T; ++t) {
      std::vector<float> got(H * W, NAN), cut(part.size(), NAN);
      files[0]->read(t, shape, nullptr, got.data());
      files[0]->read(t, part, nullptr, cut.data());
      for (int64_t i = 0; i < H * W; ++i) EXPECT_EQ(got[i], values[t * H * W + i]);
      for (int64_t y = 0; y < part.height; ++y)
        for (int64_t x = 0; x < part.width; ++x)
          EXPECT_EQ(cut[y * part.width + x], values[(t * H + y) * W + x]);
    }
  }
}

TEST(Npz, AnArrayWhoseHeaderIsDamagedIsNotLeftOut) {
  TempDir dir;
  const std::string path = dir / "f.npz";
  write_zip(path, {{"t.npy", npy_of(random_floats(60), "<f4", "(3, 4, 5)")},
                   {"u.npy", npy_of(random_floats(60), "<f4", "(3, 4, 5)")}});
  std::string bytes = read_file(path);
  bytes[bytes.find("<f4") + 1] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
  expect_config_error([&] { data::open_fields(path, "data.train", {}); }, {path, "t.npy", "CRC"});
}

TEST(Npz, ThatCannotBeWrittenIsRefusedBeforeTheWork) {
  TempDir dir;
  expect_config_error([&] { data::NpzOutput out(dir / "no/such/a.npz"); }, {"a.npz", "cannot be written"});
  {
    data::NpzOutput unfinished(dir / "b.npz");
    unfinished.add("x", npy_column_of_one());
  }
  EXPECT_FALSE(fs::exists(dir / "b.npz") || fs::exists(dir / "b.npz.part"));
}

}  // namespace
}  // namespace isobar::test
