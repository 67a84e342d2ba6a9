// safetensors files read back by a reader of its own, refused when cut off at any byte; checkpoints that
// appear whole or not at all.
#include "model/engine/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "model/base/error.h"
#include "model/engine/params.h"
#include "model/engine/safetensors.h"
#include "model/nets/build.h"
#include "tests/engine/command.h"

namespace isobar {
namespace {

std::vector<float> noise(int64_t n) {
  static std::mt19937 random(std::random_device{}());
  std::normal_distribution<float> normal;
  std::vector<float> out(n);
  for (float& x : out) x = normal(random);
  return out;
}

TEST(Safetensors, RoundTripKeepsEveryBit) {
  const Folder dir;
  std::vector<float> a = noise(6), b = noise(1000), scalar = {42};
  a[0] = -0.0f, a[1] = 1e-42f, a[2] = INFINITY;
  write_safetensors(dir / "t",
                    {{"a", {2, 3}, a.data()}, {"b.weight", {10, 20, 5}, b.data()}, {"s", {}, scalar.data()}},
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
  write_safetensors(dir / "t", {{"a", {2, 3}, a.data()}, {"b", {4}, b.data()}}, {{"k", "v"}});
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
  write_safetensors(dir / "t", {{"a", {4, 4}, a.data()}}, {});
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
                             R"({"a":{"dtype":"F32","shape":"x","data_offsets":[0,8]}})",
                             R"({"a":{"dtype":"F32","shape":[2]}})", R"({"a":7})"}) {
    EXPECT_THROW(read_safetensors(with(header)), ConfigError) << header;
  }
  EXPECT_NO_THROW(read_safetensors(with(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})")));
}

class Checkpoints : public testing::Test {
 protected:
  Checkpoints()
      : plan(build_plan(load_run_spec(tiny()), 0, [](const Op&) { return int64_t{0}; })),
        params(noise(plan.params_all.count)),
        m(noise(plan.params_all.count)),
        v(noise(plan.params_all.count)) {}
  fs::path save(int64_t step) {
    return save_checkpoint(dir / "run", plan, params.data(), m.data(), v.data(), {step, 3, 8});
  }
  Folder dir;
  Plan plan;
  std::vector<float> params, m, v;
};

TEST_F(Checkpoints, ComeBackBitForBit) {
  const fs::path at = save(12);
  EXPECT_EQ(at.filename(), "step-00000012");
  const size_t n = params.size();
  std::vector<float> p2(n, NAN), m2(n, NAN), v2(n, NAN);
  const TrainState state = load_checkpoint(at, plan, p2.data(), m2.data(), v2.data());
  EXPECT_EQ(state.step, 12);
  EXPECT_EQ(state.seed, 3);
  EXPECT_EQ(state.global_batch, 8);
  for (const Param& p : plan.params) {
    const size_t bytes = p.count * sizeof(float);
    EXPECT_EQ(std::memcmp(&p2[p.offset], &params[p.offset], bytes), 0) << p.name;
    EXPECT_EQ(std::memcmp(&m2[p.offset], &m[p.offset], bytes), 0) << p.name;
    EXPECT_EQ(std::memcmp(&v2[p.offset], &v[p.offset], bytes), 0) << p.name;
  }
}

TEST_F(Checkpoints, TheLastWholeOneIsFound) {
  EXPECT_THROW(find_checkpoint(dir / "run"), ConfigError);
  save(9);
  save(100);
  const fs::path parent = fs::path(dir / "run") / "checkpoints";
  // What a kill leaves behind: a temporary directory, with or without a state of its own.
  fs::create_directories(parent / "step-00000200.tmp");
  std::ofstream(parent / "step-00000200.tmp" / "state.json") << "{\"step\": 200}";
  fs::create_directories(parent / "step-00000300.tmp");
  fs::create_directories(parent / "step-00000400");  // nothing in it: not one of ours
  EXPECT_EQ(find_checkpoint(dir / "run"), parent / "step-00000100");
  EXPECT_EQ(find_checkpoint(parent / "step-00000009"), parent / "step-00000009");
  save(200);  // over the torn one
  EXPECT_EQ(find_checkpoint(dir / "run"), parent / "step-00000200");
  EXPECT_FALSE(fs::exists(parent / "step-00000200.tmp"));
}

TEST_F(Checkpoints, AreNeverWrittenOver) {
  const fs::path at = save(5);
  const std::string before = text_of(at / "model.safetensors");
  params[0] += 1;
  EXPECT_EQ(save(5), at);
  EXPECT_EQ(text_of(at / "model.safetensors"), before);
}

TEST_F(Checkpoints, OfAnotherNetOrDamagedAreRefused) {
  const fs::path at = save(5);
  const auto load = [&](const Plan& into) {
    std::vector<float> p(into.params_all.count), a(p), b(p);
    load_checkpoint(at, into, p.data(), a.data(), b.data());
  };
  const auto other = [&](const std::string& set) {
    return build_plan(load_run_spec(tiny(), {set}), 0, [](const Op&) { return int64_t{0}; });
  };
  EXPECT_NO_THROW(load(plan));
  try {
    load(other("net.depth=3"));
    ADD_FAILURE();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("'blocks.2."), std::string::npos) << e.what();
  }
  EXPECT_THROW(load(other("net.embed_dim=32")), ConfigError);
  const std::string whole = text_of(at / "optimizer.safetensors");
  std::ofstream(at / "optimizer.safetensors", std::ios::binary) << whole.substr(0, whole.size() - 1);
  EXPECT_THROW(load(plan), ConfigError);
  std::ofstream(at / "optimizer.safetensors", std::ios::binary) << whole;
  EXPECT_NO_THROW(load(plan));
  std::ofstream(at / "state.json") << "{\"st";
  EXPECT_THROW(load(plan), ConfigError);
}

}  // namespace
}  // namespace isobar
