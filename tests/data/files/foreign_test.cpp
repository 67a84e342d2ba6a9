// Damaged and malicious field files: each gives one error that names file, key and fix, whatever the
// libraries do.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "model/data/dataset.h"
#include "model/data/files/foreign.h"
#include "model/data/files/netcdf/hdf5_handle.h"
#include "model/data/files/netcdf/hdf5_writer.h"
#include "model/data/statistics/stats.h"
#include "model/data/written/inspect.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

class Foreign : public testing::Test {
 protected:
  void refused(const std::string& path, const std::vector<std::string>& parts) const {
    std::vector<std::string> all = parts;
    all.push_back(path);
    expect_config_error([&] { data::inspect(path); }, all);
    all.emplace_back("'data.train'");
    expect_config_error([&] { data::require_fields(path, "data.train", {}); }, all);
  }
  TempDir dir_;
};

hid_t create(const std::string& path) {
  return H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
}

/// A virtual dataset `name` of [4, 1, 4, 6] that maps all of `set` in `file`.
void write_virtual(const std::string& path, const std::string& name, const std::string& file,
                   const std::string& set) {
  const hsize_t dims[] = {4, 1, 4, 6};
  const hid_t f = create(path), space = H5Screate_simple(4, dims, nullptr),
              plist = H5Pcreate(H5P_DATASET_CREATE);
  ASSERT_GE(H5Pset_virtual(plist, space, file.c_str(), set.c_str(), space), 0);
  const hid_t d = H5Dcreate2(f, name.c_str(), H5T_IEEE_F32LE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
  ASSERT_GE(d, 0);
  H5Dclose(d), H5Pclose(plist), H5Sclose(space), H5Fclose(f);
}

TEST_F(Foreign, VirtualDatasetsThatMapThemselvesOrWhatIsNotThere) {
  const std::string a = dir_ / "a.h5", b = dir_ / "b.h5";
  write_virtual(a, "fields", ".", "fields");
  refused(a, {"maps itself"});
  write_virtual(a, "fields", "a.h5", "/fields");
  refused(a, {"maps itself"});
  write_virtual(a, "fields", "b.h5", "fields");  // a circular link, on which the library overflows the stack
  write_virtual(b, "fields", "a.h5", "fields");
  refused(a, {" -> "});
  fs::remove(b);
  expect_config_error([&] { data::inspect(a); },
                      {b, "No such file"});  // the library would return fill values
  ASSERT_EQ(::mkfifo(b.c_str(), 0600), 0);
  expect_config_error([&] { data::inspect(a); }, {"b.h5", "is a pipe"});
  fs::remove(b);
  write_hdf5(b, {4, 1, 4, 6}, random_floats(96));
  EXPECT_EQ(data::inspect(a)["channels"], 1);
}

TEST_F(Foreign, LinksThatLeaveTheFileOrGoRound) {
  const std::string a = dir_ / "a.h5", b = dir_ / "b.h5";
  write_hdf5(b, {4, 1, 4, 6}, random_floats(96));
  hid_t f = create(a);
  H5Lcreate_external("b.h5", "fields", f, "fields", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(f);
  refused(a, {"an external link to b.h5"});
  f = create(a);
  H5Lcreate_external("b.h5", "/", f, "other", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("/other/fields", f, "fields", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(f);
  refused(a, {"'fields'"});
  f = create(a);
  H5Lcreate_soft("/fields", f, "fields", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(f);
  refused(a, {"'fields'"});
  const std::string n = dir_ / "n.nc";
  NetcdfOptions o;
  write_netcdf(n, o, {random_packed(o)});
  f = H5Fopen(n.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  H5Lcreate_external("b.h5", "fields", f, "more", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(f);
  refused(n, {"an external link to b.h5"});
}

/// A dataset `name` of [4, 1, 4, 6] whose bytes are those of `storage`, appended to a file that is there or
/// made.
void write_external(const std::string& path, const std::string& name, const std::string& storage) {
  const hsize_t dims[] = {4, 1, 4, 6};
  const hid_t f = fs::exists(path) ? H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT) : create(path),
              space = H5Screate_simple(4, dims, nullptr), plist = H5Pcreate(H5P_DATASET_CREATE);
  ASSERT_GE(H5Pset_external(plist, storage.c_str(), 0, 4 * 4 * 6 * sizeof(float)), 0);
  const hid_t d = H5Dcreate2(f, name.c_str(), H5T_IEEE_F32LE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
  ASSERT_GE(d, 0);
  H5Dclose(d), H5Pclose(plist), H5Sclose(space), H5Fclose(f);
}

/// `fields` of [4, 1, 4, 6] and more steps, each from the next file of a pattern of names.
void write_pattern(const std::string& path, const std::string& pattern) {
  const hsize_t dims[] = {4, 1, 4, 6}, most[] = {H5S_UNLIMITED, 1, 4, 6}, one[] = {1, 1, 4, 6},
                zero[] = {0, 0, 0, 0}, count[] = {H5S_UNLIMITED, 1, 1, 1};
  const hid_t f = create(path), space = H5Screate_simple(4, dims, most),
              step = H5Screate_simple(4, one, nullptr), plist = H5Pcreate(H5P_DATASET_CREATE);
  ASSERT_GE(H5Sselect_hyperslab(space, H5S_SELECT_SET, zero, one, count, one), 0);
  ASSERT_GE(H5Pset_virtual(plist, space, pattern.c_str(), "fields", step), 0);
  const hid_t d = H5Dcreate2(f, "fields", H5T_IEEE_F32LE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
  ASSERT_GE(d, 0);
  H5Dclose(d), H5Pclose(plist), H5Sclose(step), H5Sclose(space), H5Fclose(f);
}

// A file that somebody made chooses no other file of the user's to be read, wherever in it that is said.
TEST_F(Foreign, BytesOfOtherFiles) {
  fs::create_directories(dir_ / "in/deep");
  const std::string secret = dir_ / "secret", a = dir_ / "in/a.h5", b = dir_ / "in/b.h5";
  std::ofstream(secret, std::ios::binary) << std::string(4 * 4 * 6 * sizeof(float), '0');
  write_external(a, "fields", secret);
  refused(a, {"external storage", secret});
  fs::remove(a);
  write_external(a, "fields", "../secret");
  refused(a, {"external storage"});

  const std::string whole = dir_ / "whole.h5";
  write_hdf5(whole, {4, 1, 4, 6}, random_floats(96));
  for (const std::string& source : {whole, std::string("../whole.h5"), std::string("deep/../../whole.h5")}) {
    write_virtual(a, "fields", source, "fields");
    refused(a, {"maps " + source, "not named inside of its folder"});
  }
  write_pattern(a, "part%b.h5");
  refused(a, {"a pattern of names"});

  // By way of another dataset, in this file or one beside it
  write_virtual(a, "fields", ".", "kept");
  write_external(a, "kept", secret);
  refused(a, {"'kept'", "external storage"});
  write_external(b, "kept", secret);
  write_virtual(a, "fields", "b.h5", "kept");
  refused(a, {"'kept'", "external storage"});
  write_virtual(b, "kept", whole, "fields");
  refused(a, {"maps " + whole});
  const hid_t f = create(b);
  H5Lcreate_external(whole.c_str(), "fields", f, "kept", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(f);
  refused(a, {"'kept'", "an external link to " + whole});

  write_hdf5(dir_ / "in/deep/c.h5", {4, 1, 4, 6}, random_floats(96));
  write_virtual(a, "fields", "deep/c.h5", "fields");
  EXPECT_EQ(data::inspect(a)["channels"], 1);
  ::setenv("HDF5_VDS_PREFIX", dir_.path().c_str(), 1);
  refused(a, {"HDF5_VDS_PREFIX"});
  ::unsetenv("HDF5_VDS_PREFIX");
}

TEST_F(Foreign, BytesOfOtherFilesInNetcdf) {
  const std::string n = dir_ / "n.nc", secret = dir_ / "secret";
  std::ofstream(secret, std::ios::binary) << std::string(4 * 4 * 6 * sizeof(float), '0');
  NetcdfOptions o;
  write_netcdf(n, o, {random_packed(o)});
  write_external(n, "more", secret);
  refused(n, {"'more'", "external storage", secret});
}

TEST_F(Foreign, PluginsFromTheWorkingDirectory) {
  const std::string n = dir_ / "n.nc", h = dir_ / "h.h5";
  NetcdfOptions o;
  write_netcdf(n, o, {random_packed(o)});
  write_hdf5(h, {4, 1, 4, 6}, random_floats(96));
  ::setenv("HDF5_PLUGIN_PATH", "/usr/lib/hdf5:.", 1);
  for (const std::string& path : {n, h})
    expect_config_error([&] { data::inspect(path); }, {"HDF5_PLUGIN_PATH", "'.'", "working directory"});
  ::setenv("HDF5_PLUGIN_PATH", "/usr/lib/hdf5:/opt/none", 1);
  for (const std::string& path : {n, h}) EXPECT_EQ(data::inspect(path)["channels"], 1);
  ::unsetenv("HDF5_PLUGIN_PATH");
}

// The netCDF library takes such paths for addresses: it would ask hosts, or read another file.
TEST_F(Foreign, PathsThatLookLikeAddresses) {
  NetcdfOptions o;
  const Packed values = random_packed(o);
  const fs::path before = fs::current_path();
  fs::current_path(dir_.path());
  for (const std::string path :
       {"http://localhost:9/a.nc", "file://localhost/a.nc", "s3://bucket/a.nc", "[mode=nczarr]a.nc",
        "a.nc#mode=nczarr,file.nc", "c:a.nc", "dods://h/a.nc?t[0:1]&x.nc"}) {
    SCOPED_TRACE(path);
    if (fs::path(path).has_parent_path()) fs::create_directories(fs::path(path).parent_path());
    for (const int format : {0, NC_NETCDF4}) {
      o.format = format;
      write_netcdf("plain.nc", o, {values});
      fs::rename("plain.nc", path);
      EXPECT_EQ(data::inspect(path)["channels"], 1);
    }
  }
  fs::current_path(before);
}

TEST_F(Foreign, MoreIsDeclaredThanHeld) {
  const std::string h = dir_ / "h.h5", n = dir_ / "n.nc";
  write_hdf5(h, {1 << 20, 20, 720, 1440}, std::vector<float>(),
             {.chunk = {1, 1, 720, 1440}, .deflate = 1, .steps_written = 0});
  refused(h, {"cannot hold"});
  write_hdf5(h, {uint64_t{1} << 40, 1, 1, 1}, std::vector<float>(),
             {.chunk = {1, 1, 1, 1}, .steps_written = 0});
  refused(h, {"cannot hold"});
  for (const int format : {0, NC_64BIT_OFFSET, NC_CDF5, NC_NETCDF4})
    for (const bool coordinates : {true, false}) {
      SCOPED_TRACE(std::to_string(format) + (coordinates ? " with" : " without") + " coordinates");
      int nc = -1, dims[3], v = -1;
      NC(nc_create(n.c_str(), format | NC_CLOBBER, &nc));
      NC(nc_set_fill(nc, NC_NOFILL, nullptr));
      NC(nc_def_dim(nc, "time", 1 << 29, &dims[0]));
      NC(nc_def_dim(nc, "latitude", 1, &dims[1]));
      NC(nc_def_dim(nc, "longitude", 1, &dims[2]));
      if (coordinates) NC(nc_def_var(nc, "time", NC_SHORT, 1, dims, &v));
      NC(nc_def_var(nc, "t", NC_BYTE, 3, dims, &v));
      NC(nc_close(nc));
      if (fs::file_size(n) > 4096 && format != NC_NETCDF4) fs::resize_file(n, 4096);
      refused(n, {});
    }
}

TEST_F(Foreign, AxesWithoutAPoint) {
  const std::string n = dir_ / "n.nc";
  for (const std::string empty : {"time", "latitude", "longitude"}) {
    int nc = -1, dims[3], v = -1, k = 0;
    NC(nc_create(n.c_str(), NC_NETCDF4 | NC_CLOBBER, &nc));
    for (const std::string name : {"time", "latitude", "longitude"})
      NC(nc_def_dim(nc, name.c_str(), name == empty ? NC_UNLIMITED : 3, &dims[k++]));
    NC(nc_def_var(nc, "t", NC_FLOAT, 3, dims, &v));
    NC(nc_close(nc));
    refused(n, {"holds no "});
  }
}

TEST_F(Foreign, AVariableShorterThanItsAxis) {  // the axis is as long as the longest variable along it
  const std::string n = dir_ / "n.nc";
  int nc = -1, dims[3], t = -1, q = -1;
  NC(nc_create(n.c_str(), NC_NETCDF4 | NC_CLOBBER, &nc));
  NC(nc_def_dim(nc, "time", NC_UNLIMITED, &dims[0]));
  NC(nc_def_dim(nc, "latitude", 2, &dims[1]));
  NC(nc_def_dim(nc, "longitude", 2, &dims[2]));
  NC(nc_def_var(nc, "t", NC_FLOAT, 3, dims, &t));
  NC(nc_def_var(nc, "q", NC_FLOAT, 3, dims, &q));
  const std::vector<float> x(400, 1.0f);
  const size_t start[] = {0, 0, 0}, ten[] = {10, 2, 2}, hundred[] = {100, 2, 2};
  NC(nc_put_vara_float(nc, t, start, ten, x.data()));
  NC(nc_put_vara_float(nc, q, start, hundred, x.data()));
  NC(nc_close(nc));
  refused(n, {"'t' is shorter than its axes"});
}

TEST_F(Foreign, AttributesOfPackingThatAreNoNumber) {
  const std::string n = dir_ / "n.nc";
  const auto with = [&](const std::function<void(int nc, int v)>& put) {
    NetcdfOptions o;
    write_netcdf(n, o, {random_packed(o)});
    int nc = -1, v = -1;
    NC(nc_open(n.c_str(), NC_WRITE, &nc));
    NC(nc_redef(nc));
    NC(nc_inq_varid(nc, "t", &v));
    put(nc, v);
    NC(nc_close(nc));
  };
  const double two[] = {0.1, 0.2}, nan = NAN, zero = 0;
  for (const char* name :
       {"scale_factor", "add_offset", "valid_min", "valid_max", "missing_value", "valid_range"}) {
    SCOPED_TRACE(name);
    const auto text = [&](int nc, int v) {
      nc_del_att(nc, v, name);
      NC(nc_put_att_text(nc, v, name, 4, "0.01"));
    };
    with(text);
    refused(n, {name, "'t'"});
    if (std::string(name) == "valid_range" || std::string(name) == "missing_value") continue;
    with([&](int nc, int v) { NC(nc_put_att_double(nc, v, name, NC_DOUBLE, 2, two)); });
    refused(n, {name, "'t'", "2 numbers"});
    with([&](int nc, int v) { NC(nc_put_att_double(nc, v, name, NC_DOUBLE, 1, &nan)); });
    refused(n, {"'t'"});
  }
  with([&](int nc, int v) { NC(nc_put_att_double(nc, v, "scale_factor", NC_DOUBLE, 1, &zero)); });
  refused(n, {"scale_factor 0"});
}

std::string file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Writes `value` (little-endian) `behind` bytes after the begin of `mark` (negative: before it).
void overwrite(const std::string& path, const std::string& mark, int64_t behind, uint64_t value,
               size_t width) {
  std::string bytes = file_bytes(path);
  const size_t at = bytes.find(mark);
  ASSERT_NE(at, std::string::npos);
  std::memcpy(&bytes[static_cast<size_t>(static_cast<int64_t>(at) + behind)], &value, width);
  std::ofstream(path, std::ios::binary) << bytes;
}

// The library copies as many bytes as the dataspace declares, beyond the end of its buffer.
TEST_F(Foreign, ACompactDatasetThatHoldsLessThanItDeclares) {
  const std::string h = dir_ / "h.h5";
  std::vector<float> data = random_floats(6 * 2 * 4 * 6);
  write_hdf5(h, {6, 2, 4, 6}, data, {.compact = true});
  EXPECT_EQ(data::inspect(h)["steps"], 6);
  const std::string first(reinterpret_cast<const char*>(data.data()), 16);
  overwrite(h, first, -2, 288 * sizeof(float) - 1, 2);  // its size is stored before the bytes
  refused(h, {"declares 288 numbers of 4 bytes and holds 1151 bytes"});
}

// An object of size 0 in the heap of strings, on which the library loops forever.
TEST_F(Foreign, WhatTheLibraryNeverComesToTheEndOf) {
  const std::string h = dir_ / "h.h5";
  {
    data::FieldsWriter out(h, 2, {1, 2, 2}, {"temperature"}, {"K"}, 0);
    const std::vector<float> step = random_floats(4);
    out.append(step.data());
    out.append(step.data());
    out.finish();
  }
  EXPECT_EQ(data::inspect(h)["fields"][0]["name"], "temperature");
  std::string bytes = file_bytes(h);
  size_t at = bytes.find("GCOL");
  ASSERT_NE(at, std::string::npos);
  for (at += 16; bytes[at] != 0;) {  // header and text of each; number 0 is free space
    uint64_t size = 0;
    std::memcpy(&size, &bytes[at + 8], 8);
    at += 16 + (size + 7) / 8 * 8;
    ASSERT_LT(at + 16, bytes.size());
  }
  std::memset(&bytes[at + 8], 0, 8);
  std::ofstream(h, std::ios::binary) << bytes;
  rusage before{}, after{};
  ::getrusage(RUSAGE_CHILDREN, &before);
  expect_config_error([&] { data::require_fields(h, "data.train", {}); },
                      {h, "'data.train'", "more than 10 s of processor time"});
  ::getrusage(RUSAGE_CHILDREN, &after);
  EXPECT_LT(after.ru_utime.tv_sec - before.ru_utime.tv_sec, 15);
}

/// Writes three chunks of 1 KiB, of which the middle one inflates to `mib` MiB.
void write_bomb(const std::string& path, int64_t mib, hid_t type) {
  const std::vector<float> data = random_floats(3 * 256);
  write_hdf5(path, {3, 2, 8, 16}, data, {.type = type, .chunk = {1, 2, 8, 16}, .deflate = 1});
  replace_chunk(path, {1, 0, 0, 0}, deflated_zeros(mib));
}

// Tests our own decoder and, with an odd number format, the library's.
TEST_F(Foreign, ChunksThatInflateToMoreThanAChunk) {
  const std::string h = dir_ / "h.h5";
  write_bomb(h, 3 << 10, H5T_IEEE_F32LE);
  EXPECT_LT(fs::file_size(h), 8 << 20);
  expect_config_error([&] { data::compute_statistics(h); }, {h, "time step 1", "does not inflate"});
  const hid_t odd = H5Tcopy(H5T_STD_I32LE);
  H5Tset_precision(odd, 24);
  write_bomb(h, 3 << 10, odd);
  H5Tclose(odd);
  EXPECT_LT(fs::file_size(h), 8 << 20);
  // The library reports the lack of memory, or on a slow machine the child its limit on processor time.
  expect_config_error([&] { data::compute_statistics(h); }, {h});
  try {
    data::require_fields(h, "data.train", {});
    ADD_FAILURE() << "was read";
  } catch (const ConfigError& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find(h + ": 'data.train'"), std::string::npos) << what;
    EXPECT_TRUE(what.find("cannot read 'fields'") != std::string::npos ||
                what.find("of processor time") != std::string::npos)
        << what;
  }
}

// Statistics at a run's start: one child computes them for all ranks.
TEST_F(Foreign, StatisticsOfARunAreBegunInAChild) {
  const std::string h = dir_ / "h.h5";
  const data::FieldShape shape{2, 4, 6};
  std::vector<float> data = random_floats(9 * 48, 250, 20);
  write_hdf5(h, {9, 2, 4, 6}, data, {.chunk = {1, 1, 4, 6}, .deflate = 1});
  DataSpec d;
  d.train = h;
  d.train_fraction = 0.8;
  ASSERT_TRUE(data::needs_statistics(d, shape));
  const data::Statistics known = data::begin_statistics(d, shape)();
  std::vector<float> a(2 * 48), b(2 * 48), none(2 * 48);
  data::open_dataset(d, h, data::Split::train, shape)->read(1, a.data(), a.data() + 48);
  data::open_dataset(d, h, data::Split::train, shape, &known)->read(1, b.data(), b.data() + 48);
  EXPECT_EQ(a, b);
  const data::Statistics other{{0, 0}, {1, 1}};
  data::open_dataset(d, h, data::Split::train, shape, &other)->read(1, none.data(), none.data() + 48);
  EXPECT_EQ(none[0], data[48]);

  const auto begun = [&] { data::begin_statistics(d, shape)(); };
  d.dt = 8;  // an error before any data are read
  data[3 * 48 + 5] = NAN;
  write_hdf5(h, {9, 2, 4, 6}, data);
  expect_config_error(begun, {h, "'data.dt'", "no pair of steps 8 apart"});
  d.dt = 1;
  expect_config_error(begun, {h, "'data.train'", "time step 3", "NaN"});
  d.train = dir_ / "none.h5";
  expect_config_error(begun, {d.train, "'data.train'", "no such file"});
}

// A child tries only part of the data that ranks read.
TEST_F(Foreign, ASignalOfTheLibraryIsOneLine) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto with = [](const std::string& file, int signal) {
    const data::LibraryLock lock(file);
    std::raise(signal);
  };
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT})
    EXPECT_EXIT(with("a.h5", signal), testing::ExitedWithCode(2),
                "^isobar: a.h5: ends the process that reads it with SIG[A-Z]+ -> the file is damaged");
  EXPECT_EXIT(with("", SIGSEGV), testing::KilledBySignal(SIGSEGV), "");  // its own files
  const auto elsewhere = [] {
    const data::LibraryLock lock("a.h5");
    std::thread([] { std::raise(SIGABRT); }).join();
  };
  EXPECT_EXIT(elsewhere(), testing::KilledBySignal(SIGABRT), "");
  const auto behind = [&] {
    { const data::LibraryLock lock("a.h5"); }
    std::raise(SIGSEGV);
  };
  EXPECT_EXIT(behind(), testing::KilledBySignal(SIGSEGV), "");
  const std::function<int(int)> deeper = [&](int n) -> int {  // out of stack
    volatile char room[4096];
    room[n % 4096] = 1;
    return n < 0 ? 0 : deeper(n + 1) + room[0];
  };
  const auto out_of_stack = [&] {
    const data::LibraryLock lock("a.h5");
    deeper(1);
  };
  EXPECT_EXIT(out_of_stack(), testing::ExitedWithCode(2), "a.h5: .* SIGSEGV -> ");
}

TEST_F(Foreign, WhatKillsTheReaderIsOneError) {
  const std::string h = dir_ / "h.h5";
  write_hdf5(h, {4, 1, 4, 6}, random_floats(96));
  const auto reading = [&](const std::function<void()>& harm) {
    return [&, harm] {
      data::read_foreign(h, "data.train", {}, [&](const data::FieldFiles&, const ChildProgress&) {
        harm();
        return std::string();
      });
    };
  };
  expect_config_error(reading([] { std::raise(SIGSEGV); }), {h, "'data.train'", "SIGSEGV"});
  expect_config_error(reading([] { throw std::bad_alloc(); }), {h, "'data.train'", "MiB of memory"});
  expect_config_error(reading([] { throw std::length_error("too long"); }), {h, "'data.train'", "too long"});
  expect_config_error(reading([] { std::exit(0); }), {h, "'data.train'", "exit code 0"});
}

TEST_F(Foreign, PipesDevicesAndEmptyFiles) {
  const std::string pipe = dir_ / "pipe.nc", empty = dir_ / "empty.h5";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  refused(pipe, {"is a pipe"});
  refused("/dev/zero", {"is a device"});
  std::ofstream(empty).flush();
  refused(empty, {"is empty"});
  fs::remove(empty);
  expect_config_error([&] { data::inspect(dir_.path()); }, {pipe, "is a pipe"});  // not passed over
}

/// Reading a chunked dataset stays below 20 s and 2 GB with one byte of the file changed.
TEST_F(Foreign, EveryByteOfTheMetadataMayBeWrong) {
  const std::string h = dir_ / "h.h5", bad = dir_ / "bad.h5";
  write_hdf5(h, {3, 1, 4, 6}, random_floats(72), {.chunk = {1, 1, 4, 6}, .shuffle = true, .deflate = 1});
  std::ifstream in(h, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  for (size_t at = 0; at < bytes.size(); at += 7) {
    std::string other = bytes;
    other[at] = static_cast<char>(at % 2 ? 0xff : other[at] ^ (1 << random_int(0, 7)));
    std::ofstream(bad, std::ios::binary) << other;
    try {
      data::require_fields(bad, "data.train", {});
    } catch (const ConfigError& e) {
      ASSERT_NE(std::string(e.what()).find(bad), std::string::npos) << e.what();
      ASSERT_NE(std::string(e.what()).find(" -> "), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace isobar::test
