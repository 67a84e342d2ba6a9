// Runs of the real command under a layout, compared with one rank: losses of ten steps and the final weights.
// The net has an odd number of blocks (uneven stages) and 35 tokens (uneven over 2, 3 and 4 ranks). fp32 by
// default; only the order of sums may differ.
//
//   expect_like_one_rank({"layout.tp=2", "layout.pp=2", "policy.micro_batch=3"});
//   const TrainedNet many = run(dir / "many", {"layout.dp=2"}, 2);   // many.record.losses.at(10),
//   many.weights
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "model/inference/weights/safetensors.h"
#include "tests/engine/command.h"
#include "tests/engine/nets.h"
#include "tests/paths.h"
#include "tests/worst.h"

namespace isobar {

struct TrainedNet {
  WrittenRun record;
  inference::TensorFile weights;
};

inline inference::TensorFile weights_after(const std::string& out, int64_t step) {
  char checkpoint[64];
  std::snprintf(checkpoint, sizeof checkpoint, "checkpoints/step-%08ld/model.safetensors", step);
  return inference::read_safetensors(fs::path(out) / checkpoint);
}

inline TrainedNet trained_to(const std::string& out, const Words& layout, int64_t ranks, int64_t steps,
                             const Words& more = {}, const TestNet& net = kVit) {
  Words set = net.set;
  set.insert(set.end(), layout.begin(), layout.end());
  set.push_back("run.out=" + out);
  Words options = more;
  if (ranks > 1) options.insert(options.end(), {"--ranks", std::to_string(ranks)});
  const Ended e = Child(train_words(net.config, set, options)).wait();
  EXPECT_EQ(e.code, 0) << e.text;
  if (e.code != 0) return {};
  return {read_run(out), weights_after(out, steps)};
}

inline TrainedNet run(const std::string& out, const Words& layout, int64_t ranks, const Words& more = {},
                      const TestNet& net = kVit) {
  return trained_to(out, layout, ranks, 10, more, net);
}

// |a - b| / |a| over all weights together
inline double distance(const inference::TensorFile& a, const inference::TensorFile& b) {
  double difference = 0, size = 0;
  EXPECT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, x] : a.tensors) {
    const auto y = b.tensors.find(name);
    if (y == b.tensors.end() || y->second.shape != x.shape) {
      ADD_FAILURE() << name << " is missing or has another shape";
      continue;
    }
    for (size_t i = 0; i < x.values.size(); ++i) {
      difference += (x.values[i] - y->second.values[i]) * (x.values[i] - y->second.values[i]);
      size += x.values[i] * x.values[i];
    }
  }
  return std::sqrt(difference / size);
}

inline const TrainedNet& one_rank(const TestNet& net = kVit) {
  static std::map<std::string, TrainedNet> known;
  const auto [one, fresh] = known.try_emplace(text_of(net));
  const Folder dir;
  if (fresh) one->second = run(dir / "one", {}, 1, {}, net);
  return one->second;
}

// By step, relative, the largest so far; and of the weights after all steps
struct Apart {
  std::map<int64_t, double> losses = {};
  double weights = 0;
};

inline Apart apart(const TrainedNet& one, const TrainedNet& other) {
  Apart out{.weights = distance(one.weights, other.weights)};
  double most = 0;
  for (const auto& [step, loss] : one.record.losses)
    out.losses[step] = most = worst(most, std::abs(other.record.losses.at(step) / loss - 1));
  return out;
}

// Effect of another order of the same sums on a training, in which roundings grow from step to step. Each
// step rounds its result at least once; where that does not explain a difference, the growth is measured by
// the same training on one rank in other micro-batches. Layouts reorder sums too, and must stay within a
// multiple of it.
class Reordered {
 public:
  Reordered(const TrainedNet& one, std::function<TrainedNet()> in_other_micro_batches)
      : one_(one), again_(std::move(in_other_micro_batches)) {}

  void expect_like_one(const TrainedNet& other, const std::string& title) {
    ASSERT_EQ(other.record.losses.size(), one_.record.losses.size()) << title;
    const Apart is = apart(one_, other);
    Shares of_allowed = shares(is);
    if ((of_allowed.losses > 1 || of_allowed.weights > 1) && again_) {
      measured_ = apart(one_, again_());
      again_ = nullptr;
      of_allowed = shares(is);
    }
    EXPECT_LE(of_allowed.losses, 1) << title << ": off by more than rounding explains";
    EXPECT_LE(of_allowed.weights, 1) << title << ": off by more than rounding explains";
    std::printf("%-90s losses %.1e (%.2f of what rounding may do)  weights %.1e (%.2f)\n", title.c_str(),
                is.losses.rbegin()->second, of_allowed.losses, is.weights, of_allowed.weights);
  }

 private:
  struct Shares {
    double losses, weights;
  };
  // No rounding is as large as `kLargest`: micro-batches that train otherwise would excuse any layout.
  static double allowed(int64_t step, double measured) {
    constexpr double kMultiple = 20, kFloat = 0x1p-24, kLargest = 1e-4;
    return std::min(kLargest, kMultiple * std::max(measured, kFloat * std::sqrt(static_cast<double>(step))));
  }
  Shares shares(const Apart& is) const {
    Shares out{0, is.weights / allowed(is.losses.rbegin()->first, measured_.weights)};
    for (const auto& [step, difference] : is.losses) {
      const auto at = measured_.losses.find(step);
      const double measured = at == measured_.losses.end() ? 0 : at->second;
      out.losses = worst(out.losses, difference / allowed(step, measured));
    }
    return out;
  }
  const TrainedNet& one_;
  std::function<TrainedNet()> again_;  // nothing once it has run
  Apart measured_;
};

inline Reordered& reordered_one_rank(const TestNet& net) {
  static std::map<std::string, Reordered> known;
  return known
      .try_emplace(text_of(net), one_rank(net),
                   [net] {
                     const Folder dir;
                     return run(dir / "again", {"policy.micro_batch=1"}, 1, {}, net);
                   })
      .first->second;
}

inline void expect_like_one_rank(const Words& layout, const TestNet& net = kVit) {
  static int cases = 0;  // sanitizers are slow: one case in four must suffice
  if (kSanitized && cases++ % 4 != 0) return;
  int64_t ranks = 1;
  std::string title;
  for (const std::string& word : layout) {
    title += word + " ";
    for (const char* axis : {"dp", "tp", "cp", "pp"}) {
      const std::string key = std::string("layout.") + axis + "=";
      if (word.rfind(key, 0) == 0) ranks *= std::stoll(word.substr(key.size()));
    }
  }
  SCOPED_TRACE(title);
  const Folder dir;
  const TrainedNet many = run(dir / "many", layout, ranks, {}, net);
  ASSERT_EQ(many.record.losses.size(), 10u);
  reordered_one_rank(net).expect_like_one(many, title);
}

}  // namespace isobar
