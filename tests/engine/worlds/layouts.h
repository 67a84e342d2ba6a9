// Layouts that train like one rank, in the ranks that mpiexec started (tests/engine/in_process.h). A test
// names layouts of any number of ranks; a world runs those of its own size, in one set of processes. Compared
// are losses and gradient norms of every step on every rank, and the final weights; only the order of sums
// may differ.
//
//   TEST(Aurora, OverStages) { expect_like_one_rank({"layout.pp=2", "policy.micro_batch=3"}, kAurora); }
#pragma once
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "tests/engine/nets.h"
#include "tests/engine/worlds/trained.h"

namespace isobar::engine {

/// Sizes of the worlds that tests/CMakeLists.txt starts
inline const std::set<int64_t> kWorlds = {1, 2, 3, 4, 5, 6, 8};

inline std::string title_of(const TestNet& net, const Words& layout) {
  return net.config.substr(net.config.rfind('/') + 1) + " " + text_of(layout);
}

/// Oversubscribed ranks make steps slow: worlds take fewer of them than the net's own test of learning.
inline const Words kFewSteps = {"train.steps=5"};

/// The training of a net under a layout of this world; none if it is another world's.
inline std::optional<Trained> trained_here(const TestNet& net, const Words& layout) {
  const comm::Mpi& mpi = session();
  const RunSpec spec = load_run_spec(net.config, net.set + kFewSteps + layout);
  EXPECT_TRUE(kWorlds.contains(spec.layout.world())) << "no world runs " << title_of(net, layout);
  if (spec.layout.world() != mpi.size()) return std::nullopt;
  const std::string title = title_of(net, layout);
  if (mpi.rank() == 0) std::printf("%s\n", title.c_str()), std::fflush(stdout);
  try {
    return trained(spec, mpi, title);
  } catch (const std::exception& e) {  // the other ranks wait for this one
    std::printf("FAILED on rank %d: %s under %s\n", mpi.rank(), e.what(), title.c_str());
    std::fflush(stdout);
    mpi.abort(1);
  }
}

inline const Trained& one_rank(const TestNet& net = kVit) {
  return one_rank(net.config, net.set + kFewSteps, session());
}

/// All steps of a net, on the one rank of a world of one.
inline void expect_learns(const TestNet& net, double share) {
  if (session().size() > 1) return;
  const std::vector<double> losses = one_rank(net.config, net.set, session()).losses;
  ASSERT_EQ(losses.size(), 10u);
  EXPECT_LT(losses.back(), share * losses[0]) << "nothing is learnt: nothing is tested";
}

/// Reordered sums in a training, whose roundings grow from step to step. Each step rounds its result at least
/// once; where that does not explain a difference, the growth is measured by the same training on one rank in
/// other micro-batches. Layouts reorder sums too, and must stay within a multiple of it.
class Roundings {
 public:
  explicit Roundings(const TestNet& net) : net_(net) {}

  void expect_explain(const Trained& many, const std::string& title) {
    const Trained& one = one_rank(net_);
    const Deviation d = compare(many, one, session());
    EXPECT_TRUE(d.whole) << "weights that no rank holds: " << title;
    const auto share = [&] {
      return std::max({d.losses / allowed(measured_.losses), d.norms / (10 * allowed(measured_.norms / 10)),
                       d.weights / allowed(measured_.weights)});
    };
    if (share() > 1 && !known_) {
      known_ = true;
      measured_ =
          compare(one_rank(net_.config, net_.set + kFewSteps + Words{"policy.micro_batch=1"}, session()), one,
                  session());
    }
    EXPECT_LE(share(), 1) << title << ": off by more than rounding explains: losses " << d.losses << " norms "
                          << d.norms << " weights " << d.weights;
    if (session().rank() == 0)
      std::printf("    losses %.1e norms %.1e weights %.1e (%.2f of what rounding may do)\n", d.losses,
                  d.norms, d.weights, share());
  }

 private:
  // No rounding is as large as kLargest, of norms 10 times that: micro-batches that train otherwise would
  // excuse any layout.
  double allowed(double measured) const {
    constexpr double kMultiple = 20, kFloat = 0x1p-24, kLargest = 1e-4;
    const auto steps = static_cast<double>(one_rank(net_).losses.size());
    return std::min(kLargest, kMultiple * std::max(measured, kFloat * std::sqrt(steps)));
  }
  const TestNet net_;
  Deviation measured_;
  bool known_ = false;
};

inline void expect_like_one_rank(const Words& layout, const TestNet& net = kVit) {
  static std::map<std::string, Roundings> known;
  static int cases = 0;  // sanitizers are slow: one case in four must suffice
  if (kSanitized && cases++ % 4 != 0) return;
  const std::optional<Trained> many = trained_here(net, layout);
  if (many) known.try_emplace(text_of(net), net).first->second.expect_explain(*many, title_of(net, layout));
}

/// Trains both ways, with the same losses and weights to the last bit. `a` keeps whole tensors, or both the
/// same parts.
inline void expect_same_bits(const Words& a, const Words& b, const TestNet& net = kVit) {
  const std::optional<Trained> one = trained_here(net, a), other = trained_here(net, b);
  ASSERT_EQ(one.has_value(), other.has_value());
  if (!one) return;
  const std::string title = title_of(net, b);
  EXPECT_EQ(one->losses, other->losses) << title;
  if (one->params.size() == other->params.size()) {
    EXPECT_EQ(one->params, other->params) << title;
  } else {
    EXPECT_EQ(compare(*other, *one, session()).weights, 0) << title;
  }
}

}  // namespace isobar::engine
