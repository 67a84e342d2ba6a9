// safetensors files read back by an independent reader, and rejected when truncated at any byte.
#include "model/inference/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "model/base/error.h"
#include "tests/engine/command.h"
#include "tests/engine/noise.h"

namespace isobar {
namespace {

struct Whole {
  Tensor tensor;
  std::vector<float> values;
};

void write_whole(const fs::path& path, const std::vector<Whole>& contents, const Metadata& metadata) {
  std::vector<Tensor> tensors;
  for (const Whole& w : contents) tensors.push_back(w.tensor);
  create_safetensors(path, tensors, metadata);
  const SafetensorsWriter file(path, tensors, metadata);
  for (const Whole& w : contents)
    file.write(w.tensor.name, 0, static_cast<int64_t>(w.values.size()), w.values.data());
}

TEST(Safetensors, RoundTripKeepsEveryBit) {
  const Folder dir;
  std::vector<float> a = noise(6), b = noise(1000), scalar = {42};
  a[0] = -0.0f, a[1] = 1e-42f, a[2] = INFINITY;
  write_whole(dir / "t", {{{"a", {2, 3}}, a}, {{"b.weight", {10, 20, 5}}, b}, {{"s", {}}, scalar}},
              {{"step", "7"}, {"quote\"d", "ü"}});
  const TensorFile f = read_safetensors(dir / "t");
  EXPECT_EQ(f.metadata.at("step"), "7");
  EXPECT_EQ(f.metadata.at("quote\"d"), "ü");
  ASSERT_EQ(f.tensors.size(), 3u);
  EXPECT_EQ(f.tensors.at("a").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(f.tensors.at("s").values, (std::vector<double>{42}));
  EXPECT_TRUE(std::signbit(f.tensors.at("a").values[0]));
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(f.tensors.at("a").values[i], a[i]);
  for (size_t i = 0; i < b.size(); ++i) EXPECT_EQ(f.tensors.at("b.weight").values[i], b[i]);
}

TEST(Safetensors, TheFileIsWhatTheFormatSays) {
  const Folder dir;
  const std::vector<float> a = noise(6), b = noise(4);
  write_whole(dir / "t", {{{"a", {2, 3}}, a}, {{"b", {4}}, b}}, {{"k", "v"}});
  const std::string bytes = text_of(dir / "t");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  const json header = json::parse(bytes.substr(8, length));
  ASSERT_EQ(header.size(), 3u);
  EXPECT_EQ(header["__metadata__"], (json{{"k", "v"}}));
  EXPECT_EQ(header["a"], (json{{"dtype", "F32"}, {"shape", {2, 3}}, {"data_offsets", {0, 24}}}));
  EXPECT_EQ(header["b"], (json{{"dtype", "F32"}, {"shape", {4}}, {"data_offsets", {24, 40}}}));
  ASSERT_EQ(bytes.size(), 8 + length + 40);
  EXPECT_EQ(bytes.substr(8 + length, 24), std::string(reinterpret_cast<const char*>(a.data()), 24));
  EXPECT_EQ(bytes.substr(8 + length + 24), std::string(reinterpret_cast<const char*>(b.data()), 16));
}

TEST(Safetensors, AFileCutOffAnywhereIsRefused) {
  const Folder dir;
  const std::vector<float> a = noise(16);
  write_whole(dir / "t", {{{"a", {4, 4}}, a}}, {});
  const std::string whole = text_of(dir / "t");
  for (size_t n = 0; n < whole.size(); ++n) {
    std::ofstream(dir / "cut", std::ios::binary) << whole.substr(0, n);
    try {
      read_safetensors(dir / "cut");
      ADD_FAILURE() << "accepted the first " << n << " of " << whole.size() << " bytes";
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find("cut: "), std::string::npos);
    }
  }
  EXPECT_THROW(read_safetensors(dir / "absent"), ConfigError);
}

TEST(Safetensors, HeadersThatLieAreRefused) {
  const Folder dir;
  const auto with = [&](const std::string& header) {
    uint64_t length = header.size();
    std::string bytes(reinterpret_cast<const char*>(&length), 8);
    std::ofstream(dir / "lie", std::ios::binary) << bytes + header + std::string(64, '\0');
    return dir / "lie";
  };
  for (const char* header : {"[]", "{", R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})",
                             R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})",
                             R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,800]}})",
                             R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
                             R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
                             R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,9]}})",
                             R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})",
                             R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
                             R"({"a":{"dtype":"F64","shape":[2],"data_offsets":[0,8]}})",
                             R"({"a":{"dtype":"F32","shape":"x","data_offsets":[0,8]}})",
                             R"({"a":{"dtype":"F32","shape":[2]}})", R"({"a":7})"}) {
    EXPECT_THROW(read_safetensors(with(header)), ConfigError) << header;
  }
  EXPECT_NO_THROW(read_safetensors(with(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})")));
}

TEST(Safetensors, PartsAreReadInEitherWidth) {
  const Folder dir;
  std::vector<double> wide(10000);  // longer than one conversion block
  for (double& x : wide) x = noise(1)[0] / 3.0;
  const std::string header = R"({"w":{"dtype":"F64","shape":[100,100],"data_offsets":[0,80000]}})";
  const uint64_t length = header.size();
  std::ofstream(dir / "f64", std::ios::binary)
      << std::string(reinterpret_cast<const char*>(&length), 8) << header
      << std::string(reinterpret_cast<const char*>(wide.data()), 80000);
  std::vector<float> narrow(wide.begin(), wide.end());
  write_whole(dir / "f32", {{{"w", {100, 100}}, narrow}}, {});
  for (const auto& [name, from] : {std::pair<std::string, int64_t>{"f64", 0}, {"f64", 17}, {"f32", 17}}) {
    SCOPED_TRACE(name);
    const SafetensorsReader file(dir / name);
    const StoredTensor& w = file.tensors().at("w");
    const int64_t n = 9000;
    std::vector<float> f(n + 1, NAN);
    file.read(w, from, n, f.data());
    EXPECT_EQ(std::memcmp(f.data(), &narrow[from], n * sizeof(float)), 0);
    EXPECT_TRUE(std::isnan(f[n])) << "more than asked for";
    std::vector<double> d(n, NAN);
    file.read(w, from, n, d.data());
    for (int64_t i = 0; i < n; ++i)
      ASSERT_EQ(d[i], name == "f64" ? wide[from + i] : static_cast<double>(narrow[from + i]));
    EXPECT_THROW(file.read(w, 1001, n, f.data()), std::logic_error);
  }
}

}  // namespace
}  // namespace isobar
