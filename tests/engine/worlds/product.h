// All layouts of a world size: every (dp, tp, cp, pp), with each cp kind, schedule, ZeRO stage and recompute
// mode that makes a difference, each with the smallest legal net.
//
//   std::vector<Choice> all = product_of(8);
//   const size_t pairs = covering_first(all, random);  // all[0 … pairs): every two axes in every combination
//   RunSpec spec = load_run_spec(tiny, words_of(all[0], random));
#pragma once
#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace isobar::engine {

struct Choice {
  // dp, tp, cp, pp, then indices into the names below; -1: no effect here
  enum Axis { kDp, kTp, kCp, kPp, kKind, kSchedule, kZero, kRecompute, kAxes };
  std::array<int, kAxes> axes;
  int operator[](Axis a) const { return axes[a]; }
  bool interleaved() const { return axes[kSchedule] == 2; }
  bool zero_bubble() const { return axes[kSchedule] == 3; }
};
inline const std::array<const char*, 3> kKinds = {"allgather", "ring", "ulysses"};
inline const std::array<const char*, 4> kSchedules = {"gpipe", "1f1b", "interleaved", "zb-h1"};
inline const std::array<const char*, 3> kRecomputes = {"none", "selective", "full"};

inline std::vector<Choice> product_of(int world) {
  std::vector<Choice> out;
  const auto only_if = [](bool applies, int n) {
    std::vector<int> values;
    for (int i = 0; i < (applies ? n : 1); ++i) values.push_back(applies ? i : -1);
    return values;
  };
  for (int dp = 1; dp <= world; ++dp)
    for (int tp = 1; dp * tp <= world; ++tp)
      for (int cp = 1; dp * tp * cp <= world; ++cp) {
        if (world % (dp * tp * cp) != 0) continue;
        const int pp = world / (dp * tp * cp);
        for (const int kind : only_if(cp > 1, 3))
          for (const int schedule : only_if(pp > 1, 4))
            for (const int zero : only_if(dp * tp * cp > 1, 4))
              for (const int recompute : only_if(true, 3)) {
                const Choice c{{dp, tp, cp, pp, kind, schedule, zero, recompute}};
                // rejected: zb-h1 keeps activations and whole gradients for its deferred weight gradients
                if (c.zero_bubble() && (zero > 1 || recompute > 0)) continue;
                out.push_back(c);
              }
      }
  return out;
}

/// Shuffles, then moves to the front a set that covers every pair of values of two axes that occurs in any
/// choice (greedy: each element adds the most new pairs). Returns that set's size.
inline size_t covering_first(std::vector<Choice>& all, std::mt19937& random) {
  std::shuffle(all.begin(), all.end(), random);
  using Pair = std::tuple<int, int, int, int>;  // two axes and their values
  const auto pairs = [](const Choice& c) {
    std::vector<Pair> out;
    for (int a = 0; a < Choice::kAxes; ++a)
      for (int b = a + 1; b < Choice::kAxes; ++b)
        if (c.axes[a] >= 0 && c.axes[b] >= 0) out.emplace_back(a, b, c.axes[a], c.axes[b]);
    return out;
  };
  std::set<Pair> covered;
  for (size_t n = 0; n < all.size(); ++n) {
    size_t best = n, most = 0;
    for (size_t i = n; i < all.size(); ++i) {
      const std::vector<Pair> own = pairs(all[i]);
      const size_t fresh =
          std::count_if(own.begin(), own.end(), [&](const Pair& p) { return !covered.contains(p); });
      if (fresh > most) best = i, most = fresh;
    }
    if (most == 0) return n;
    std::swap(all[n], all[best]);
    for (const Pair& p : pairs(all[n])) covered.insert(p);
  }
  return all.size();
}

/// Samples: a multiple of dp * pp with at least two for each.
inline int batch_of(const Choice& c) {
  const int shared = c[Choice::kDp] * c[Choice::kPp];
  return 12 % shared == 0 ? 12 : 2 * shared;
}

/// Oversubscribed ranks make steps slow: by default four steps, in long runs ten.
inline const int kSteps = std::getenv("ISOBAR_PRODUCT_SECONDS") ? 10 : 4;
inline const double kLearnt = kSteps == 10 ? 0.99 : 0.999;  // highest last loss, relative to the first

/// Enough heads for tp and Ulysses, blocks and micro-batches that make stages uneven, 35 tokens that make
/// cp's parts uneven.
inline std::vector<std::string> net_of(const Choice& c) {
  const auto text = [](const char* key, int v) { return key + std::to_string(v); };
  const int cuts = c[Choice::kTp] * c[Choice::kCp], heads = 4 % cuts == 0 ? 4 : cuts;
  const int chunks = c[Choice::kPp] * (c.interleaved() ? 2 : 1);
  return {text("net.num_heads=", heads),
          text("net.embed_dim=", 4 * heads),
          text("net.depth=", std::max(5, chunks + 1)),
          "net.patch_size=4",
          "net.img_height=20",
          "net.img_width=28",
          "net.in_channels=2",
          "net.out_channels=2",
          text("train.global_batch=", batch_of(c)),
          "train.steps=" + std::to_string(kSteps),
          "train.lr=3e-3",
          "train.seed=5",
          "run.threads=1"};
}

/// Settings of the choice for this batch size; other policies are random.
inline std::vector<std::string> layout_words(const Choice& c, int batch, std::mt19937& random) {
  constexpr int kMostMicroBatches = 16;
  std::vector<std::string> words;
  const auto pick = [&](const std::vector<std::string>& from) { return from[random() % from.size()]; };
  const auto text = [](const char* key, int v) { return key + std::to_string(v); };
  const int dp = c[Choice::kDp], tp = c[Choice::kTp], cp = c[Choice::kCp], pp = c[Choice::kPp];
  std::vector<std::string> axes = {"tp", "cp", "dp", "pp"};
  std::shuffle(axes.begin(), axes.end(), random);
  std::vector<std::string> micro_batches;
  for (int b = 1, n = batch / dp; b <= n; ++b)
    if (n % b == 0 && n / b <= kMostMicroBatches && (!c.interleaved() || n / b % pp == 0))
      micro_batches.push_back(std::to_string(b));
  // Without dp and cp, only the rows split by sequence parallelism give ZeRO something to share.
  const bool sequence = tp > 1 && ((c[Choice::kZero] > 0 && dp * cp == 1) || random() % 2 == 0);
  const int recompute = c[Choice::kRecompute];
  for (const std::string& word :
       {text("layout.dp=", dp), text("layout.tp=", tp), text("layout.cp=", cp), text("layout.pp=", pp),
        text("layout.vpp=", c.interleaved() ? 2 : 1),
        "layout.order=" + axes[0] + "-" + axes[1] + "-" + axes[2] + "-" + axes[3],
        std::string("policy.cp_kind=") + kKinds[std::max(0, c[Choice::kKind])],
        std::string("policy.schedule=") + (pp > 1 ? kSchedules[c[Choice::kSchedule]] : "1f1b"),
        text("policy.zero=", std::max(0, c[Choice::kZero])),
        std::string("policy.recompute=") + kRecomputes[recompute],
        "policy.recompute_method=" + (recompute == 2 ? pick({"uniform", "block"}) : "uniform"),
        "policy.recompute_num_layers=" + (recompute == 2 ? pick({"1", "2", "3"}) : "1"),
        "policy.micro_batch=" + pick(micro_batches),
        std::string("policy.sequence_parallel=") + (sequence ? "true" : "false"),
        "policy.bucket_mb=" + pick({"0.01", "25"}), "policy.overlap=" + pick({"true", "false"}),
        "policy.offload_optimizer=" + pick({"true", "false", "false"}),
        "run.serial=" + pick({"true", "false", "false"})})
    words.push_back(word);
  return words;
}

/// Including the net's settings.
inline std::vector<std::string> words_of(const Choice& c, std::mt19937& random) {
  std::vector<std::string> words = net_of(c);
  for (std::string& word : layout_words(c, batch_of(c), random)) words.push_back(std::move(word));
  return words;
}

inline std::string text_of(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : " ") + w;
  return out;
}

}  // namespace isobar::engine
