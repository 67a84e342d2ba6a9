// Run by mpiexec with 1, 2 or 4 ranks: roll-outs of four steps (aurora: three, of microsoft-aurora) against
// PyTorch in float64 (tests/fixtures/make_rollout.py), under layouts of that world size. Compares loss, RMSE
// and every gradient, taken from the weights' change in one step of plain SGD. Working memory starts as NaN,
// and all planned bytes are used.
#include <gtest/gtest.h>
#include <omp.h>

#include "tests/engine/rounding.h"
#include "tests/worst.h"

namespace isobar::rollout_tests {
namespace {

using Words = std::vector<std::string>;

constexpr int64_t kBatch = 4;  // as in the fixtures

const std::string& fixture() {
  static const std::string path = source_dir() + "/tests/fixtures/rollout_fixture";
  return path;
}

struct Case {
  std::string net;
  int64_t history;
  std::string prediction, gradient;
  std::string start() const { return net + ".h" + std::to_string(history); }
  std::string name() const { return start() + "." + prediction + "." + gradient; }
  std::string config() const {
    return fixture() + (net == "unet" || net == "aurora" ? "_" + net : "") + ".yaml";
  }
  std::string file() const { return fixture() + (net == "aurora" ? "_aurora" : "") + ".safetensors"; }
  const std::vector<double>& values(const std::string& name) const {
    static std::map<std::string, inference::TensorFile> files;
    const auto at = files.find(file());
    return (at == files.end() ? files.emplace(file(), inference::read_safetensors(file())).first : at)
        ->second.tensors.at(name)
        .values;
  }
  Words words() const {
    if (prediction == "drop")  // draws differ by step, not by layout
      return {"net.drop_path=0.3", "train.rollout_gradient=" + gradient};
    if (net == "aurora")
      return {"net.history=" + std::to_string(history), "net.in_channels=" + std::to_string(8 * history + 1),
              "train.rollout_gradient=" + gradient};
    return {"data.history=" + std::to_string(history),
            "net.in_channels=" + std::to_string((net == "known" ? 5 : 3) * history),
            "train.prediction=" + prediction, "train.rollout_gradient=" + gradient};
  }
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"vit", 1, "state", "all"},        {"vit", 1, "state", "last"},     {"vit", 1, "increment", "all"},
      {"vit", 2, "state", "all"},        {"vit", 2, "increment", "all"},  {"vit", 3, "state", "last"},
      {"vit", 2, "increment", "last"},   {"unet", 2, "increment", "all"}, {"known", 2, "state", "all"},
      {"known", 2, "increment", "last"}, {"aurora", 2, "state", "all"},   {"aurora", 2, "state", "last"},
      {"aurora", 3, "state", "all"},     {"aurora", 1, "state", "last"},  {"aurora", 2, "drop", "all"},
      {"aurora", 2, "drop", "last"},
  };
  return all;
}

void begin(InProcess& run, const RunSpec& spec, const Case& c) {
  run.start_from(inference::SafetensorsReader(c.file()), c.start() + "/init/");
  const int64_t steps = spec.train.rollout;
  run.samples_from([&c, steps](const plan::BatchTensor& t, int64_t sample) {
    const std::vector<double>& all = c.values(c.start() + "/" + t.name.substr(0, t.name.find('+')));
    const int64_t forced = t.role == plan::BatchRole::forcing ? 1 : 0,
                  of = t.role == plan::BatchRole::input ? 1 : steps - forced, which = t.step - forced;
    EXPECT_EQ(static_cast<int64_t>(all.size()), kBatch * of * t.sample);
    return all.data() + (sample * of + which) * t.sample;
  });
}

const engine::Rounding& rounding_in(const Case& c, const comm::Mpi& mpi) {
  static std::map<std::string, engine::Rounding> known;
  const auto at = known.find(c.name());
  if (at != known.end()) return at->second;
  const RunSpec spec = load_run_spec(c.config(), c.words());
  return known[c.name()] = engine::rounding_of(spec, mpi, [&](InProcess& run) { begin(run, spec, c); });
}

struct Errors {
  double loss = 0, rmse = 0, gradient = 0;
};

// Partitioned tensors are judged on all ranks' parts together.
double worst_gradient(const Case& c, const plan::Plan& plan, const std::vector<float>& moved, double lr,
                      const comm::Mpi& mpi) {
  std::map<std::string, std::pair<double, double>> squares;  // of the difference, of the reference
  for (const plan::Tensor& t : plan.tensors) squares[t.name] = {0, 0};
  for (const plan::Param& p : plan.params) {
    const std::vector<double>&before = c.values(c.start() + "/init/" + p.name),
          &gradient = c.values(c.name() + "/grad/" + p.name);
    for (const inference::ElementRun& r : inference::kept_runs(plan, p, &plan::Shard::params))
      for (int64_t i = 0; i < r.count; ++i) {
        const double g = (before.at(r.whole + i) - static_cast<double>(moved.at(r.offset + i))) / lr;
        squares[p.name].first += (g - gradient.at(r.whole + i)) * (g - gradient.at(r.whole + i));
        squares[p.name].second += gradient.at(r.whole + i) * gradient.at(r.whole + i);
      }
  }
  std::vector<double> all;
  for (const auto& [name, s] : squares) all.push_back(s.first), all.push_back(s.second);
  all = mpi.sum_of(all);
  std::map<std::string, double> sizes, off;
  size_t i = 0;
  for (const auto& [name, s] : squares)
    off[name] = std::sqrt(all[i]), sizes[name] = std::sqrt(all[i + 1]), i += 2;
  double most = 0;
  for (const auto& [name, d] : off) {
    std::string scale = name;  // softmax ignores a shift of all keys: this gradient is zero
    if (const size_t k = name.find(".k.bias"); k != std::string::npos) scale.replace(k, 3, ".q.");
    EXPECT_GT(sizes.at(scale), 0) << name;
    most = worst(most, d / sizes.at(scale));
    EXPECT_LE(d, rounding_in(c, mpi).bound(name)) << "gradient of " << name << " in " << c.name();
  }
  return most;
}

void expect_like_pytorch(const Case& c, const Words& layout) {
  const comm::Mpi& mpi = session();
  Words words = c.words();
  words.insert(words.end(), layout.begin(), layout.end());
  std::string title = c.name();
  for (const std::string& w : layout) title += " " + w;
  SCOPED_TRACE(title);
  try {
    const RunSpec spec = load_run_spec(c.config(), words);
    InProcess run(spec, mpi, title);
    begin(run, spec, c);
    const Step step = run.step(0);
    Errors e;
    e.loss = mpi.max_of(std::abs(step.loss / c.values(c.name() + "/loss").at(0) - 1));
    e.gradient = worst_gradient(c, run.plan, run.params(), spec.train.lr, mpi);
    const plan::Metric& rmse = run.plan.metric("rmse");
    for (int64_t i = 0; i < rmse.count; ++i)
      e.rmse =
          worst(e.rmse, std::abs(run.metrics().at(rmse.first + i) / c.values(c.name() + "/rmse").at(i) - 1));
    EXPECT_LE(e.loss, 1e-6);
    EXPECT_LE(e.rmse, 1e-5);
    const engine::Idle idle = run.idle();
    EXPECT_LE(idle.scratch, idle.excused);
    EXPECT_LE(idle.saved, engine::kSlack);
    if (mpi.rank() == 0)
      std::printf("%-90s loss %.1e, rmse %.1e, gradients %.1e\n", title.c_str(), e.loss, e.rmse, e.gradient);
  } catch (const std::exception& error) {  // the other ranks wait for this one
    std::printf("FAILED on rank %d: %s in %s\n", mpi.rank(), error.what(), title.c_str());
    std::fflush(stdout);
    mpi.abort(1);
  }
}

/// Layouts of this number of ranks.
std::vector<Words> layouts_of(int ranks) {
  const std::string one = "policy.micro_batch=1", two = "policy.micro_batch=2";
  if (ranks == 1)
    return {{},
            {two},
            {one},
            {one, "policy.schedule=gpipe"},
            {two, "policy.recompute=full"},
            {"policy.recompute=selective"},
            {one, "run.serial=true"}};
  if (ranks == 2)
    return {{"layout.dp=2"},
            {"layout.tp=2"},
            {"layout.tp=2", "policy.sequence_parallel=true", two},
            {"layout.cp=2"},
            {"layout.cp=2", "policy.cp_kind=ring", one},
            {"layout.pp=2"},
            {"layout.pp=2", two},
            {"layout.pp=2", one, "policy.recompute=full"},
            {"layout.pp=2", one, "policy.schedule=gpipe"},
            {"layout.dp=2", "policy.zero=1", one},
            {"layout.dp=2", "policy.zero=2", one},
            {"layout.dp=2", "policy.zero=3", "policy.bucket_mb=0.01"},
            {"layout.dp=2", "policy.zero=3", one, "policy.recompute=full"}};
  return {{"layout.dp=2", "layout.tp=2"},
          {"layout.dp=2", "layout.tp=2", one, "policy.zero=3", "policy.sequence_parallel=true"},
          {"layout.pp=2", "layout.cp=2", one},
          {"layout.pp=2", "layout.tp=2", two},
          {"layout.dp=2", "layout.pp=2", one, "policy.zero=3"}};
}

TEST(RollOut, AgreesWithFloat64InEveryLayout) {
  omp_set_num_threads(1);
  for (const Case& c : cases())
    for (const Words& layout : layouts_of(session().size())) {
      const auto cuts_tokens = [](const std::string& w) {
        return w == "policy.sequence_parallel=true" || w.starts_with("layout.cp");
      };
      const auto cuts_blocks = [](const std::string& w) {
        return w == "policy.sequence_parallel=true" || w == "policy.cp_kind=ring";
      };
      // not supported
      if (c.net == "unet" && std::any_of(layout.begin(), layout.end(), cuts_tokens)) continue;
      if (c.net == "aurora" && std::any_of(layout.begin(), layout.end(), cuts_blocks)) continue;
      expect_like_pytorch(c, layout);
    }
}

}  // namespace
}  // namespace isobar::rollout_tests
