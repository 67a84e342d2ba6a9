// Checkpoints that appear whole or not at all, written by any layout and read by any other.
#include "model/inference/weights/checkpoint.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <tuple>

#include "model/base/error.h"
#include "model/base/text/hash.h"
#include "model/engine/observers/starting.h"
#include "model/inference/weights/file_digest.h"
#include "model/inference/weights/params.h"
#include "tests/engine/command.h"
#include "tests/engine/cut_net.h"

namespace isobar::engine {
namespace {

const std::vector<Cut> kCuts = {{1, 1, 1}, {1, 2, 1}, {1, 3, 2}, {2, 1, 1}, {3, 2, 2}};

TEST(Params, PartsStartWithTheValuesOfTheWhole) {
  const auto n = net(2, 8);
  const uint64_t seed = std::random_device{}();
  const plan::Plan whole = cut_plan(n, {}, 0);
  std::vector<float> x(whole.params_all.count, NAN);
  inference::init_params(whole, seed, x.data());
  Values values;
  for (const plan::Param& p : whole.params) values[p.name] = {&x[p.offset], &x[p.offset] + p.count};
  EXPECT_NE(values["position"][0], values["position"][1]);
  EXPECT_NE(values["blocks.0.up.weight"], values["blocks.1.up.weight"]);
  for (const Cut& cut : kCuts) {
    for (int r = 0; r < cut.world(); ++r) {
      const plan::Plan plan = cut_plan(n, cut, r);
      std::vector<float> part(plan.params_all.count, NAN);
      inference::init_params(plan, seed, part.data());
      const std::vector<float> expected = buffer_of(plan, values);
      EXPECT_EQ(std::memcmp(part.data(), expected.data(), part.size() * sizeof(float)), 0)
          << r;  // NaN gaps too
    }
  }
}

TEST(Params, FirstValuesDoNotDependOnThreads) {
  const plan::Plan plan = cut_plan(net(3, 96), {1, 3, 2}, 4);
  const uint64_t seed = std::random_device{}();
  const int before = omp_get_max_threads();
  std::vector<std::vector<float>> drawn;
  for (const int threads : {1, 2, 5}) {
    omp_set_num_threads(threads);
    std::vector<float>& x = drawn.emplace_back(plan.params_all.count, NAN);
    inference::init_params(plan, seed, x.data());
    EXPECT_EQ(std::memcmp(x.data(), drawn[0].data(), x.size() * sizeof(float)), 0) << threads;
  }
  omp_set_num_threads(before);
}

TEST(Starting, NamesWhatTookLongestOfALongStart) {
  SlowWork slow;
  Starting quick(slow);
  EXPECT_TRUE(slow.under_way());
  EXPECT_EQ(quick.done(), "");
  EXPECT_FALSE(slow.under_way());
  Starting starting(slow);
  starting.stage("planning");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  starting.stage("first values");
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  starting.stage("constants");
  starting.stage("first values");
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  const std::string text = starting.done();
  EXPECT_TRUE(text.starts_with("started in 1.")) << text;
  EXPECT_NE(text.find(": first values "), std::string::npos) << text;
  EXPECT_NE(text.find(", planning "), std::string::npos) << text;
  EXPECT_EQ(text.find("constants"), std::string::npos) << text;
}

TEST(Params, RunsAreRowsOfTheWhole) {
  const auto runs = [](int axis, int64_t begin, int64_t extent, int64_t count) {
    plan::Param p{"w", {4, 6}, plan::Init::zero};
    p.axis = axis, p.begin = begin, p.extent = extent, p.offset = 32, p.count = count;
    std::vector<std::vector<int64_t>> out;
    for (const inference::ElementRun& r : inference::runs_of(p)) out.push_back({r.whole, r.offset, r.count});
    return out;
  };
  using Runs = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(runs(-1, 0, 0, 24), (Runs{{0, 32, 24}}));
  EXPECT_EQ(runs(0, 1, 2, 12), (Runs{{6, 32, 12}}));
  EXPECT_EQ(runs(1, 2, 3, 12), (Runs{{2, 32, 3}, {8, 35, 3}, {14, 38, 3}, {20, 41, 3}}));
  EXPECT_EQ(runs(1, 0, 6, 24), (Runs{{0, 32, 24}}));
  EXPECT_THROW(runs(1, 4, 3, 12), std::logic_error);  // over the edge
  EXPECT_THROW(runs(0, 1, 2, 13), std::logic_error);  // another size
  EXPECT_THROW(runs(2, 0, 1, 24), std::logic_error);  // no such axis
}

class Checkpoints : public testing::Test {
 protected:
  void save_as(const Cut& cut, const std::string& run, int64_t step) {
    World world(cut.world());
    world([&](const inference::Meeting& all) {
      const plan::Plan plan = cut_plan(pieces, cut, all.rank);
      const auto x = buffer_of(plan, params), a = buffer_of(plan, m), b = buffer_of(plan, v);
      const fs::path at =
          inference::save_checkpoint(dir / run, plan, x.data(), a.data(), b.data(), state(step), all);
      EXPECT_TRUE(fs::exists(at / "state.json")) << "rank " << all.rank << " came back too early";
    });
  }
  static inference::CheckpointState state(int64_t step) {
    inference::CheckpointState s{.train = {.step = step}};
    s.spec.train.seed = 3;
    s.spec.train.global_batch = 8;
    return s;
  }
  fs::path save(int64_t step, const inference::Meeting& all = {}) {
    const auto x = buffer_of(plan, params), a = buffer_of(plan, m), b = buffer_of(plan, v);
    return inference::save_checkpoint(dir / "run", plan, x.data(), a.data(), b.data(), state(step), all);
  }
  /// Every part that the rank holds is what was saved, and nothing beside its parts was written.
  void expect_loads(const fs::path& at, const Cut& cut, int64_t step) {
    for (int r = 0; r < cut.world(); ++r) {
      SCOPED_TRACE("rank " + std::to_string(r));
      const plan::Plan part = cut_plan(pieces, cut, r);
      const size_t n = part.params_all.count;
      std::vector<float> p2(n, NAN), m2(n, NAN), v2(n, NAN);
      const inference::CheckpointState state =
          inference::load_checkpoint(at, part, p2.data(), m2.data(), v2.data(), {});
      EXPECT_EQ(state.train.step, step);
      EXPECT_EQ(state.spec.train.seed, 3);
      EXPECT_EQ(state.spec.train.global_batch, 8);
      for (const auto& [got, saved] : {std::pair{&p2, &params}, {&m2, &m}, {&v2, &v}}) {
        const std::vector<float> expected = buffer_of(part, *saved);
        EXPECT_EQ(std::memcmp(got->data(), expected.data(), n * sizeof(float)), 0);
      }
    }
  }
  Folder dir;
  const std::vector<Piece> pieces = net(2, 8);
  const plan::Plan plan = cut_plan(pieces, {}, 0);
  const Values params = random_values(pieces), m = random_values(pieces), v = random_values(pieces);
};

TEST_F(Checkpoints, ComeBackBitForBitInEveryLayout) {
  const fs::path at = save(12);
  EXPECT_EQ(at.filename(), "step-00000012");
  for (const Cut& cut : kCuts) expect_loads(at, cut, 12);
}

TEST_F(Checkpoints, AreTheSameFilesWhateverTheLayoutThatWrites) {
  const fs::path whole = save(12);
  for (size_t i = 0; i < kCuts.size(); ++i) {
    const std::string run = "run" + std::to_string(i);
    save_as(kCuts[i], run, 12);
    const fs::path at = inference::find_checkpoint(dir / run);
    for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
      EXPECT_GT(text_of(at / file).size(), 20u);
      EXPECT_TRUE(text_of(at / file) == text_of(whole / file)) << file << " of layout " << i;
    }
    expect_loads(at, {}, 12);
    expect_loads(at, {2, 2, 1}, 12);
  }
}

TEST_F(Checkpoints, HoldTheWholeNetUnderItsOwnNames) {
  save_as({3, 2, 1}, "cut", 4);
  const fs::path at = inference::find_checkpoint(dir / "cut");
  const inference::TensorFile model = inference::read_safetensors(at / "model.safetensors"),
                              moments = inference::read_safetensors(at / "optimizer.safetensors");
  EXPECT_EQ(model.tensors.size(), pieces.size());
  EXPECT_EQ(moments.tensors.size(), 2 * pieces.size());
  EXPECT_EQ(model.metadata.at("step"), "4");
  for (const auto& [prefix, file, saved] :
       {std::tuple{"", &model, &params}, {"exp_avg.", &moments, &m}, {"exp_avg_sq.", &moments, &v}})
    for (const Piece& p : pieces) {
      const auto& got = file->tensors.at(prefix + p.tensor.name);
      const std::vector<float>& x = saved->at(p.tensor.name);
      EXPECT_EQ(got.shape, p.tensor.shape);
      EXPECT_EQ(got.values, std::vector<double>(x.begin(), x.end())) << prefix << p.tensor.name;
    }
}

TEST_F(Checkpoints, AppearWholeOrNotAtAllWhenKilled) {
  // A process that dies at its n-th meeting; there are three, and the name is given before the last.
  for (int n = 1; n <= 3; ++n) {
    SCOPED_TRACE(n);
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      int met = 0;
      inference::Meeting all;
      all.barrier = [&] {
        if (++met == n) ::kill(::getpid(), SIGKILL);
      };
      save(7, all);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it met fewer times";
    if (n < 3) {
      EXPECT_THROW(inference::find_checkpoint(dir / "run"), ConfigError);
      EXPECT_TRUE(fs::exists(fs::path(dir / "run") / "checkpoints" / "step-00000007.tmp"));
    } else {
      expect_loads(inference::find_checkpoint(dir / "run"), {}, 7);
    }
  }
}

TEST_F(Checkpoints, DoNotAppearWhenOneRankFails) {
  World world(2);
  EXPECT_THROW(world([&](const inference::Meeting& all) {
                 plan::Plan part = cut_plan(pieces, {1, 2, 1}, all.rank);
                 if (all.rank == 1) part.params.back().name = "unheard of";
                 const auto x = std::vector<float>(part.params_all.count);
                 inference::save_checkpoint(dir / "run", part, x.data(), x.data(), x.data(), state(5), all);
               }),
               std::logic_error);
  EXPECT_THROW(inference::find_checkpoint(dir / "run"), ConfigError);
  save_as({1, 2, 1}, "run", 5);  // over what is left
  expect_loads(inference::find_checkpoint(dir / "run"), {}, 5);
}

TEST_F(Checkpoints, TheLastWholeOneIsFound) {
  EXPECT_THROW(inference::find_checkpoint(dir / "run"), ConfigError);
  save(9);
  save(100);
  const fs::path parent = fs::path(dir / "run") / "checkpoints";
  // A kill leaves a temporary directory behind, with or without a state of its own.
  fs::create_directories(parent / "step-00000200.tmp");
  std::ofstream(parent / "step-00000200.tmp" / "state.json") << "{\"step\": 200}";
  fs::create_directories(parent / "step-00000300.tmp");
  fs::create_directories(parent / "step-00000400");  // nothing in it: not one of ours
  EXPECT_EQ(inference::find_checkpoint(dir / "run"), parent / "step-00000100");
  EXPECT_EQ(inference::find_checkpoint(parent / "step-00000009"), parent / "step-00000009");
  save(200);  // over the torn one
  EXPECT_EQ(inference::find_checkpoint(dir / "run"), parent / "step-00000200");
  EXPECT_FALSE(fs::exists(parent / "step-00000200.tmp"));
}

TEST_F(Checkpoints, AreNeverWrittenOver) {
  const fs::path at = save(5);
  const std::string before = text_of(at / "model.safetensors");
  const std::vector<float> other = noise(plan.params_all.count);
  // Other weights of the same step are refused: they are neither lost nor reported as kept.
  EXPECT_THROW(
      inference::save_checkpoint(dir / "run", plan, other.data(), other.data(), other.data(), state(5), {}),
      ConfigError);
  EXPECT_EQ(text_of(at / "model.safetensors"), before);
  EXPECT_THROW(save_as({1, 2, 1}, "run", 5), ConfigError);
  EXPECT_FALSE(fs::exists(at.string() + ".tmp"));
}

TEST_F(Checkpoints, OfAnotherNetOrDamagedAreRefused) {
  const fs::path at = save(5);
  const auto load = [&](const plan::Plan& into) {
    std::vector<float> p(into.params_all.count), a(p), b(p);
    inference::load_checkpoint(at, into, p.data(), a.data(), b.data(), {});
  };
  const auto expect_refused = [&](const plan::Plan& into, const std::string& why) {
    try {
      load(into);
      ADD_FAILURE() << "accepted: " << why;
    } catch (const ConfigError& e) {
      for (const std::string& word : {std::string("model.safetensors"), why, std::string("->")})
        EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    }
  };
  EXPECT_NO_THROW(load(plan));
  expect_refused(cut_plan(net(3, 8), {}, 0), "'blocks.2.norm.weight': is missing");
  expect_refused(cut_plan(net(2, 12), {}, 0), "'patch.weight': has another shape");
  expect_refused(cut_plan(net(2, 16), {1, 2, 1}, 1), "'patch.weight': has another shape");
  const std::string whole = text_of(at / "optimizer.safetensors");
  std::ofstream(at / "optimizer.safetensors", std::ios::binary) << whole.substr(0, whole.size() - 1);
  EXPECT_THROW(load(plan), ConfigError);
  fs::remove(at / "optimizer.safetensors");
  EXPECT_THROW(load(plan), ConfigError);
  std::ofstream(at / "optimizer.safetensors", std::ios::binary) << whole;
  EXPECT_NO_THROW(load(plan));
  std::ofstream(at / "state.json") << "{\"st";
  EXPECT_THROW(load(plan), ConfigError);
}

// A digest is the same whatever the ranks and threads that compute it, and the one that state.json says how
// to compute again: no other program is needed to check a checkpoint.
TEST_F(Checkpoints, DigestsAreThoseOfTheFilesBlocks) {
  const std::string big = dir / "big";
  std::mt19937_64 random(7);
  std::string bytes(static_cast<size_t>(2 * inference::kDigestBlock + 4321), '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  std::ofstream(big, std::ios::binary) << bytes;
  std::string blocks;
  for (size_t at = 0; at < bytes.size(); at += inference::kDigestBlock)
    blocks += sha256_hex(std::string_view(bytes).substr(at, inference::kDigestBlock));
  const std::string expected = sha256_hex(blocks);
  EXPECT_EQ(inference::digest_of(big, {}), expected);
  for (const int ranks : {2, 3, 5}) {  // more than there are blocks
    World world(ranks);
    world([&](const inference::Meeting& all) {
      EXPECT_EQ(inference::digest_of(big, all), all.rank == 0 ? expected : "");
    });
  }
  const fs::path at = save(5);
  const inference::CheckpointState state = inference::read_state(at);
  EXPECT_EQ(state.files.at("model.safetensors").digest, inference::digest_of(at / "model.safetensors", {}));
  EXPECT_EQ(state.files.at("optimizer.safetensors").bytes,
            static_cast<int64_t>(fs::file_size(at / "optimizer.safetensors")));
}

// One bit or a cut anywhere in any of the three files is one ConfigError, on every rank or on the first.
TEST_F(Checkpoints, ABitOrACutAnywhereIsRefused) {
  const fs::path at = save(5);
  std::vector<float> p(plan.params_all.count), a(p), b(p);
  const auto refused = [&] {
    try {
      const inference::CheckpointState now =
          inference::load_checkpoint(at, plan, p.data(), a.data(), b.data(), {});
      return inference::text_of(now) == inference::text_of(inference::read_state(at)) && now.train.step == 5
                 ? "same"
                 : "accepted";
    } catch (const ConfigError& e) {
      EXPECT_EQ(std::string(e.what()).find("json.exception"), std::string::npos) << e.what();
      return "refused";
    }
  };
  EXPECT_STREQ(refused(), "same");
  std::mt19937_64 random(std::random_device{}());
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    const std::string whole = text_of(at / name);
    const auto with = [&](const std::string& bytes) {
      std::ofstream(at / name, std::ios::binary) << bytes;
      return refused();
    };
    for (int i = 0; i < 120; ++i) {
      std::string bytes = whole;
      const size_t byte = i % 3 == 0 ? random() % 64 : random() % whole.size();
      bytes[byte] = static_cast<char>(bytes[byte] ^ (1 << random() % 8));
      // 1e-08 may become 1E-08: nothing else is the same to a reader of JSON.
      const bool exponent = name[0] == 's' && (whole[byte] | 0x20) == 'e' && (bytes[byte] | 0x20) == 'e';
      if (exponent) continue;
      EXPECT_STREQ(with(bytes), "refused") << name << " byte " << byte << " of " << whole.size();
    }
    for (int i = 0; i < 40; ++i) {
      const size_t length = random() % (whole.size() - 1);  // the last byte of state.json is a newline
      EXPECT_STREQ(with(whole.substr(0, length)), "refused") << name << " cut to " << length;
    }
    EXPECT_STREQ(with(whole), "same");
  }
}

TEST_F(Checkpoints, AStateThatNoRunWritesIsRefusedByItsKey) {
  const fs::path at = save(5);
  const json good = json::parse(text_of(at / "state.json"));
  const auto refusal = [&](const json& state) -> std::string {
    std::ofstream(at / "state.json") << state;
    try {
      inference::read_state(at);
      return "accepted";
    } catch (const ConfigError& e) {
      return e.what();
    }
  };
  std::string deep = "0";
  for (int i = 0; i < 100000; ++i) deep = "[" + deep + "]";
  const std::vector<std::tuple<const char*, json, const char*>> cases = {
      {"step", -1, "'step': is -1"},
      {"step", "5", "'step': is \"5\", not a whole number"},
      {"step", 5.5, "not a whole number"},
      {"step", nullptr, "not a whole number"},
      {"step", UINT64_MAX, "'step': is 18446744073709551615"},
      {"schema", 3, "a later Isobar"},
      {"schema", 0, "'schema'"},
      {"plateau", 1, "'plateau': is 1, not a map of keys"},
      {"plateau", {{"bad", "x"}, {"cooldown", 0}, {"factor", 1}}, "'plateau.bad'"},
      {"loss_scale", "high", "'loss_scale'"},
      {"spec", {{"net", {{"embed_dim", "x"}}}}, "'net.embed_dim'"},
      {"spec", {{"net", {{"colour", 1}}}}, "'net.colour'"},
      {"files", {{"model.safetensors", 7}}, "'files.model.safetensors'"},
      {"step", 4, "changed since it was written"},
  };
  for (const auto& [key, value, said] : cases) {
    json state = good;
    state[key] = value;
    const std::string what = refusal(state);
    EXPECT_NE(what.find(said), std::string::npos) << key << " = " << value << ": " << what;
    EXPECT_NE(what.find("state.json"), std::string::npos) << what;
  }
  for (const char* key : {"schema", "step", "spec", "files", "sha256"}) {
    json state = good;
    state.erase(key);
    EXPECT_NE(refusal(state).find("'" + std::string(key) + "': is missing"), std::string::npos) << key;
  }
  EXPECT_NE(refusal(json::array()).find("no JSON object"), std::string::npos);
  std::ofstream(at / "state.json") << "{\"schema\": 2, \"step\": 5, \"plateau\": " << deep << "}";
  EXPECT_THROW(inference::read_state(at), ConfigError);
}

}  // namespace
}  // namespace isobar::engine
