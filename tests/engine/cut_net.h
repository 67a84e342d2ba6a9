// A small net partitioned by hand over pipeline, tensor and data parallelism, with threads as ranks.
//
//   const Plan part = cut_plan(net(2, 8), {.pp = 2, .tp = 3}, rank);
//   buffer_of(part, random_values(net(2, 8)));      // as the rank holds them; gaps are NaN
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "model/inference/weights/checkpoint.h"
#include "model/plan/plan.h"
#include "tests/engine/noise.h"

namespace isobar::engine {

inline int64_t product(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  return n;
}

struct Piece {  // of a tensor: split on `axis` into `ways`, or whole
  plan::Tensor tensor;
  int axis;
  plan::Init init;
};

inline std::vector<Piece> net(int64_t depth, int64_t width) {
  std::vector<Piece> out = {{{"patch.weight", {width, 3, 2, 2}}, 1, plan::Init::uniform},
                            {{"position", {5, width}}, -1, plan::Init::normal}};
  for (int64_t i = 0; i < depth; ++i) {
    const std::string b = "blocks." + std::to_string(i) + ".";
    out.push_back({{b + "norm.weight", {width}}, -1, plan::Init::one});
    out.push_back({{b + "up.weight", {4 * width, width}}, 0, plan::Init::normal});
    out.push_back({{b + "up.bias", {4 * width}}, 0, plan::Init::zero});
    out.push_back({{b + "down.weight", {width, 4 * width}}, 1, plan::Init::normal});
    out.push_back({{b + "mixed", {3, 2, 6}}, 2, plan::Init::uniform});
  }
  return out;
}

/// Rank `rank` = (stage, tp, dp), dp innermost. The first stage holds the first half of the net's tensors.
struct Cut {
  int pp = 1, tp = 1, dp = 1;
  int world() const { return pp * tp * dp; }
};

/// [begin, end) of part i; the first parts are larger if the ways do not divide the extent.
inline int64_t bound(int64_t extent, int ways, int i) {
  return (extent * i + ways - 1) / ways;
}

inline plan::Plan cut_plan(const std::vector<Piece>& net, const Cut& cut, int rank) {
  plan::Plan plan;
  plan.rank = rank, plan.world = cut.world();
  const int dp = rank % cut.dp, tp = rank / cut.dp % cut.tp, stage = rank / cut.dp / cut.tp;
  int64_t end = 0;
  for (size_t i = 0; i < net.size(); ++i) {
    const Piece& piece = net[i];
    plan.tensors.push_back(piece.tensor);
    if (static_cast<int>(i * cut.pp / net.size()) != stage) continue;
    plan::Param p{piece.tensor.name, piece.tensor.shape, piece.init, 0.5f};
    p.count = product(p.shape);
    p.writer = dp == cut.dp - 1;  // any replica may be
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

using Values = std::map<std::string, std::vector<float>>;  // of the whole net

inline Values random_values(const std::vector<Piece>& net) {
  Values out;
  for (const Piece& p : net) out[p.tensor.name] = noise(product(p.tensor.shape));
  return out;
}

/// Calls f(index in the whole tensor, index in the rank's buffer) for every element.
template <class F>
void each_element(const plan::Param& p, F f) {
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

inline std::vector<float> buffer_of(const plan::Plan& plan, const Values& values) {
  std::vector<float> out(plan.params_all.count, NAN);  // gaps must not be written to files
  for (const plan::Param& p : plan.params)
    each_element(p, [&](int64_t whole, int64_t at) { out[at] = values.at(p.name)[whole]; });
  return out;
}

/// Threads as ranks. One that fails takes the others down, as MPI_Abort does.
class World {
 public:
  explicit World(int ranks) : ranks_(ranks) {}
  void operator()(const std::function<void(const inference::Meeting&)>& rank) {
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks_; ++r)
      threads.emplace_back([&, r] {
        try {
          rank({r, ranks_, 2, [this] { meet(); },
                [this, r](std::string s) { return from_first(r, std::move(s)); },
                [this, r](std::string s) { return to_first(r, std::move(s)); }});
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
  std::vector<std::string> to_first(int rank, std::string s) {
    {
      const std::lock_guard lock(mutex_);
      gathered_.resize(static_cast<size_t>(ranks_));
      gathered_[static_cast<size_t>(rank)] = std::move(s);
    }
    meet();
    std::vector<std::string> heard = rank == 0 ? gathered_ : std::vector<std::string>();
    meet();
    return heard;
  }
  int ranks_, here_ = 0;
  int64_t turn_ = 0;
  std::string said_;
  std::vector<std::string> gathered_;
  std::exception_ptr failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace isobar::engine
