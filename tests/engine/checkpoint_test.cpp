// safetensors files read back by a reader of its own, refused when cut off at any byte; checkpoints that
// appear whole or not at all, written by any layout and read by any other.
#include "model/engine/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <random>
#include <thread>

#include "model/base/error.h"
#include "model/engine/params.h"
#include "model/engine/safetensors.h"
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
  std::vector<double> wide(10000);  // longer than what is converted at a time
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

// ---- a net small enough to cut by hand ----

int64_t product(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  return n;
}

struct Piece {  // of a tensor: cut on `axis` in `ways`, or whole
  Tensor tensor;
  int axis;
  Init init;
};

std::vector<Piece> net(int64_t depth, int64_t width) {
  std::vector<Piece> out = {{{"patch.weight", {width, 3, 2, 2}}, 1, Init::uniform},
                            {{"position", {5, width}}, -1, Init::normal}};
  for (int64_t i = 0; i < depth; ++i) {
    const std::string b = "blocks." + std::to_string(i) + ".";
    out.push_back({{b + "norm.weight", {width}}, -1, Init::one});
    out.push_back({{b + "up.weight", {4 * width, width}}, 0, Init::normal});
    out.push_back({{b + "up.bias", {4 * width}}, 0, Init::zero});
    out.push_back({{b + "down.weight", {width, 4 * width}}, 1, Init::normal});
    out.push_back({{b + "mixed", {3, 2, 6}}, 2, Init::uniform});
  }
  return out;
}

/// Rank `rank` = (stage, tp, dp), dp innermost: the first stage holds the first half of the net's tensors.
struct Cut {
  int pp = 1, tp = 1, dp = 1;
  int world() const { return pp * tp * dp; }
};

/// [begin, end) of part i: the first one is the larger where the ways do not divide the extent.
int64_t bound(int64_t extent, int ways, int i) {
  return (extent * i + ways - 1) / ways;
}

Plan cut_plan(const std::vector<Piece>& net, const Cut& cut, int rank) {
  Plan plan;
  plan.rank = rank, plan.world = cut.world();
  const int dp = rank % cut.dp, tp = rank / cut.dp % cut.tp, stage = rank / cut.dp / cut.tp;
  int64_t end = 0;
  for (size_t i = 0; i < net.size(); ++i) {
    const Piece& piece = net[i];
    plan.tensors.push_back(piece.tensor);
    if (static_cast<int>(i * cut.pp / net.size()) != stage) continue;
    Param p{piece.tensor.name, piece.tensor.shape, piece.init, 0.5f};
    p.count = product(p.shape);
    p.writer = dp == cut.dp - 1;  // any one may be
    if (piece.axis >= 0 && cut.tp > 1) {
      const int64_t extent = p.shape[piece.axis];
      p.axis = piece.axis;
      p.begin = bound(extent, cut.tp, tp);
      p.extent = bound(extent, cut.tp, tp + 1) - p.begin;
      p.count = p.count / extent * p.extent;
    } else if (tp != 0) {
      p.writer = false;
    }
    p.offset = (end + 15) / 16 * 16;
    end = p.offset + p.count;
    plan.params.push_back(std::move(p));
  }
  plan.params_all = {0, 0, end};
  plan.shards = {{0, end, 0, 0}};
  return plan;
}

using Values = std::map<std::string, std::vector<float>>;  // the whole net's

Values random_values(const std::vector<Piece>& net) {
  Values out;
  for (const Piece& p : net) out[p.tensor.name] = noise(product(p.tensor.shape));
  return out;
}

/// Calls f(index in the whole tensor, index in the rank's buffer), by coordinates.
template <class F>
void each_element(const Param& p, F f) {
  int64_t at = p.offset;
  for (int64_t i = 0; i < product(p.shape); ++i) {
    if (p.axis >= 0) {
      const int64_t inner = product({p.shape.begin() + p.axis + 1, p.shape.end()});
      const int64_t x = i / inner % p.shape[p.axis];
      if (x < p.begin || x >= p.begin + p.extent) continue;
    }
    f(i, at++);
  }
  EXPECT_EQ(at, p.offset + p.count);
}

std::vector<float> buffer_of(const Plan& plan, const Values& values) {
  std::vector<float> out(plan.params_all.count, NAN);  // gaps must not get into the files
  for (const Param& p : plan.params)
    each_element(p, [&](int64_t whole, int64_t at) { out[at] = values.at(p.name)[whole]; });
  return out;
}

/// Threads that play the ranks. One that fails takes the others along, as MPI's abort does.
class World {
 public:
  explicit World(int ranks) : ranks_(ranks) {}
  void operator()(const std::function<void(const Meeting&)>& rank) {
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks_; ++r)
      threads.emplace_back([&, r] {
        try {
          rank({r, [this] { meet(); }, [this, r](std::string s) { return from_first(r, std::move(s)); }});
        } catch (...) {
          const std::lock_guard lock(mutex_);
          if (!failure_) failure_ = std::current_exception();
          changed_.notify_all();
        }
      });
    for (std::thread& t : threads) t.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void meet() {
    std::unique_lock lock(mutex_);
    const int64_t turn = turn_;
    if (++here_ == ranks_) {
      here_ = 0, ++turn_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return turn_ != turn || failure_; });
    if (turn_ == turn) throw std::runtime_error("aborted");
  }
  std::string from_first(int rank, std::string s) {
    if (rank == 0) said_ = std::move(s);
    meet();
    std::string heard = said_;
    meet();
    return heard;
  }
  int ranks_, here_ = 0;
  int64_t turn_ = 0;
  std::string said_;
  std::exception_ptr failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

const std::vector<Cut> kCuts = {{1, 1, 1}, {1, 2, 1}, {1, 3, 2}, {2, 1, 1}, {3, 2, 2}};

TEST(Params, PartsStartWithTheValuesOfTheWhole) {
  const auto n = net(2, 8);
  const uint64_t seed = std::random_device{}();
  const Plan whole = cut_plan(n, {}, 0);
  std::vector<float> x(whole.params_all.count, NAN);
  init_params(whole, seed, x.data());
  Values values;
  for (const Param& p : whole.params) values[p.name] = {&x[p.offset], &x[p.offset] + p.count};
  EXPECT_NE(values["position"][0], values["position"][1]);
  EXPECT_NE(values["blocks.0.up.weight"], values["blocks.1.up.weight"]);
  for (const Cut& cut : kCuts) {
    for (int r = 0; r < cut.world(); ++r) {
      const Plan plan = cut_plan(n, cut, r);
      std::vector<float> part(plan.params_all.count, NAN);
      init_params(plan, seed, part.data());
      const std::vector<float> expected = buffer_of(plan, values);
      EXPECT_EQ(std::memcmp(part.data(), expected.data(), part.size() * sizeof(float)), 0)
          << r;  // NaN gaps too
    }
  }
}

TEST(Params, RunsAreRowsOfTheWhole) {
  const auto runs = [](int axis, int64_t begin, int64_t extent, int64_t count) {
    Param p{"w", {4, 6}, Init::zero};
    p.axis = axis, p.begin = begin, p.extent = extent, p.offset = 32, p.count = count;
    std::vector<std::vector<int64_t>> out;
    for (const ElementRun& r : runs_of(p)) out.push_back({r.whole, r.offset, r.count});
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
    world([&](const Meeting& all) {
      const Plan plan = cut_plan(pieces, cut, all.rank);
      const auto x = buffer_of(plan, params), a = buffer_of(plan, m), b = buffer_of(plan, v);
      const fs::path at = save_checkpoint(dir / run, plan, x.data(), a.data(), b.data(), {step, 3, 8}, all);
      EXPECT_TRUE(fs::exists(at / "state.json")) << "rank " << all.rank << " came back too early";
    });
  }
  fs::path save(int64_t step, const Meeting& all = {}) {
    const auto x = buffer_of(plan, params), a = buffer_of(plan, m), b = buffer_of(plan, v);
    return save_checkpoint(dir / "run", plan, x.data(), a.data(), b.data(), {step, 3, 8}, all);
  }
  /// Every part that the rank holds is what was saved, and nothing beside its parts was written.
  void expect_loads(const fs::path& at, const Cut& cut, int64_t step) {
    for (int r = 0; r < cut.world(); ++r) {
      SCOPED_TRACE("rank " + std::to_string(r));
      const Plan part = cut_plan(pieces, cut, r);
      const size_t n = part.params_all.count;
      std::vector<float> p2(n, NAN), m2(n, NAN), v2(n, NAN);
      const TrainState state = load_checkpoint(at, part, p2.data(), m2.data(), v2.data());
      EXPECT_EQ(state.step, step);
      EXPECT_EQ(state.seed, 3);
      EXPECT_EQ(state.global_batch, 8);
      for (const auto& [got, saved] : {std::pair{&p2, &params}, {&m2, &m}, {&v2, &v}}) {
        const std::vector<float> expected = buffer_of(part, *saved);
        EXPECT_EQ(std::memcmp(got->data(), expected.data(), n * sizeof(float)), 0);
      }
    }
  }
  Folder dir;
  const std::vector<Piece> pieces = net(2, 8);
  const Plan plan = cut_plan(pieces, {}, 0);
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
    const fs::path at = find_checkpoint(dir / run);
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
  const fs::path at = find_checkpoint(dir / "cut");
  const TensorFile model = read_safetensors(at / "model.safetensors"),
                   moments = read_safetensors(at / "optimizer.safetensors");
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
      Meeting all;
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
      EXPECT_THROW(find_checkpoint(dir / "run"), ConfigError);
      EXPECT_TRUE(fs::exists(fs::path(dir / "run") / "checkpoints" / "step-00000007.tmp"));
    } else {
      expect_loads(find_checkpoint(dir / "run"), {}, 7);
    }
  }
}

TEST_F(Checkpoints, DoNotAppearWhenOneRankFails) {
  World world(2);
  EXPECT_THROW(world([&](const Meeting& all) {
                 Plan part = cut_plan(pieces, {1, 2, 1}, all.rank);
                 if (all.rank == 1) part.params.back().name = "unheard of";
                 const auto x = std::vector<float>(part.params_all.count);
                 save_checkpoint(dir / "run", part, x.data(), x.data(), x.data(), {5, 3, 8}, all);
               }),
               std::logic_error);
  EXPECT_THROW(find_checkpoint(dir / "run"), ConfigError);
  save_as({1, 2, 1}, "run", 5);  // over what is left
  expect_loads(find_checkpoint(dir / "run"), {}, 5);
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
  const std::vector<float> other = noise(plan.params_all.count);
  EXPECT_EQ(save_checkpoint(dir / "run", plan, other.data(), other.data(), other.data(), {5, 3, 8}, {}), at);
  EXPECT_EQ(text_of(at / "model.safetensors"), before);
  save_as({1, 2, 1}, "run", 5);
  EXPECT_FALSE(fs::exists(at.string() + ".tmp"));
}

TEST_F(Checkpoints, OfAnotherNetOrDamagedAreRefused) {
  const fs::path at = save(5);
  const auto load = [&](const Plan& into) {
    std::vector<float> p(into.params_all.count), a(p), b(p);
    load_checkpoint(at, into, p.data(), a.data(), b.data());
  };
  const auto expect_refused = [&](const Plan& into, const std::string& why) {
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

}  // namespace
}  // namespace isobar
