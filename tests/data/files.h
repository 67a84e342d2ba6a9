// Small HDF5 and NetCDF files for tests, written by the libraries themselves.
#pragma once
#include <gtest/gtest.h>
#include <hdf5.h>
#include <netcdf.h>

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace isobar::test {

namespace fs = std::filesystem;

/// A temporary directory, removed at the end of the test.
class TempDir {
 public:
  TempDir() {
    static std::atomic<int> count{0};
    path_ = fs::temp_directory_path() /
            ("isobar_data_" + std::to_string(getpid()) + "_" + std::to_string(count++));
    fs::create_directories(path_);
  }
  ~TempDir() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

inline std::mt19937_64& rng() {
  static std::mt19937_64 generator = [] {
    const uint64_t seed = std::random_device{}();
    ::testing::Test::RecordProperty("seed", std::to_string(seed));
    return std::mt19937_64(seed);
  }();
  return generator;
}

inline int64_t random_int(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(rng());
}

inline std::vector<float> random_floats(int64_t n, double mean = 0, double std = 1) {
  std::normal_distribution<float> d;
  std::vector<float> v(n);
  for (float& x : v) x = static_cast<float>(mean) + static_cast<float>(std) * d(rng());
  return v;
}

inline int64_t volume(const std::vector<hsize_t>& dims) {
  int64_t n = 1;
  for (hsize_t d : dims) n *= static_cast<int64_t>(d);
  return n;
}

struct Hdf5Options {
  std::string dataset = "fields";
  hid_t type = H5T_IEEE_F32LE;  // in the file
  std::vector<hsize_t> chunk;   // {} = contiguous
  bool shuffle = false, fletcher = false, compact = false;
  int deflate = 0;
  int64_t steps_written = -1;  // -1 = all of axis 0
  hsize_t user_block = 0;
};

template <class T>
hid_t memory_type() {
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
  if constexpr (std::is_same_v<T, double>) return H5T_NATIVE_DOUBLE;
  if constexpr (std::is_same_v<T, int16_t>) return H5T_NATIVE_INT16;
}

template <class T>
void write_hdf5(const std::string& path, std::vector<hsize_t> dims, const std::vector<T>& data,
                const Hdf5Options& o = {}) {
  const hid_t fcpl = H5Pcreate(H5P_FILE_CREATE);
  H5Pset_userblock(fcpl, o.user_block);
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, fcpl, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  const hid_t plist = H5Pcreate(H5P_DATASET_CREATE),
              space = H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
  if (!o.chunk.empty()) H5Pset_chunk(plist, static_cast<int>(o.chunk.size()), o.chunk.data());
  if (o.compact) H5Pset_layout(plist, H5D_COMPACT);
  if (o.shuffle) H5Pset_shuffle(plist);
  if (o.deflate) H5Pset_deflate(plist, o.deflate);
  if (o.fletcher) H5Pset_fletcher32(plist);
  const hid_t set = H5Dcreate2(file, o.dataset.c_str(), o.type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
  ASSERT_GE(set, 0);
  std::vector<hsize_t> count = dims;
  const std::vector<hsize_t> zero(dims.size(), 0);
  if (o.steps_written >= 0) count[0] = static_cast<hsize_t>(o.steps_written);
  if (volume(count) > 0) {
    const hid_t memory = H5Screate_simple(static_cast<int>(dims.size()), count.data(), nullptr);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, zero.data(), nullptr, count.data(), nullptr);
    ASSERT_GE(H5Dwrite(set, memory_type<T>(), memory, space, H5P_DEFAULT, data.data()), 0);
    H5Sclose(memory);
  }
  H5Dclose(set);
  H5Sclose(space);
  H5Pclose(plist);
  H5Fclose(file);
  H5Pclose(fcpl);
}

/// A zlib stream that inflates to `mib` MiB of zeros, a thousand times its size.
inline std::string deflated_zeros(int64_t mib) {
  const std::string zeros(1 << 20, '\0');
  std::string one(8192, '\0');  // a block without references to earlier ones, so that it can be repeated
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(zeros.data()));
  z.avail_in = static_cast<uInt>(zeros.size());
  z.next_out = reinterpret_cast<Bytef*>(one.data());
  z.avail_out = static_cast<uInt>(one.size());
  EXPECT_EQ(deflate(&z, Z_FULL_FLUSH), Z_OK);
  one.resize(one.size() - z.avail_out);
  deflateEnd(&z);
  std::string out("\x78\xda");
  for (int64_t i = 0; i < mib; ++i) out += one;
  const auto sum = static_cast<uint64_t>(mib << 20) % 65521;  // Adler-32, of zeros
  out += {'\x03', '\0', static_cast<char>(sum >> 8), static_cast<char>(sum), '\0', '\1'};
  return out;
}

/// Replaces the stored bytes of a chunk of 'fields' by `stored`, which may have any length.
inline void replace_chunk(const std::string& path, const std::vector<hsize_t>& origin,
                          const std::string& stored) {
  const hid_t f = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), d = H5Dopen2(f, "fields", H5P_DEFAULT);
  EXPECT_GE(H5Dwrite_chunk(d, H5P_DEFAULT, 0, origin.data(), stored.size(), stored.data()), 0);
  H5Dclose(d), H5Fclose(f);
}

/// EXPECTs that f throws ConfigError whose one-line message holds all of `parts`.
template <class F>
void expect_config_error(F f, const std::vector<std::string>& parts) {
  try {
    f();
    ADD_FAILURE() << "no error";
  } catch (const ConfigError& e) {
    const std::string what = e.what();
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    EXPECT_NE(what.find(" -> "), std::string::npos) << "says no mend: " << what;
    for (const std::string& p : parts)
      EXPECT_NE(what.find(p), std::string::npos) << "'" << p << "' is not in: " << what;
  }
}

#define NC(call)                                                       \
  do {                                                                 \
    const int nc_rc = (call);                                          \
    ASSERT_EQ(nc_rc, NC_NOERR) << #call << ": " << nc_strerror(nc_rc); \
  } while (false)

/// A CF file of one packed variable "t" (and "q" when two = true) on time, level, latitude, longitude axes in
/// the order of `order`: a word of the letters t z y x, and n for an extra axis of size `extra`.
struct NetcdfOptions {
  std::string order = "tyx";
  int64_t steps = 5, levels = 1, rows = 4, columns = 6, extra = 1;
  int format = NC_NETCDF4;  // or 0 (classic), NC_64BIT_OFFSET, NC_CLASSIC_MODEL | NC_NETCDF4
  std::string time_name = "time", row_name = "latitude", column_name = "longitude";
  std::string time_units = "hours since 2019-03-01 00:00:00";
  bool south_first = false, two = false, attributes = true, unlimited = false, coordinates = true;
  double scale = 0.01, offset = 280;
  int deflate = 0;
  std::vector<size_t> chunk;  // in `order`
  std::vector<double> times;  // {} = 0, 1, 2 …
  std::vector<double> levels_hpa = {1000, 850, 500, 250};
};

/// Packed values by (t, z, y north first, x) for each variable; missing values are put in by the test.
using Packed = std::vector<int16_t>;

inline void write_netcdf(const std::string& path, const NetcdfOptions& o, const std::vector<Packed>& values) {
  int nc = -1;
  NC(nc_create(path.c_str(), o.format | NC_CLOBBER, &nc));
  const auto size_of_axis = [&](char a) {
    return a == 't' ? o.steps : a == 'z' ? o.levels : a == 'y' ? o.rows : a == 'x' ? o.columns : o.extra;
  };
  std::vector<int> dims;
  for (char a : o.order) {
    const std::string name = a == 't'   ? o.time_name
                             : a == 'z' ? "plev"
                             : a == 'y' ? o.row_name
                             : a == 'x' ? o.column_name
                                        : "number";
    int dim = -1;
    NC(nc_def_dim(nc, name.c_str(), a == 't' && o.unlimited ? NC_UNLIMITED : size_of_axis(a), &dim));
    dims.push_back(dim);
  }
  std::vector<int> coordinates;
  for (size_t k = 0; o.coordinates && k < o.order.size(); ++k) {
    const char a = o.order[k];
    int v = -1;
    char name[NC_MAX_NAME + 1];
    nc_inq_dimname(nc, dims[k], name);
    NC(nc_def_var(nc, name, NC_DOUBLE, 1, &dims[k], &v));
    coordinates.push_back(v);
    const auto put = [&](const char* attribute, const std::string& s) {
      nc_put_att_text(nc, v, attribute, s.size(), s.c_str());
    };
    if (a == 't') put("units", o.time_units);
    if (!o.attributes) continue;
    if (a == 'y') put("units", "degrees_north");
    if (a == 'x') put("standard_name", "longitude");
    if (a == 'z') put("positive", "down"), put("units", "Pa");
    if (a == 'n') put("standard_name", "realization");
  }
  std::vector<int> fields;
  const int16_t fill = -32767, missing = -32766;
  for (size_t i = 0; i < values.size(); ++i) {
    int v = -1;
    NC(nc_def_var(nc, i == 0 ? "t" : "q", NC_SHORT, static_cast<int>(dims.size()), dims.data(), &v));
    fields.push_back(v);
    nc_put_att_double(nc, v, "scale_factor", NC_DOUBLE, 1, &o.scale);
    nc_put_att_double(nc, v, "add_offset", NC_DOUBLE, 1, &o.offset);
    nc_put_att_short(nc, v, "_FillValue", NC_SHORT, 1, &fill);
    nc_put_att_short(nc, v, "missing_value", NC_SHORT, 1, &missing);
    nc_put_att_text(nc, v, "units", 1, "K");
    if (!o.chunk.empty()) NC(nc_def_var_chunking(nc, v, NC_CHUNKED, o.chunk.data()));
    if (o.deflate) NC(nc_def_var_deflate(nc, v, 1, 1, o.deflate));
  }
  NC(nc_enddef(nc));
  for (size_t k = 0; o.coordinates && k < o.order.size(); ++k) {
    const char a = o.order[k];
    std::vector<double> c(size_of_axis(a));
    for (size_t i = 0; i < c.size(); ++i) {
      const double x = static_cast<double>(i);
      c[i] = a == 't'   ? (o.times.empty() ? x : o.times[i])
             : a == 'z' ? o.levels_hpa[i] * 100
             : a == 'y' ? (o.south_first ? 50 + x : 60 - x)
                        : x;
    }
    const size_t zero = 0, n = c.size();
    NC(nc_put_vara_double(nc, coordinates[k], &zero, &n, c.data()));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    std::vector<size_t> start(o.order.size(), 0), count;
    for (char a : o.order) count.push_back(size_of_axis(a));
    size_t total = 1;
    for (size_t n : count) total *= n;
    std::vector<int16_t> data(total);
    for (size_t at = 0; at < total; ++at) {  // from the file's axis order to (t, z, y, x)
      int64_t t = 0, z = 0, y = 0, x = 0;
      size_t rest = at;
      for (size_t k = o.order.size(); k-- > 0; rest /= count[k]) {
        const auto here = static_cast<int64_t>(rest % count[k]);
        if (o.order[k] == 't') t = here;
        if (o.order[k] == 'z') z = here;
        if (o.order[k] == 'y') y = o.south_first ? o.rows - 1 - here : here;
        if (o.order[k] == 'x') x = here;
      }
      data[at] = values[i][((t * o.levels + z) * o.rows + y) * o.columns + x];
    }
    NC(nc_put_vara_short(nc, fields[i], start.data(), count.data(), data.data()));
  }
  NC(nc_close(nc));
}

inline Packed random_packed(const NetcdfOptions& o) {
  Packed p(o.steps * o.levels * o.rows * o.columns);
  for (auto& x : p) x = static_cast<int16_t>(random_int(-3000, 3000));
  return p;
}

}  // namespace isobar::test
