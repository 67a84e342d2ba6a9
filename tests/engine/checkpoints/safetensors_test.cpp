// safetensors files read back by an independent reader, and rejected when truncated at any byte.
#include "model/inference/weights/safetensors.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <cstring>
#include <random>

#include "model/base/error.h"
#include "tests/engine/command.h"
#include "tests/engine/noise.h"

namespace isobar::engine {
namespace {

struct Whole {
  plan::Tensor tensor;
  std::vector<float> values;
};

void write_whole(const fs::path& path, const std::vector<Whole>& contents,
                 const inference::Metadata& metadata) {
  std::vector<plan::Tensor> tensors;
  for (const Whole& w : contents) tensors.push_back(w.tensor);
  inference::create_safetensors(path, tensors, metadata);
  const inference::SafetensorsWriter file(path, tensors, metadata);
  for (const Whole& w : contents)
    file.write(w.tensor.name, 0, static_cast<int64_t>(w.values.size()), w.values.data());
}

TEST(Safetensors, RoundTripKeepsEveryBit) {
  const Folder dir;
  std::vector<float> a = noise(6), b = noise(1000), scalar = {42};
  a[0] = -0.0f, a[1] = 1e-42f, a[2] = INFINITY;
  write_whole(dir / "t", {{{"a", {2, 3}}, a}, {{"b.weight", {10, 20, 5}}, b}, {{"s", {}}, scalar}},
              {{"step", "7"}, {"quote\"d", "ü"}});
  const inference::TensorFile f = inference::read_safetensors(dir / "t");
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
      inference::read_safetensors(dir / "cut");
      ADD_FAILURE() << "accepted the first " << n << " of " << whole.size() << " bytes";
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find("cut: "), std::string::npos);
    }
  }
  EXPECT_THROW(inference::read_safetensors(dir / "absent"), ConfigError);
}

std::string file_bytes(const std::string& header, size_t data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(data, '\0');
}

std::string refusal_of(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
  try {
    inference::read_safetensors(file);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(Safetensors, HeadersThatLieAreRefusedByTheRuleThatTheyBreak) {
  const Folder dir;
  struct Lie {
    const char* header;
    size_t data;
    const char* rule;
  };
  const std::vector<Lie> lies = {
      {"[]", 0, "no JSON object"},
      {"{", 0, "no JSON at byte 2"},
      {R"({"a": 1,})", 0, "no JSON at byte 9"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "data_offsets are 8 and 0"},
      {R"({"a":{"dtype":"F32","shape":[200],"data_offsets":[0,800]}})", 64,
       "ends at byte 800 of the data, which has 64"},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "F32 [3] of 12 bytes"},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "no whole numbers"},
      {R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8, "no whole numbers"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,9]}})", 9, "data_offsets are 0 and 9"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})", 8, "no whole numbers"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", 8, "no pair"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       "no file can hold"},
      {R"({"a":{"dtype":"F64","shape":[2],"data_offsets":[0,8]}})", 8, "F64 [2] of 16 bytes"},
      {R"({"a":{"dtype":"F128","shape":[2],"data_offsets":[0,8]}})", 8, "F128"},
      {R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2, "ends within a byte"},
      {R"({"a":{"dtype":"F32","shape":"x","data_offsets":[0,8]}})", 8, "no list"},
      {R"({"a":{"dtype":"F32","shape":[2]}})", 8, "has not dtype, shape and data_offsets"},
      {R"({"a":7})", 0, "has not dtype, shape and data_offsets"},
      {R"({"__metadata__":{"step":3}})", 0, "'step', which is no text"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4, "has 'a' twice"},
      {R"({"a":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})", 4, "has 'shape' twice"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4, "they overlap"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
       12, "bytes 4 to 8 of the data, before 'b', are of no tensor"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 7,
       "bytes 4 to 7 of the data, behind the last tensor"},
      {"{}", 1, "bytes 0 to 1"},
      {"[1]", 0, "no JSON object"},
  };
  for (const Lie& l : lies) {
    const std::string error = refusal_of(dir / "lie", file_bytes(l.header, l.data));
    EXPECT_NE(error.find("is not a whole safetensors file"), std::string::npos) << l.header;
    EXPECT_NE(error.find(l.rule), std::string::npos) << l.header << ": " << error;
  }
  for (
      const auto& [header, data] : std::vector<std::pair<std::string, size_t>>{
          {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8},
          {R"({"b":{"dtype":"F16","shape":[2],"data_offsets":[4,8]},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}  )",
           8},
          {R"({"none":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},"a":{"dtype":"I8","shape":[3],"data_offsets":[0,3]}})",
           3},
          {R"({"packed":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}})", 2},
          {"{}", 0}})
    EXPECT_EQ(refusal_of(dir / "true", file_bytes(header, data)), "") << header;
}

// The parser takes a NUL for the text's end: what stands behind it is not passed over.
TEST(Safetensors, AHeaderWithANulIsRefused) {
  const Folder dir;
  for (const std::string& behind : {std::string("\0", 1), std::string("\0{}", 3)}) {
    const std::string error = refusal_of(dir / "nul", file_bytes("{}" + behind, 0));
    EXPECT_NE(error.find("no JSON at byte 3, which is NUL"), std::string::npos) << error;
  }
}

// Random tensors that tile their file, in any order of names; then one rule broken.
TEST(Safetensors, FilesAreAcceptedWhereTheirTensorsTileThem) {
  const Folder dir;
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::pair<const char*, int64_t> types[] = {{"F32", 4},     {"F64", 8},     {"BF16", 2}, {"F16", 2},
                                                   {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I64", 8},  {"BOOL", 1},
                                                   {"U16", 2},     {"C64", 8}};
  for (int round = 0; round < 300; ++round) {
    struct Part {
      int64_t begin, end;
    };
    json header = json::object();
    std::vector<std::string> names;
    int64_t end = 0;
    for (size_t i = 0, n = 1 + random() % 5; i < n; ++i) {
      const auto& [type, width] = types[random() % std::size(types)];
      const auto rows = static_cast<int64_t>(random() % 4), columns = static_cast<int64_t>(1 + random() % 5);
      const int64_t bytes = rows * columns * width;
      names.push_back(std::to_string(random() % 1000) + "." + std::to_string(i));
      header[names.back()] = {
          {"dtype", type}, {"shape", {rows, columns}}, {"data_offsets", {end, end + bytes}}};
      end += bytes;
    }
    EXPECT_EQ(refusal_of(dir / "whole", file_bytes(header.dump(), end)), "") << header.dump();
    json& any = header[names[random() % names.size()]];
    const int64_t shift = 1 + static_cast<int64_t>(random() % 3);
    int64_t data = end;
    switch (random() % 4) {
      case 0:
        data += shift;  // bytes behind the last
        break;
      case 1:
        any["data_offsets"][1] = any["data_offsets"][1].get<int64_t>() + shift;  // not what its shape needs
        data += shift;
        break;
      case 2:
        if (end == 0) continue;
        data -= 1;  // cut off
        break;
      default:  // a hole before it, and what stands behind it overlaps or is cut off
        for (json& x : any["data_offsets"]) x = x.get<int64_t>() + shift;
        if (any["data_offsets"][0] == any["data_offsets"][1]) continue;
        data += shift;
    }
    EXPECT_NE(refusal_of(dir / "broken", file_bytes(header.dump(), data)), "")
        << header.dump() << " with " << data;
  }
}

double of_bits(uint32_t bits, int exponent_bits, int fraction_bits, int bias, bool infinite, bool fnuz) {
  const uint32_t sign = bits >> (exponent_bits + fraction_bits),
                 fraction = bits & ((1u << fraction_bits) - 1);
  const int exponent = static_cast<int>(bits >> fraction_bits & ((1u << exponent_bits) - 1));
  const bool ones = exponent == (1 << exponent_bits) - 1;
  if (fnuz && sign && exponent == 0 && fraction == 0) return NAN;
  if (infinite && ones) return fraction != 0 ? NAN : sign ? -INFINITY : INFINITY;
  if (!infinite && !fnuz && ones && fraction + 1 == 1u << fraction_bits) return NAN;
  const double part = static_cast<double>(fraction) / (1 << fraction_bits);
  const double x = exponent == 0 ? std::ldexp(part, 1 - bias) : std::ldexp(1 + part, exponent - bias);
  return sign ? -x : x;
}

class AllNumbers {  // subnormal ones too, which other tests of this program let kernels flush
 public:
  AllNumbers() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~AllNumbers() { std::fesetenv(&before_); }
  AllNumbers(const AllNumbers&) = delete;
  AllNumbers& operator=(const AllNumbers&) = delete;

 private:
  std::fenv_t before_{};
};

// Every bit pattern of each narrow type, against the types' definitions.
TEST(Safetensors, NarrowTypesHaveTheValuesOfTheirBits) {
  const AllNumbers kept;
  const Folder dir;
  struct Narrow {
    const char* name;
    int width, exponent, fraction, bias;
    bool infinite, fnuz;
  };
  for (const Narrow& n : {Narrow{"BF16", 2, 8, 7, 127, true, false},
                          {"F16", 2, 5, 10, 15, true, false},
                          {"F8_E4M3", 1, 4, 3, 7, false, false},
                          {"F8_E5M2", 1, 5, 2, 15, true, false},
                          {"F8_E4M3FNUZ", 1, 4, 3, 8, false, true},
                          {"F8_E5M2FNUZ", 1, 5, 2, 16, false, true}}) {
    SCOPED_TRACE(n.name);
    const uint32_t count = 1u << (8 * n.width);
    const std::string extent = std::to_string(count * static_cast<uint32_t>(n.width));
    std::string bytes = file_bytes(std::string(R"({"w":{"dtype":")") + n.name + R"(","shape":[)" +
                                       std::to_string(count) + R"(],"data_offsets":[0,)" + extent + "]}}",
                                   0);
    for (uint32_t i = 0; i < count; ++i)
      for (int b = 0; b < n.width; ++b) bytes += static_cast<char>(i >> (8 * b));
    std::ofstream(dir / "w", std::ios::binary) << bytes;
    const inference::SafetensorsReader file(dir / "w");
    const inference::StoredTensor& w = file.tensors().at("w");
    std::vector<float> f(count, -7);
    std::vector<double> d(count, -7);
    file.read(w, 0, count, f.data());
    file.read(w, 0, count, d.data());
    for (uint32_t i = 0; i < count; ++i) {
      const double x = of_bits(i, n.exponent, n.fraction, n.bias, n.infinite, n.fnuz);
      ASSERT_TRUE(std::isnan(x) ? std::isnan(f[i]) && std::isnan(d[i]) : f[i] == x && d[i] == x)
          << "bits " << i << ": " << f[i] << ", not " << x;
    }
  }
}

TEST(Safetensors, IntegersArePassedOverAndNoWeights) {
  const Folder dir;
  const std::string header =
      R"({"n":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},"w":{"dtype":"F32","shape":[1],"data_offsets":[16,20]}})";
  std::string bytes = file_bytes(header, 20);
  const int64_t numbers[2] = {-3, int64_t{1} << 40};
  std::memcpy(bytes.data() + bytes.size() - 20, numbers, 16);
  std::ofstream(dir / "t", std::ios::binary) << bytes;
  EXPECT_EQ(inference::read_safetensors(dir / "t").tensors.at("n").values,
            (std::vector<double>{-3, 1099511627776}));
  const inference::SafetensorsReader file(dir / "t");
  std::vector<float> x(2);
  file.read(file.tensors().at("w"), 0, 1, x.data());
  try {
    file.read(file.tensors().at("n"), 0, 2, x.data());
    ADD_FAILURE() << "integers were read as weights";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("'n': is of type I64"), std::string::npos) << e.what();
  }
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
    const inference::SafetensorsReader file(dir / name);
    const inference::StoredTensor& w = file.tensors().at("w");
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
}  // namespace isobar::engine
