// Zarr written by zarr-python (tests/fixtures/make_zarr.py): every codec, both versions, in a directory and
// in a zip; truncated and missing chunks.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <zip.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "model/base/system/files.h"
#include "model/data/fields/field_file.h"
#include "model/data/files/foreign.h"
#include "model/data/written/inspect.h"
#include "tests/data/files.h"
#include "tests/paths.h"

namespace isobar::test {
namespace {

constexpr int64_t kSteps = 5, kLevels = 3, kRows = 7, kColumns = 9, kPlane = kRows * kColumns;

/// make_zarr.py's rule
float value_of(int64_t seed, int64_t i) {
  return static_cast<float>((i * 7919 + seed * 104729) % 4001) * 0.25f - 100.0f;
}

void unpack_zip(const std::string& from, const fs::path& to) {
  zip_t* zip = zip_open(from.c_str(), ZIP_RDONLY, nullptr);
  ASSERT_NE(zip, nullptr) << from;
  for (zip_int64_t i = 0; i < zip_get_num_entries(zip, 0); ++i) {
    zip_stat_t about;
    ASSERT_EQ(zip_stat_index(zip, static_cast<zip_uint64_t>(i), 0, &about), 0);
    std::string bytes(about.size, '\0');
    zip_file_t* file = zip_fopen_index(zip, static_cast<zip_uint64_t>(i), 0);
    ASSERT_EQ(zip_fread(file, bytes.data(), bytes.size()), static_cast<zip_int64_t>(bytes.size()));
    zip_fclose(file);
    fs::create_directories((to / about.name).parent_path());
    std::ofstream(to / about.name, std::ios::binary) << bytes;
  }
  zip_discard(zip);
}

std::string fixture(int version) {
  return source_dir() + "/tests/fixtures/zarr" + std::to_string(version) + ".zip";
}

std::string fixture_in(const TempDir& dir, int version) {
  const std::string path = dir / ("v" + std::to_string(version) + ".zarr");
  unpack_zip(fixture(version), path);
  return path;
}

std::vector<std::string> codecs(int version) {
  return version == 2
             ? std::vector<std::string>{"raw", "blosclz", "blosclz4", "bloscz", "zlib", "zstd", "gzip"}
             : std::vector<std::string>{"raw", "blosclz", "blosclz4", "sharded", "gzip", "zstd", "bigendian"};
}

void damage(const std::string& file, const std::function<void(std::string&)>& change) {
  std::string bytes = read_file(file);
  change(bytes);
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

std::vector<float> step_of(const data::FieldFile& file, int64_t t) {
  std::vector<float> out(static_cast<size_t>(file.info().shape.size()));
  file.read(t, file.info().shape, nullptr, out.data());
  return out;
}

void expect_fixture(const std::string& path, int version) {
  for (size_t seed = 0; seed < codecs(version).size(); ++seed) {
    const std::string name = codecs(version)[seed];
    const data::FieldFiles files = data::open_fields(path, "data.train", {name});
    const data::FieldInfo& info = files.at(0)->info();
    EXPECT_EQ(info.format, "Zarr " + std::to_string(version));
    EXPECT_EQ(info.channels, (std::vector<std::string>{name + "500", name + "850", name + "1000"}));
    EXPECT_EQ(info.units, (std::vector<std::string>{"K", "K", "K"}));
    EXPECT_EQ(info.times, (std::vector<double>{0, 6, 12, 18, 24}));
    EXPECT_EQ(info.latitude.front(), 60);
    ASSERT_EQ(info.shape.size(), kLevels * kPlane);
    for (int64_t t = 0; t < kSteps; ++t) {
      const std::vector<float> got = step_of(*files[0], t);
      for (int64_t i = 0; i < kLevels * kPlane; ++i)
        ASSERT_EQ(got[i], value_of(static_cast<int64_t>(seed), t * kLevels * kPlane + i))
            << path << " " << name << " step " << t << " at " << i;
    }
    // A corner crosses chunks differently.
    std::vector<float> corner(static_cast<size_t>(kLevels * 6 * 5));
    files[0]->read(3, {kLevels, 6, 5}, nullptr, corner.data());
    for (int64_t i = 0; i < kLevels * 30; ++i)
      ASSERT_EQ(corner[i], value_of(static_cast<int64_t>(seed),
                                    ((3 * kLevels + i / 30) * kRows + i / 5 % 6) * kColumns + i % 5))
          << name;
  }
  const data::FieldFiles packed = data::open_fields(path, "data.train", {"packed"});
  for (int64_t t = 0; t < kSteps; ++t) {
    const std::vector<float> got = step_of(*packed.at(0), t);
    for (int64_t i = 0; i < kPlane; ++i)
      ASSERT_EQ(got[i], static_cast<float>(static_cast<double>((t * kPlane + i) % 1000) * 0.5 + 10));
  }
}

TEST(Zarr, EveryCodecOfBothVersionsInADirectoryAndInAZip) {
  const TempDir dir;
  for (const int version : {2, 3}) {
    expect_fixture(fixture(version), version);
    expect_fixture(fixture_in(dir, version), version);
  }
}

TEST(Zarr, ThreadsReadAtOnce) {
  for (const int version : {2, 3}) {
    const data::FieldFiles files = data::open_fields(fixture(version), "data.train", {"blosclz4"});
    const std::vector<float> want = step_of(*files.at(0), 2);
    std::vector<std::thread> threads;
    std::vector<int> wrong(4, 0);
    for (size_t k = 0; k < wrong.size(); ++k)
      threads.emplace_back([&, k] {
        for (int i = 0; i < 50; ++i) wrong[k] += step_of(*files[0], 2) != want;
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(wrong, std::vector<int>(4, 0));
  }
}

TEST(Zarr, ATornOrChangedChunkIsOneErrorThatNamesIt) {
  const auto cut = [](std::string& bytes) { bytes.resize(bytes.size() / 2); };
  const auto flip = [](std::string& bytes) { bytes[bytes.size() / 2] ^= 0x10; };
  struct Case {
    int version;
    std::string variable, chunk;
    std::function<void(std::string&)> change;
    bool checked = true;  // a flipped bit shows: there is a checksum
  };
  for (const Case& c : {Case{2, "raw", "raw/1.0.0.0", cut}, Case{2, "blosclz", "blosclz/1.0.0.0", cut},
                        Case{2, "zlib", "zlib/0.0.0.0", cut}, Case{2, "zstd", "zstd/1.0.0.0", cut},
                        Case{2, "gzip", "gzip/1.0.0.0", flip}, Case{3, "gzip", "gzip/c/0/0/0/0", flip},
                        Case{3, "sharded", "sharded/c/0/0/0/0", cut}, Case{3, "raw", "raw/c/1/0/0/0", cut}}) {
    const TempDir dir;
    const std::string store = fixture_in(dir, c.version);
    damage(store + "/" + c.chunk, c.change);
    const data::FieldFiles files = data::open_fields(store, "data.train", {c.variable});
    expect_config_error([&] { step_of(*files.at(0), 1); },
                        {store, "'data.train'", "time step 1", "'" + c.variable, c.chunk});
  }
}

TEST(Zarr, AChunkThatIsNotThereIsFillValue) {
  const TempDir dir;
  const std::string store = fixture_in(dir, 2);
  fs::remove(store + "/raw/1.0.0.0");   // NaN
  fs::remove(store + "/packed/0.0.0");  // -32767, which is missing
  const data::FieldFiles raw = data::open_fields(store, "data.train", {"raw"}),
                         packed = data::open_fields(store, "data.train", {"packed"});
  expect_config_error([&] { step_of(*raw.at(0), 1); }, {store, "time step 1, channel 'raw500'", "NaN"});
  expect_config_error([&] { step_of(*packed.at(0), 0); },
                      {store, "time step 0, channel 'packed'", "missing value"});
  EXPECT_EQ(step_of(*raw[0], 2)[0], value_of(0, 2 * kLevels * kPlane));
  std::vector<float> gaps(kPlane);
  packed[0]->read_with_gaps(1, packed[0]->info().shape, gaps.data());
  EXPECT_TRUE(std::isnan(gaps[0]));
  EXPECT_EQ(gaps[8], static_cast<float>((kPlane + 8) % 1000 * 0.5 + 10));
}

std::string base64_of(double x) {  // as xarray writes _FillValue in Zarr 3, whatever the array holds
  unsigned char bytes[8], text[16] = {};
  std::memcpy(bytes, &x, sizeof x);
  EVP_EncodeBlock(text, bytes, sizeof bytes);
  return reinterpret_cast<const char*>(text);
}

TEST(Zarr, TheFillValueOfXarrayInVersion3IsADouble) {
  const TempDir dir;
  const std::string store = fixture_in(dir, 3);
  const int64_t hole = random_int(0, kPlane - 1), seed = 0, step = 1;
  const auto with = [&](const nlohmann::json& fill) {
    const std::string about = store + "/raw/zarr.json";
    nlohmann::json j = nlohmann::json::parse(read_file(about));
    j["attributes"]["_FillValue"] = fill;
    std::ofstream(about) << j;
    nlohmann::json root = nlohmann::json::parse(read_file(store + "/zarr.json"));
    root.erase("consolidated_metadata");
    std::ofstream(store + "/zarr.json") << root;
  };
  const auto missing = [&] {
    const data::FieldFiles files = data::open_fields(store, "data.train", {"raw"});
    std::vector<float> got(static_cast<size_t>(files.at(0)->info().shape.size()));
    files[0]->read_with_gaps(step, files[0]->info().shape, got.data());
    int64_t n = 0;
    for (int64_t i = 0; i < kLevels * kPlane; ++i) {
      const float want = value_of(seed, step * kLevels * kPlane + i);
      if (std::isnan(got[i]))
        ++n;
      else
        EXPECT_EQ(got[i], want);
    }
    EXPECT_TRUE(n == 0 || std::isnan(got[hole]));
    return n;
  };
  const auto at_hole = static_cast<double>(value_of(seed, step * kLevels * kPlane + hole));
  with(base64_of(at_hole));
  EXPECT_GE(missing(), 1);
  with(at_hole);
  EXPECT_GE(missing(), 1);
  with(base64_of(std::nan("")));  // its first half is 0, which is a value
  damage(store + "/raw/c/1/0/0/0", [](std::string& s) { std::memset(s.data(), 0, 4); });
  const data::FieldFiles files = data::open_fields(store, "data.train", {"raw"});
  EXPECT_EQ(step_of(*files.at(0), 1)[0], 0.0f);
  with("-999 K");
  expect_config_error([&] { data::open_fields(store, "data.train", {"raw"}); },
                      {store, "'raw'", "_FillValue", "another type than numbers"});
}

// Python's json writes them, and zarr-python with it.
TEST(Zarr, NumbersThatJsonDoesNotHaveAreRead) {
  for (const int version : {2, 3}) {
    const TempDir dir;
    const std::string store = fixture_in(dir, version);
    const float value = value_of(0, random_int(0, kPlane - 1));
    const std::string more = "\"note\": \"NaN, \\\"Infinity\\\"\", \"missing_value\": [NaN, " +
                             std::to_string(value) +
                             "], \"valid_range\": [-Infinity, Infinity], \"standard_name\": null, ";
    if (version == 2) {
      fs::remove(store + "/.zmetadata");
      damage(store + "/raw/.zattrs", [&](std::string& s) { s.insert(s.find('{') + 1, more); });
    } else {
      damage(store + "/zarr.json", [](std::string& s) {
        nlohmann::json root = nlohmann::json::parse(s);
        root.erase("consolidated_metadata");
        s = root.dump();
      });
      damage(store + "/raw/zarr.json",
             [&](std::string& s) { s.insert(s.find('{', s.find("\"attributes\"")) + 1, more); });
    }
    const data::FieldFiles files = data::open_fields(store, "data.train", {"raw"});
    std::vector<float> got(static_cast<size_t>(files.at(0)->info().shape.size()));
    files[0]->read_with_gaps(0, files[0]->info().shape, got.data());
    int64_t missing = 0;
    for (int64_t i = 0; i < kLevels * kPlane; ++i) {
      const float want = value_of(0, i);
      EXPECT_TRUE(want == value ? std::isnan(got[i]) : got[i] == want) << i;
      missing += want == value;
    }
    EXPECT_GE(missing, 1);
  }
}

TEST(Zarr, WhatCannotBeReadIsToldInOneLine) {
  const TempDir dir;
  const std::string store = fixture_in(dir, 2);
  expect_config_error([&] { data::open_fields(store, "data.train", {"absent"}); },
                      {store, "'data.variables'", "no field 'absent'", "blosclz4"});
  damage(store + "/zlib/.zarray", [](std::string& s) { s.replace(s.find("\"zlib\""), 6, "\"lzma\""); });
  expect_config_error([&] { data::open_fields(store, "data.train", {"zlib"}); },
                      {store, "codec 'lzma'", "zstd"});
  EXPECT_NO_THROW(data::open_fields(store, "data.train", {"raw"}));  // what is not asked for does no harm
  damage(store + "/raw/.zarray", [](std::string& s) {                // a path out of the store
    s.replace(s.rfind('}'), 1, ", \"dimension_separator\": \"/../../\"}");
  });
  expect_config_error([&] { data::open_fields(store, "data.train", {"raw"}); }, {store, "separator"});
  const std::string deep(1'000'000, '[');
  damage(store + "/gzip/.zattrs", [&](std::string& s) { s = "{\"a\": " + deep + "}"; });
  fs::remove(store + "/.zmetadata");
  expect_config_error([&] { data::open_fields(store, "data.train", {"blosclz"}); },
                      {store, "gzip/.zattrs", "nested more than 64 levels"});
  damage(store + "/gzip/.zattrs", [](std::string& s) { s = "{}"; });
  damage(store + "/raw/.zarray", [](std::string& s) { s = "{"; });
  expect_config_error([&] { data::open_fields(store, "data.train", {"blosclz"}); },
                      {store, "raw/.zarray", "no JSON"});
  std::ofstream(dir / "other.zip", std::ios::binary) << read_file(fixture(2)).substr(0, 1000);
  expect_config_error([&] { data::open_fields(dir / "other.zip", "data.train", {}); }, {"other.zip", "ZIP"});
}

TEST(Zarr, WhatTheMetadataAddIsNotPassedOver) {
  const auto with = [&](const TempDir& dir, const std::function<void(nlohmann::json&)>& change) {
    const std::string store = fixture_in(dir, 3);
    damage(store + "/zarr.json", [](std::string& s) {
      nlohmann::json root = nlohmann::json::parse(s);
      root.erase("consolidated_metadata");
      s = root.dump();
    });
    damage(store + "/raw/zarr.json", [&](std::string& s) {
      nlohmann::json j = nlohmann::json::parse(s);
      change(j);
      s = j.dump();
    });
    return store;
  };
  const auto refused = [&](const std::function<void(nlohmann::json&)>& change, const std::string& says) {
    const TempDir dir;
    const std::string store = with(dir, change);
    expect_config_error([&] { data::open_fields(store, "data.train", {"raw"}); }, {store, "'raw'", says});
  };
  refused([](nlohmann::json& j) { j["storage_transformers"] = {{{"name", "elsewhere"}}}; }, "elsewhere");
  refused([](nlohmann::json& j) { j["codecs"][0]["configuration"]["endian"] = "middle"; }, "'middle'");
  refused([](nlohmann::json& j) { j["chunk_key_encoding"] = {{"name", "suffix"}}; }, "'suffix'");
  refused([](nlohmann::json& j) { j["chunk_grid"] = {{"name", "rectilinear"}}; }, "chunks of unequal shape");
  refused([](nlohmann::json& j) { j["offset"] = {{"name", "x"}, {"must_understand", true}}; }, "'offset'");
  refused([](nlohmann::json& j) { j["offset"] = {{"name", "x"}}; }, "'offset'");
  refused([](nlohmann::json& j) { j["offset"] = 3; }, "'offset'");
  const TempDir dir;
  const std::string store = with(dir, [](nlohmann::json& j) {
    j["chunk_key_encoding"] = "default", j["data_type"] = {{"name", j["data_type"]}};
    j["note"] = {{"name", "x"}, {"must_understand", false}};
  });
  EXPECT_EQ(step_of(*data::open_fields(store, "data.train", {"raw"}).at(0), 2)[0],
            value_of(0, 2 * kLevels * kPlane));
}

TEST(Zarr, WhatTheGroupAddsAndOtherVersionsAreNotPassedOver) {
  const auto refused = [](int version, const std::string& file, const std::string& key,
                          const nlohmann::json& value, const std::vector<std::string>& says) {
    const TempDir dir;
    const std::string store = fixture_in(dir, version);
    if (version == 2) fs::remove(store + "/.zmetadata");
    damage(store + file, [&](std::string& s) {
      nlohmann::json j = nlohmann::json::parse(s);
      j.erase("consolidated_metadata");
      j[key] = value;
      s = j.dump();
    });
    expect_config_error([&] { data::open_fields(store, "data.train", {"raw"}); }, says);
  };
  refused(3, "/zarr.json", "links", {{"name", "x"}}, {"extension 'links'"});
  refused(3, "/zarr.json", "zarr_format", 4, {"zarr_format 4", "3 is read"});
  refused(3, "/raw/zarr.json", "zarr_format", 4, {"raw/zarr.json", "zarr_format 4"});
  refused(2, "/raw/.zarray", "zarr_format", 1, {"raw/.zarray", "zarr_format 1"});
  refused(2, "/raw/.zarray", "order", "A", {"'raw'", "neither C nor F"});
}

TEST(Zarr, InspectsAndTriesAsARunDoes) {
  data::require_fields(fixture(3), "data.train", {"sharded"});
  const nlohmann::json j = data::inspect(fixture(3), {"sharded"});
  EXPECT_EQ(j["format"], "Zarr 3");
  EXPECT_EQ(j["layout"]["storage"], "sharded");
  EXPECT_EQ(j["layout"]["chunk"], (std::vector<int64_t>{1, 1, 4, 5}));
  EXPECT_EQ(j["steps"], kSteps);
  EXPECT_EQ(j["first_time"], "2019-03-01T00:00Z");
  EXPECT_EQ(j["fields"][0]["min"].get<float>(), [] {
    float low = 1e9f;
    for (int64_t i = 0; i < kPlane; ++i) low = std::min(low, value_of(3, i));
    return low;
  }());
}

}  // namespace
}  // namespace isobar::test
