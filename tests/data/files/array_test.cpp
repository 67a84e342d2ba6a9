// Raw arrays: in every layout a slab equals the HDF5 library's own read.
#include <gtest/gtest.h>

#include <fcntl.h>

#include <cmath>
#include <fstream>
#include <thread>

#include "model/data/fields/slab.h"
#include "model/data/files/element.h"
#include "model/data/files/netcdf/hdf5_array.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

std::vector<hsize_t> random_dims(int rank, int64_t most) {
  std::vector<hsize_t> d;
  for (int k = 0; k < rank; ++k) d.push_back(static_cast<hsize_t>(random_int(1, most)));
  return d;
}

/// Reads random slabs of the file and compares each element with `data`.
template <class T>
void expect_slabs(const data::Hdf5Array& array, const std::vector<hsize_t>& dims, const std::vector<T>& data,
                  int slabs) {
  const data::Index all(dims.begin(), dims.end());
  ASSERT_EQ(array.dims(), all);
  const data::Index strides = data::strides_of(all);
  for (int i = 0; i < slabs; ++i) {
    data::Index start, count;
    for (int64_t d : all) {
      start.push_back(random_int(0, d - 1));
      count.push_back(random_int(1, d - start.back()));
    }
    std::vector<T> got(data::product(count), static_cast<T>(-99));
    array.read(start, count, got.data());
    const data::Index box = data::strides_of(count);
    for (int64_t at = 0; at < data::product(count); ++at) {
      int64_t from = 0;
      for (size_t k = 0; k < all.size(); ++k) from += (start[k] + at / box[k] % count[k]) * strides[k];
      ASSERT_EQ(got[at], data[from]) << "element " << at;
    }
  }
}

struct Case {
  const char* name;
  Hdf5Options options;
  bool chunked, parallel;
};

TEST(Hdf5Array, SlabsEqualTheDataInEveryLayout) {
  const Case cases[] = {
      {"contiguous", {}, false, true},
      {"chunked", {}, true, true},
      {"deflate", {.deflate = 4}, true, true},
      {"shuffle", {.shuffle = true}, true, true},
      {"shuffle and deflate", {.shuffle = true, .deflate = 1}, true, true},
      {"big-endian", {.type = H5T_IEEE_F32BE}, false, true},
      {"big-endian, shuffle and deflate",
       {.type = H5T_IEEE_F32BE, .shuffle = true, .deflate = 1},
       true,
       true},
      {"fletcher32", {.fletcher = true}, true, true},
      {"shuffle, deflate and fletcher32", {.shuffle = true, .fletcher = true, .deflate = 1}, true, true},
      {"compact", {.compact = true}, false, false},
      {"user block", {.user_block = 512}, false, true},
      {"user block, chunked", {.deflate = 1, .user_block = 512}, true, false},
  };
  TempDir dir;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    for (int rank = 1; rank <= 4; ++rank) {
      const auto dims = random_dims(rank, 9);
      Hdf5Options o = c.options;
      if (c.chunked)
        for (hsize_t d : dims)
          o.chunk.push_back(static_cast<hsize_t>(random_int(1, static_cast<int64_t>(d))));
      const auto data = random_floats(volume(dims));
      write_hdf5(dir / "a.h5", dims, data, o);
      const data::Hdf5Array array(dir / "a.h5", "fields", std::make_shared<data::ChunkCache>(1 << 20));
      EXPECT_EQ(array.layout().parallel(), c.parallel);
      expect_slabs(array, dims, data, 20);
    }
  }
}

TEST(Hdf5Array, OtherElementTypes) {
  TempDir dir;
  const std::vector<hsize_t> dims = {5, 4, 3};
  std::vector<double> d(60);
  std::vector<int16_t> s(60);
  for (int i = 0; i < 60; ++i)
    d[i] = std::ldexp(random_int(-1000, 1000), -3), s[i] = static_cast<int16_t>(random_int(-32768, 32767));
  const auto open = [&] {
    return data::Hdf5Array(dir / "a.h5", "fields", std::make_shared<data::ChunkCache>(1 << 20));
  };
  for (hid_t type : {H5T_IEEE_F64LE, H5T_IEEE_F64BE}) {
    write_hdf5(dir / "a.h5", dims, d, {.type = type});
    const data::Hdf5Array a = open();
    EXPECT_EQ(a.element(), data::Element::f64);
    expect_slabs(a, dims, d, 20);
  }
  for (hid_t type : {H5T_STD_I16LE, H5T_STD_I16BE}) {
    write_hdf5(dir / "a.h5", dims, s, {.type = type, .chunk = {2, 3, 2}, .shuffle = true, .deflate = 1});
    const data::Hdf5Array a = open();
    EXPECT_EQ(a.element(), data::Element::i16);
    expect_slabs(a, dims, s, 20);
  }
  const hid_t half = H5Tcopy(H5T_IEEE_F32LE);  // IEEE half precision
  H5Tset_fields(half, 15, 10, 5, 0, 10);
  H5Tset_size(half, 2);
  H5Tset_ebias(half, 15);
  std::vector<double> rounded = d;  // |d| <= 125 with 3 binary places: 10 bits hold the smaller ones exactly
  for (double& x : rounded) {
    const double ulp = std::ldexp(1.0, std::max(-24, std::ilogb(x == 0 ? 1 : x) - 10));
    x = std::nearbyint(x / ulp) * ulp;
  }
  for (const bool compact : {false, true}) {  // compact: HDF5 converts it, behind the lock
    write_hdf5(dir / "a.h5", dims, d, {.type = half, .compact = compact});
    const data::Hdf5Array a = open();
    EXPECT_EQ(a.element(), compact ? data::Element::f64 : data::Element::f16);
    EXPECT_EQ(a.layout().parallel(), !compact);
    if (compact) {
      expect_slabs(a, dims, rounded, 20);
      continue;
    }
    std::vector<uint16_t> raw(60);
    a.read({0, 0, 0}, {5, 4, 3}, raw.data());
    for (size_t i = 0; i < raw.size(); ++i)
      EXPECT_EQ(data::as_double(&raw[i], data::Element::f16), rounded[i]) << i;
  }
  H5Tclose(half);
}

TEST(Hdf5Array, ChunksOverSeveralStepsAreCachedAndStillRight) {
  TempDir dir;
  const std::vector<hsize_t> dims = {64, 3, 5, 7};
  const auto data = random_floats(volume(dims));
  write_hdf5(dir / "a.h5", dims, data, {.chunk = {16, 3, 5, 4}, .shuffle = true, .deflate = 1});
  for (int64_t budget : {0, 2000, 1 << 20}) {  // budgets for no chunk, one chunk, all chunks
    const data::Hdf5Array array(dir / "a.h5", "fields", std::make_shared<data::ChunkCache>(budget));
    expect_slabs(array, dims, data, 200);
  }
}

TEST(Hdf5Array, ManyThreadsReadTheSameData) {
  TempDir dir;
  const std::vector<hsize_t> dims = {100, 2, 8, 9};
  const auto data = random_floats(volume(dims));
  write_hdf5(dir / "parallel.h5", dims, data, {.chunk = {3, 1, 8, 9}, .shuffle = true, .deflate = 1});
  write_hdf5(dir / "locked.h5", dims, data, {.chunk = {3, 1, 8, 9}, .deflate = 1, .user_block = 512});
  auto cache = std::make_shared<data::ChunkCache>(8000);
  for (const char* name : {"parallel.h5", "locked.h5"}) {
    const data::Hdf5Array array(dir / name, "fields", cache);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int w = 0; w < 4; ++w)
      threads.emplace_back([&, w] {
        std::vector<float> got(144);
        for (int64_t i = 0; i < 100; ++i) {
          const int64_t t = (i * 37 + w * 11) % 100;
          std::fill(got.begin(), got.end(), NAN);
          array.read({t, 0, 0, 0}, {1, 2, 8, 9}, got.data());
          wrong += !std::equal(got.begin(), got.end(), data.begin() + t * 144);
        }
      });
    for (auto& t : threads) t.join();
    EXPECT_EQ(wrong, 0) << name;
  }
}

TEST(Hdf5Array, ThousandsOfChunks) {
  TempDir dir;
  const std::vector<hsize_t> dims = {9000, 1, 2, 3};
  const auto data = random_floats(volume(dims));
  write_hdf5(dir / "a.h5", dims, data, {.chunk = {1, 1, 2, 3}, .deflate = 1});
  const data::Hdf5Array array(dir / "a.h5", "fields", std::make_shared<data::ChunkCache>(1 << 20));
  for (int64_t t : {8999, 0, 4096, 4095, 17, 5000}) {
    std::vector<float> got(6, NAN);
    array.read({t, 0, 0, 0}, {1, 1, 2, 3}, got.data());
    EXPECT_TRUE(std::equal(got.begin(), got.end(), data.begin() + t * 6)) << t;
  }
}

TEST(Hdf5Array, CorruptAndMissingChunksAreNoticed) {
  TempDir dir;
  const std::vector<hsize_t> dims = {4, 1, 16, 16};
  const auto data = random_floats(volume(dims));
  write_hdf5(dir / "part.h5", dims, data, {.chunk = {1, 1, 16, 16}, .deflate = 1, .steps_written = 2});
  const data::Hdf5Array part(dir / "part.h5", "fields", std::make_shared<data::ChunkCache>(1 << 20));
  std::vector<float> got(256);
  EXPECT_NO_THROW(part.read({1, 0, 0, 0}, {1, 1, 16, 16}, got.data()));
  EXPECT_THROW(part.read({2, 0, 0, 0}, {1, 1, 16, 16}, got.data()), data::ArrayError);
  write_hdf5(dir / "locked.h5", dims, data,
             {.chunk = {1, 1, 16, 16}, .deflate = 1, .steps_written = 2, .user_block = 512});
  EXPECT_THROW(data::Hdf5Array(dir / "locked.h5", "fields", nullptr), data::ArrayError);
  write_hdf5(dir / "never.h5", dims, data, {.steps_written = 0});
  EXPECT_THROW(data::Hdf5Array(dir / "never.h5", "fields", nullptr), data::ArrayError);

  write_hdf5(dir / "bad.h5", dims, data, {.chunk = {1, 1, 16, 16}, .deflate = 1});
  const auto size = fs::file_size(dir / "bad.h5");
  std::fstream f(dir / "bad.h5", std::ios::in | std::ios::out | std::ios::binary);
  f.seekp(static_cast<std::streamoff>(size - 500));  // inside of the last chunk
  f.write(std::string(64, '\xff').data(), 64);
  f.close();
  const data::Hdf5Array bad(dir / "bad.h5", "fields", std::make_shared<data::ChunkCache>(1 << 20));
  int failures = 0;
  for (int64_t t = 0; t < 4; ++t) try {
      bad.read({t, 0, 0, 0}, {1, 1, 16, 16}, got.data());
    } catch (const data::ArrayError&) {
      ++failures;
    }
  EXPECT_GE(failures, 1);
}

TEST(Slab, BoxesWithLargeGapsAreReadRunByRun) {
  TempDir dir;
  const data::Index dims = {3, 4, 700, 300};  // one value of the last axis: 300 apart, too far for one read
  std::vector<float> data(data::product(dims));
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
  std::ofstream(dir / "raw", std::ios::binary)
      .write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size() * 4));
  const int fd = ::open((dir / "raw").c_str(), O_RDONLY);
  const data::Index count = {2, 3, 650, 1}, start = {1, 0, 30, 123};
  std::vector<float> got(data::product(count), -1);
  data::read_box(fd, 0, dims, start, count, 4, reinterpret_cast<std::byte*>(got.data()),
                 data::strides_of(count));
  double beyond = 0;
  EXPECT_THROW(data::read_exactly(fd, &beyond, 8, static_cast<int64_t>(data.size()) * 4 - 4),
               data::ArrayError);
  ::close(fd);
  size_t at = 0;
  for (int64_t a = 1; a < 3; ++a)
    for (int64_t b = 0; b < 3; ++b)
      for (int64_t c = 30; c < 680; ++c) {
        ASSERT_EQ(got[at], static_cast<float>(((a * 4 + b) * 700 + c) * 300 + 123));
        ++at;
      }
}

// Boxes that are one run of the file, several rows, or single values far apart.
TEST(Slab, EveryByteIsToldOfOnceInOrderWhenItIsThere) {
  TempDir dir;
  const data::Index dims = {3, 5, 170, 300};
  std::vector<float> data = random_floats(data::product(dims));
  std::ofstream(dir / "raw", std::ios::binary)
      .write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size() * 4));
  const int fd = ::open((dir / "raw").c_str(), O_RDONLY);
  for (int round = 0; round < 60; ++round) {
    data::Index start(4), count(4);
    for (size_t k = 0; k < 4; ++k) {
      const bool whole = random_int(0, 2) > 0, one = random_int(0, 3) == 0;
      start[k] = whole && !one ? 0 : random_int(0, dims[k] - 1);
      count[k] = one ? 1 : whole ? dims[k] : random_int(1, dims[k] - start[k]);
    }
    std::vector<float> got(data::product(count), -1), told;
    auto* const out = reinterpret_cast<std::byte*>(got.data());
    data::read_box(fd, 0, dims, start, count, 4, out, data::strides_of(count),
                   [&](const std::byte* at, int64_t bytes) {
                     ASSERT_EQ(at - out, static_cast<int64_t>(told.size()) * 4);
                     const auto* from = reinterpret_cast<const float*>(at);
                     told.insert(told.end(), from, from + bytes / 4);
                   });
    ASSERT_EQ(told, got);
    std::vector<float> want(got.size());
    const int64_t first = start[0] * 255000 + start[1] * 51000 + start[2] * 300 + start[3];
    data::copy_box(count, 4, reinterpret_cast<const std::byte*>(data.data() + first), data::strides_of(dims),
                   reinterpret_cast<std::byte*>(want.data()), data::strides_of(count));
    ASSERT_EQ(got, want);
  }
  ::close(fd);
}

template <class T>
void check_unpack(data::Element e) {
  const int64_t n = 100;
  std::vector<T> raw(n);
  for (T& x : raw) x = static_cast<T>(random_int(0, 100));
  data::Packing p{.scale = 0.25, .offset = -7, .lowest = 0, .highest = 100};
  p.missing[0] = 120;
  std::vector<float> out(n, NAN);
  EXPECT_EQ(data::unpack(raw.data(), e, n, p, out.data()), -1) << data::name_of(e);
  for (int64_t i = 0; i < n; ++i) EXPECT_EQ(out[i], static_cast<float>(raw[i]) * 0.25f - 7);
  raw[61] = 120;
  raw[77] = 101;
  EXPECT_EQ(data::unpack(raw.data(), e, n, p, out.data()), 61) << data::name_of(e);
  raw[61] = 1;
  EXPECT_EQ(data::unpack(raw.data(), e, n, p, out.data()), 77) << data::name_of(e);
}

TEST(Element, UnpackScalesAndFindsTheFirstMissingValue) {
  check_unpack<int8_t>(data::Element::i8);
  check_unpack<uint8_t>(data::Element::u8);
  check_unpack<int16_t>(data::Element::i16);
  check_unpack<uint16_t>(data::Element::u16);
  check_unpack<int32_t>(data::Element::i32);
  check_unpack<uint32_t>(data::Element::u32);
  check_unpack<int64_t>(data::Element::i64);
  check_unpack<uint64_t>(data::Element::u64);
  check_unpack<float>(data::Element::f32);
  check_unpack<double>(data::Element::f64);
}

TEST(Element, AMissingValueBesideAFillOfNaNIsFound) {
  std::vector<float> x(100, 1), out(100);
  data::Packing p;
  p.missing[1] = -999;  // missing_value; _FillValue, the first, is NaN
  EXPECT_EQ(data::unpack(x.data(), data::Element::f32, 100, p, out.data()), -1);
  x[42] = -999;
  EXPECT_EQ(data::unpack(x.data(), data::Element::f32, 100, p, out.data()), 42);
}

}  // namespace
}  // namespace isobar::test
