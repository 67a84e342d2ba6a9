// Codecs of numcodecs in both versions of Zarr, and HDF5's filters, on data that the original libraries wrote
// (tests/fixtures/make_codecs.py), intact and damaged.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "model/base/system/files.h"
#include "model/data/fields/field_file.h"
#include "model/data/files/decompress.h"
#include "model/data/files/netcdf/hdf5_array.h"
#include "model/data/files/zarr/zarr_codecs.h"
#include "tests/data/files.h"
#include "tests/paths.h"

namespace isobar::test {
namespace {

constexpr int64_t kCodecSteps = 4, kCodecRows = 7, kCodecColumns = 9,
                  kCodecPlane = kCodecRows * kCodecColumns;

/// make_zarr.py's rule
double codec_value(int64_t seed, int64_t i) {
  return static_cast<double>((i * 7919 + seed * 104729) % 4001) * 0.25 - 100.0;
}

std::string codec_fixture(const std::string& name) {
  return source_dir() + "/tests/fixtures/" + name;
}

struct CodecCase {
  std::string name;
  bool whole = false;  // numbers without a fraction
  double within = 0;   // what the codec loses
};
const std::vector<CodecCase> kCodecCases = {{"lz4"},         {"shuffled"},
                                            {"delta", true}, {"narrow", true},
                                            {"scaled"},      {"quantized", false, 0.05},
                                            {"astype"},      {"bitround", false, 0.01},
                                            {"crc32"},       {"adler32"},
                                            {"fletcher32"},  {"half", false, 0.5}};

TEST(Codecs, OfNumcodecsInBothVersionsOfZarr) {
  for (const char* version : {"2", "3"})
    for (size_t seed = 0; seed < kCodecCases.size(); ++seed) {
      const CodecCase& w = kCodecCases[seed];
      const data::FieldFiles files =
          data::open_fields(codec_fixture(std::string("codecs") + version + ".zip"), "data.train", {w.name});
      const data::FieldInfo& info = files.at(0)->info();
      EXPECT_EQ(info.latitude.front(), 60);
      for (int64_t t = 0; t < kCodecSteps; ++t) {
        std::vector<float> got(kCodecPlane);
        files[0]->read(t, info.shape, nullptr, got.data());
        for (int64_t i = 0; i < kCodecPlane; ++i) {
          const double x = codec_value(static_cast<int64_t>(seed), t * kCodecPlane + i),
                       want = w.whole ? std::trunc(x) : x;
          ASSERT_NEAR(static_cast<double>(got[i]), want, w.within * std::max(1.0, std::abs(want) / 100))
              << version << " " << w.name << " step " << t << " at " << i;
        }
      }
    }
}

TEST(Codecs, FiltersOfHdf5AreUndoneWithoutTheLibrary) {
  const char* const names[] = {"zstd", "lz4", "blosc", "lzf", "sums", "sum", "half", "half_big"};
  for (int64_t seed = 0; seed < 8; ++seed) {
    const data::Hdf5Array array(codec_fixture("filters.h5"), names[seed],
                                std::make_shared<data::ChunkCache>(1 << 20));
    EXPECT_TRUE(array.layout().parallel()) << names[seed] << ": " << array.layout().locked_because;
    const int64_t n = kCodecSteps * kCodecPlane;
    std::vector<std::byte> raw(static_cast<size_t>(n * data::size_of(array.element())));
    array.read({0, 0, 0}, {kCodecSteps, kCodecRows, kCodecColumns}, raw.data());
    std::vector<float> got(static_cast<size_t>(n));
    data::unpack(raw.data(), array.element(), n, {}, got.data());
    const double within = seed >= 6 ? 0.25 : 0;
    for (int64_t i = 0; i < n; ++i)
      ASSERT_NEAR(static_cast<double>(got[i]), codec_value(seed, i), within) << names[seed] << " at " << i;
  }
}

/// Bytes with random repetitions, which lz4 and lzf compress
std::string compressible(int64_t n) {
  std::string s;
  while (static_cast<int64_t>(s.size()) < n)
    s += s.size() > 8 && random_int(0, 1)
             ? s.substr(static_cast<size_t>(random_int(0, 8)), 40)
             : std::string(static_cast<size_t>(random_int(1, 9)), static_cast<char>(random_int(0, 255)));
  s.resize(static_cast<size_t>(n));
  return s;
}

/// An lz4 block by hand: literals, then copies of one byte's run
TEST(Codecs, AnLz4BlockByHand) {
  // "abc", 10 more of "abcabc…" from 3 back, and "xyz12" as the last literals
  const unsigned char block[] = {0x36, 'a', 'b', 'c', 3, 0, 0x50, 'x', 'y', 'z', '1', '2'};
  const data::Stored in(reinterpret_cast<const std::byte*>(block), sizeof block);
  std::string out(18, '?');
  ASSERT_EQ(data::unlz4(in, reinterpret_cast<std::byte*>(out.data()), 18), 18);
  EXPECT_EQ(out, "abcabcabcabcaxyz12");
  EXPECT_THROW(data::unlz4(in, reinterpret_cast<std::byte*>(out.data()), 17), data::ArrayError);
  for (size_t cut = 1; cut < sizeof block; ++cut) {
    if (cut == 4) continue;  // valid: a block may end with its literals
    EXPECT_THROW(data::unlz4(in.first(cut), reinterpret_cast<std::byte*>(out.data()), 18), data::ArrayError)
        << cut;
  }
}

TEST(Codecs, TornBytesAreOneErrorOrShorter) {
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = compressible(random_int(1, 80));
    for (char& c : bytes)
      if (random_int(0, 3) == 0) c = static_cast<char>(random_int(0, 255));
    const data::Stored in(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
    std::vector<std::byte> out(64 + 8, std::byte{0x5a});
    for (const auto undo : {data::unlz4, data::unlzf, data::unzstd, data::unblosc}) {
      try {
        EXPECT_LE(undo(in, out.data(), 64), 64);
      } catch (const data::ArrayError& e) {
        EXPECT_NE(std::string(e.what()).find("does not decode"), std::string::npos);
      }
      for (size_t i = 64; i < out.size(); ++i) ASSERT_EQ(out[i], std::byte{0x5a}) << "beyond its room";
    }
  }
}

TEST(Codecs, AChecksumThatDiffersIsAnError) {
  const std::string store = codec_fixture("codecs2.zip");
  for (const char* sum : {"crc32", "adler32", "fletcher32", "crc32c"}) {
    const data::ZarrCodecs codecs = data::zarr2_codecs(nullptr, {{{"id", sum}}});
    const std::string data = "12345678";
    std::vector<std::byte> stored(12), out(8);
    std::memcpy(stored.data(), data.data(), 8);
    EXPECT_THROW(codecs.decode(stored, out.data(), 8), data::ArrayError) << sum;
  }
}

TEST(Codecs, WhatIsNotReadIsNamed) {
  const auto named = [](const nlohmann::json& codecs, const std::string& what) {
    try {
      data::zarr3_codecs(codecs);
      ADD_FAILURE() << what;
    } catch (const data::ArrayError& e) {
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
    }
  };
  named({{{"name", "bytes"}}, {{"name", "numcodecs.pcodec"}}}, "'numcodecs.pcodec'");
  named({{{"name", "numcodecs.delta"}, {"configuration", {{"dtype", ">f4"}}}}, {{"name", "bytes"}}}, "'>f4'");
  named({{{"name", "numcodecs.delta"}, {"configuration", {{"dtype", "<f4"}}}},
         {{"name", "bytes"}, {"configuration", {{"endian", "big"}}}}},
        "big-endian");
}

}  // namespace
}  // namespace isobar::test
