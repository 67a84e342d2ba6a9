// Data that a file declares and that were never written are its fill value, where it has one. Compressed
// files and infinite values get messages of their own.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/data/fields/field_file.h"
#include "model/data/files/netcdf/hdf5_array.h"
#include "model/data/written/inspect.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

constexpr size_t kHours = 4, kLats = 3, kLons = 5, kPoints = kLats * kLons;

struct Unwritten {
  nc_type type = NC_FLOAT;
  int storage = NC_CHUNKED, deflate = 0, endian = NC_ENDIAN_NATIVE;
  bool checksum = false, no_fill = false;
  std::vector<size_t> steps = {0, 2};  // that are written, with 7, 8, …
  double stated = std::nan("");        // _FillValue
};

void write_unwritten(const std::string& path, const Unwritten& u) {
  int nc = -1, dims[3], v = -1, axis = -1;
  NC(nc_create(path.c_str(), NC_NETCDF4 | NC_CLOBBER, &nc));
  const char* const names[] = {"time", "latitude", "longitude"};
  const char* const units[] = {"hours since 2001-01-01", "degrees_north", "degrees_east"};
  const size_t sizes[] = {kHours, kLats, kLons}, chunk[] = {1, kLats, kLons};
  for (int k = 0; k < 3; ++k) {
    NC(nc_def_dim(nc, names[k], sizes[k], &dims[k]));
    NC(nc_def_var(nc, names[k], NC_DOUBLE, 1, &dims[k], &axis));
    NC(nc_put_att_text(nc, axis, "units", std::strlen(units[k]), units[k]));
    std::vector<double> values(sizes[k]);
    for (size_t i = 0; i < sizes[k]; ++i) values[i] = 3 * static_cast<double>(i);
    NC(nc_put_var_double(nc, axis, values.data()));
  }
  NC(nc_def_var(nc, "v", u.type, 3, dims, &v));
  NC(nc_def_var_chunking(nc, v, u.storage, chunk));
  if (u.deflate > 0) NC(nc_def_var_deflate(nc, v, 1, 1, u.deflate));
  if (u.checksum) NC(nc_def_var_fletcher32(nc, v, NC_FLETCHER32));
  NC(nc_def_var_endian(nc, v, u.endian));
  if (u.no_fill) NC(nc_def_var_fill(nc, v, NC_NOFILL, nullptr));
  if (!std::isnan(u.stated)) NC(nc_put_att_double(nc, v, "_FillValue", u.type, 1, &u.stated));
  for (const size_t t : u.steps) {
    const size_t start[] = {t, 0, 0};
    std::vector<double> values(kPoints);
    for (size_t i = 0; i < kPoints; ++i) values[i] = 7 + static_cast<double>(t * kPoints + i);
    NC(nc_put_vara_double(nc, v, start, chunk, values.data()));
  }
  NC(nc_close(nc));
}

void expect_gaps(const std::string& path, const std::vector<size_t>& written) {
  const data::FieldFiles files = data::open_fields(path, "data.train", {});
  for (size_t t = 0; t < kHours; ++t) {
    std::vector<float> got(kPoints, -1);
    files.at(0)->read_with_gaps(static_cast<int64_t>(t), files[0]->info().shape, got.data());
    const bool is_there = std::find(written.begin(), written.end(), t) != written.end();
    for (size_t i = 0; i < kPoints; ++i) {
      const size_t row = kLats - 1 - i / kLons;  // the file has its south first
      const auto want = static_cast<float>(7 + t * kPoints + row * kLons + i % kLons);
      if (is_there)
        EXPECT_EQ(got[i], want) << t << " " << i;
      else
        EXPECT_TRUE(std::isnan(got[i])) << t << " " << i;
    }
  }
}

TEST(Unwritten, ChunksAreMissingWhateverTheirTypeAndFilters) {
  const TempDir dir;
  const std::string file = dir / "chunks.nc";
  const nc_type types[] = {NC_FLOAT, NC_DOUBLE, NC_SHORT, NC_INT, NC_UINT64};
  for (const nc_type type : types)
    for (const int deflate : {0, 4})
      for (const int endian : {NC_ENDIAN_LITTLE, NC_ENDIAN_BIG})
        for (const double stated : {std::nan(""), 99.0}) {
          SCOPED_TRACE(type);
          write_unwritten(file, {.type = type, .deflate = deflate, .endian = endian, .stated = stated});
          expect_gaps(file, {0, 2});
        }
  write_unwritten(file, {.checksum = true});
  expect_gaps(file, {0, 2});
  write_unwritten(file, {.type = NC_BYTE, .stated = -1});
  expect_gaps(file, {0, 2});
  write_unwritten(file, {.steps = {}});
  expect_gaps(file, {});
}

TEST(Unwritten, ContiguousAndWholeVariablesAreMissing) {
  const TempDir dir;
  const std::string file = dir / "whole.nc";
  write_unwritten(file, {.storage = NC_CONTIGUOUS, .steps = {}});
  expect_gaps(file, {});
  write_unwritten(file, {.storage = NC_CONTIGUOUS});  // HDF5 allots and fills the rest
  expect_gaps(file, {0, 2});
}

TEST(Unwritten, WithoutAFillValueItIsAnError) {
  const TempDir dir;
  const std::string file = dir / "none.nc";
  for (const Unwritten& u : {Unwritten{.no_fill = true}, Unwritten{.type = NC_BYTE}}) {
    write_unwritten(file, u);
    EXPECT_NO_THROW(data::open_fields(file, "data.train", {}));
    expect_config_error(
        [&] {
          std::vector<float> got(kPoints);
          const data::FieldFiles files = data::open_fields(file, "data.train", {});
          files.at(0)->read_with_gaps(1, files[0]->info().shape, got.data());
        },
        {file, "time step 1", "was never written, and has no fill value"});
  }
}

TEST(Unwritten, TheFillValueThatHdf5FieldsGiveIsRead) {
  const TempDir dir;
  const hsize_t dims[] = {3, 1, 2, 2}, one[] = {1, 1, 2, 2}, start[] = {1, 0, 0, 0};
  const float fill = 42, values[] = {1, 2, 3, 4};
  const hid_t file = H5Fcreate((dir / "2015.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t plist = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(4, dims, nullptr);
  H5Pset_chunk(plist, 4, one);
  H5Pset_fill_value(plist, H5T_NATIVE_FLOAT, &fill);
  const hid_t set = H5Dcreate2(file, "fields", H5T_IEEE_F32BE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
  const hid_t memory = H5Screate_simple(4, one, nullptr);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, one, nullptr);
  EXPECT_GE(H5Dwrite(set, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, values), 0);
  H5Sclose(memory), H5Dclose(set), H5Pclose(plist), H5Sclose(space), H5Fclose(file);
  const data::FieldFiles files = data::open_fields(dir / "2015.h5", "data.train", {});
  std::vector<float> got(4);
  for (int64_t t = 0; t < 3; ++t) {
    files.at(0)->read(t, files[0]->info().shape, nullptr, got.data());
    EXPECT_EQ(got, t == 1 ? std::vector<float>({1, 2, 3, 4}) : std::vector<float>(4, fill)) << t;
  }
}

TEST(Compressed, FilesCompressedWholeAreToldWithTheirCommand) {
  const TempDir dir;
  const std::pair<std::string, std::string> cases[] = {{std::string("\x1f\x8b\x08\0\0\0\0\0", 8), "gunzip"},
                                                       {"BZh91AY&SY", "bunzip2"},
                                                       {std::string("\xfd"
                                                                    "7zXZ\0\0\4",
                                                                    8),
                                                        "unxz"},
                                                       {"\x28\xb5\x2f\xfd\x24\x01\x02\x03", "unzstd"}};
  for (const auto& [magic, command] : cases) {
    std::ofstream(dir / "era5.nc.z", std::ios::binary | std::ios::trunc) << magic << "more";
    expect_config_error([&] { data::open_fields(dir / "era5.nc.z", "data.train", {}); },
                        {"is compressed whole", command + " -k era5.nc.z"});
  }
}

TEST(Inspect, AnInfinityIsNoMissingValue) {
  const TempDir dir;
  const std::string file = dir / "infinite.nc";
  write_unwritten(file, {.steps = {0, 1, 2, 3}});
  int nc = -1, v = -1;
  NC(nc_open(file.c_str(), NC_WRITE, &nc));
  NC(nc_inq_varid(nc, "v", &v));
  const size_t at[] = {0, 1, 1}, beside[] = {0, 2, 1};
  const float high = std::numeric_limits<float>::infinity(), gap = std::nanf("");
  NC(nc_put_var1_float(nc, v, at, &high));
  NC(nc_put_var1_float(nc, v, beside, &gap));
  NC(nc_close(nc));
  const nlohmann::json j = data::inspect(file, {}, 1);
  EXPECT_EQ(j["fields"][0]["infinite"], 1);
  EXPECT_DOUBLE_EQ(j["fields"][0]["missing"].get<double>(), 1.0 / kPoints);
  EXPECT_NE(data::inspect_text(j).find("'v' has infinite values in the first step (1)"), std::string::npos);
}

}  // namespace
}  // namespace isobar::test
