// All ranks' calls of a group, run on the host by a stand-in that gives each call its documented meaning,
// against the op's semantics. Fresh random parts and values; outputs poisoned.
#include "model/comm/transfers.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <optional>
#include <random>

namespace isobar::comm {
namespace {

using Kind = TransferCall::Kind;
using Values = std::vector<int64_t>;
constexpr int64_t kPoison = -777777;

struct Rank {
  Values in, out;
  std::vector<TransferCall> calls;
};

// Runs every rank's group of calls as NCCL would: collectives match by order, sends and receives by order
// between two ranks.
void run(std::vector<Rank>& ranks) {
  const int size = static_cast<int>(ranks.size());
  const std::vector<Rank> before = ranks;
  const auto source = [&](int r, const TransferCall& c) {
    const Values& from = c.in_place ? before[r].out : before[r].in;
    const int64_t at = c.in_place ? c.out : c.in;
    EXPECT_LE(at + c.count, static_cast<int64_t>(from.size()));
    return Values(from.begin() + at, from.begin() + at + c.count);
  };
  const auto write = [&](int r, int64_t at, const Values& x) {
    ASSERT_LE(at + static_cast<int64_t>(x.size()), static_cast<int64_t>(ranks[r].out.size()));
    std::copy(x.begin(), x.end(), ranks[r].out.begin() + at);
  };
  const auto sum_at = [&](size_t i, int64_t from, int64_t count) {
    Values sum(count, 0);
    for (int r = 0; r < size; ++r) {
      TransferCall c = ranks[r].calls.at(i);
      c.in += from;
      c.count = count;
      const Values x = source(r, c);
      for (int64_t e = 0; e < count; ++e) sum[e] += x[e];
    }
    return sum;
  };
  std::map<std::pair<int, int>, std::vector<Values>> messages;  // (from, to), in order
  for (int r = 0; r < size; ++r)
    for (const TransferCall& c : ranks[r].calls)
      if (c.kind == Kind::send) messages[{r, c.peer}].push_back(source(r, c));
  std::map<std::pair<int, int>, size_t> received;
  for (int r = 0; r < size; ++r)
    for (size_t i = 0; i < ranks[r].calls.size(); ++i) {
      const TransferCall& c = ranks[r].calls[i];
      const bool collective = c.kind != Kind::send && c.kind != Kind::recv;
      for (int other = 0; collective && other < size; ++other) {
        const TransferCall& o = ranks[other].calls.at(i);
        ASSERT_EQ(o.kind, c.kind);
        ASSERT_EQ(o.count, c.count);
        ASSERT_EQ(o.peer, c.peer);
      }
      switch (c.kind) {
        case Kind::all_reduce:
          write(r, c.out, sum_at(i, 0, c.count));
          break;
        case Kind::broadcast:
          write(r, c.out, source(c.peer, ranks[c.peer].calls[i]));
          break;
        case Kind::all_gather:
          for (int o = 0; o < size; ++o) write(r, c.out + o * c.count, source(o, ranks[o].calls[i]));
          break;
        case Kind::reduce_scatter:
          write(r, c.out, sum_at(i, r * c.count, c.count));
          break;
        case Kind::reduce:
          if (c.peer == r) write(r, c.out, sum_at(i, 0, c.count));
          break;
        case Kind::send:
          break;
        case Kind::recv: {
          const auto& queue = messages[{c.peer, r}];
          const size_t n = received[{c.peer, r}]++;
          ASSERT_LT(n, queue.size()) << "nobody sends what rank " << r << " waits for";
          ASSERT_EQ(static_cast<int64_t>(queue[n].size()), c.count);
          write(r, c.out, queue[n]);
          break;
        }
      }
    }
  for (const auto& [link, queue] : messages)
    EXPECT_EQ(received[link], queue.size())
        << link.first << " sends " << link.second << " more than it takes";
}

class Transfers : public testing::Test {
 protected:
  void SetUp() override {
    const uint32_t seed = std::random_device{}();
    RecordProperty("seed", std::to_string(seed));
    random_.seed(seed);
    trace_.emplace(__FILE__, __LINE__, "seed " + std::to_string(seed));
  }
  void TearDown() override { trace_.reset(); }
  int64_t any(int64_t most) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(most + 1)); }
  Values values(int64_t n) {
    Values x(n);
    for (int64_t& v : x) v = any(1000);
    return x;
  }
  Values parts(int size, bool even) {
    Values p(size, any(40));
    if (!even)
      for (int64_t& n : p) n = any(3) == 0 ? 0 : any(40);
    return p;
  }
  static int64_t sum(const Values& p) { return std::accumulate(p.begin(), p.end(), int64_t{0}); }
  static Values poison(int64_t n) { return Values(n, kPoison); }
  template <class F>
  void for_groups(F&& body) {
    for (int size = 1; size <= 6; ++size)
      for (int round = 0; round < 8; ++round) body(size, round % 2 == 0);
  }
  static void prepare(const plan::Op& op, std::vector<Rank>& ranks) {
    for (size_t r = 0; r < ranks.size(); ++r)
      ranks[r].calls = transfer_calls(
          op, static_cast<int>(r), static_cast<int>(ranks.size()),
          {static_cast<int64_t>(ranks[r].in.size()), static_cast<int64_t>(ranks[r].out.size())});
  }
  std::mt19937_64 random_;
  std::optional<testing::ScopedTrace> trace_;
};

TEST_F(Transfers, AllReduceAndBroadcastWorkInTheOutput) {
  for_groups([&](int size, bool) {
    const int64_t n = any(50);
    for (const plan::OpKind kind : {plan::OpKind::all_reduce, plan::OpKind::broadcast}) {
      std::vector<Rank> ranks(size);
      Values expected(n, 0);
      for (int r = 0; r < size; ++r) {
        ranks[r].out = values(n);
        for (int64_t i = 0; i < n; ++i)
          if (kind == plan::OpKind::all_reduce || r == 0) expected[i] += ranks[r].out[i];
      }
      prepare({kind, plan::Lane::dp, plan::TransferAttrs{.group = 0}, {}, {}, "x"}, ranks);
      run(ranks);
      for (const Rank& r : ranks) EXPECT_EQ(r.out, expected) << plan::name_of(kind);
    }
  });
}

TEST_F(Transfers, AllGatherPutsPartsInGroupOrder) {
  for_groups([&](int size, bool even) {
    const Values p = parts(size, even);
    plan::Op op{plan::OpKind::all_gather, plan::Lane::tp, plan::TransferAttrs{.group = 0}, {}, {}, "x"};
    if (!even) op.as<plan::TransferAttrs>().receive = p;
    std::vector<Rank> ranks(size);
    Values expected;
    for (int r = 0; r < size; ++r) {
      ranks[r].in = values(p[r]);
      ranks[r].out = poison(sum(p));
      expected.insert(expected.end(), ranks[r].in.begin(), ranks[r].in.end());
    }
    prepare(op, ranks);
    run(ranks);
    for (const Rank& r : ranks) EXPECT_EQ(r.out, expected);
  });
}

TEST_F(Transfers, ReduceScatterLeavesEachRankTheSumOfItsPart) {
  for_groups([&](int size, bool even) {
    const Values p = parts(size, even);
    plan::Op op{plan::OpKind::reduce_scatter, plan::Lane::tp, plan::TransferAttrs{.group = 0}, {}, {}, "x"};
    if (!even) op.as<plan::TransferAttrs>().send = p;
    std::vector<Rank> ranks(size);
    Values total(sum(p), 0);
    for (int r = 0; r < size; ++r) {
      ranks[r].in = values(sum(p));
      ranks[r].out = poison(p[r]);
      for (size_t i = 0; i < total.size(); ++i) total[i] += ranks[r].in[i];
    }
    prepare(op, ranks);
    run(ranks);
    int64_t begin = 0;
    for (int r = 0; r < size; begin += p[r++])
      EXPECT_EQ(ranks[r].out, Values(total.begin() + begin, total.begin() + begin + p[r]));
  });
}

TEST_F(Transfers, AllToAllGivesEachRankItsPartOfEverybody) {
  for_groups([&](int size, bool even) {
    std::vector<Values> sent;  // [from][to]
    const Values same = parts(size, true);
    for (int r = 0; r < size; ++r) sent.push_back(even ? same : parts(size, false));
    std::vector<Rank> ranks(size);
    std::vector<plan::Op> ops;
    for (int r = 0; r < size; ++r) {
      plan::Op op{plan::OpKind::all_to_all, plan::Lane::cp, plan::TransferAttrs{.group = 0}, {}, {}, "x"};
      if (!even) {
        op.as<plan::TransferAttrs>().send = sent[r];
        for (int from = 0; from < size; ++from) op.as<plan::TransferAttrs>().receive.push_back(sent[from][r]);
      }
      ops.push_back(op);
      ranks[r].in = values(sum(sent[r]));
      int64_t n = 0;
      for (int from = 0; from < size; ++from) n += sent[from][r];
      ranks[r].out = poison(n);
    }
    for (int r = 0; r < size; ++r)
      ranks[r].calls = transfer_calls(
          ops[r], r, size,
          {static_cast<int64_t>(ranks[r].in.size()), static_cast<int64_t>(ranks[r].out.size())});
    run(ranks);
    for (int to = 0; to < size; ++to) {
      Values expected;
      for (int from = 0; from < size; ++from) {
        const int64_t begin = sum(Values(sent[from].begin(), sent[from].begin() + to));
        expected.insert(expected.end(), ranks[from].in.begin() + begin,
                        ranks[from].in.begin() + begin + sent[from][to]);
      }
      EXPECT_EQ(ranks[to].out, expected);
    }
  });
}

// All ranks' copies for an expert arrive as neighbours, in the order of ranks, and return to where they were.
TEST_F(Transfers, CopiesGoToTheRanksOfTheirExpertsAndBack) {
  for_groups([&](int size, bool back) {
    const int64_t held = 1 + any(3), experts = held * size, width = 1 + any(3);
    std::vector<int32_t> offsets;
    std::vector<Values> counts, sorted(size), arrived(size);  // [rank][expert]; [rank]
    for (int r = 0; r < size; ++r) {
      counts.push_back(Values(experts));
      offsets.push_back(0);
      for (int64_t& n : counts[r]) {
        n = any(2) == 0 ? 0 : any(7);
        offsets.push_back(offsets.back() + static_cast<int32_t>(n));
      }
      sorted[r] = values(offsets.back() * width);
    }
    for (int64_t e = 0; e < experts; ++e)
      for (int r = 0; r < size; ++r) {
        const auto from = sorted[r].begin() + offsets[r * (experts + 1) + e] * width;
        Values& to = arrived[e / held];
        to.insert(to.end(), from, from + counts[r][e] * width);
      }
    plan::Op op{plan::OpKind::all_to_all, plan::Lane::ep, plan::TransferAttrs{.group = 0}, {}, {}, "x"};
    op.as<plan::TransferAttrs>().width = width, op.as<plan::TransferAttrs>().back = back;
    op.reads = {plan::View{}, plan::View{0, 0, static_cast<int64_t>(offsets.size())}};
    std::vector<Rank> ranks(size);
    for (int r = 0; r < size; ++r) {
      ranks[r].in = back ? arrived[r] : sorted[r];
      ranks[r].out = poison(static_cast<int64_t>((back ? sorted[r] : arrived[r]).size()));
      ranks[r].calls = transfer_calls(op, r, size, {0, 0, offsets.data()});
    }
    run(ranks);
    for (int r = 0; r < size; ++r) EXPECT_EQ(ranks[r].out, back ? sorted[r] : arrived[r]);
    offsets[0] = 1;
    EXPECT_THROW(transfer_calls(op, 0, size, {0, 0, offsets.data()}), std::runtime_error);
  });
}

TEST_F(Transfers, ExchangeGoesOnceRoundTheRing) {
  for_groups([&](int size, bool) {
    const int64_t n = any(50);
    std::vector<Rank> ranks(size);
    for (Rank& r : ranks) r = {values(n), poison(n), {}};
    prepare({plan::OpKind::exchange, plan::Lane::cp, plan::TransferAttrs{.group = 0}, {}, {}, "x"}, ranks);
    run(ranks);
    for (int r = 0; r < size; ++r) EXPECT_EQ(ranks[r].out, ranks[(r + size - 1) % size].in);
  });
}

TEST_F(Transfers, SendsMeetTheirReceives) {
  for (int round = 0; round < 8; ++round) {
    const int64_t n = any(50);
    std::vector<Rank> ranks(2);
    ranks[0].in = values(n);
    ranks[1].out = poison(n);
    ranks[0].calls = transfer_calls(
        {plan::OpKind::send, plan::Lane::send_forward, plan::TransferAttrs{.group = 0}, {}, {}, "x"}, 0, 2,
        {n, 0});
    ranks[1].calls = transfer_calls(
        {plan::OpKind::recv, plan::Lane::recv_forward, plan::TransferAttrs{.group = 0}, {}, {}, "x"}, 1, 2,
        {0, n});
    run(ranks);
    EXPECT_EQ(ranks[1].out, ranks[0].in);
  }
}

TEST_F(Transfers, RefusesPartsThatDoNotAddUpAndWhatIsNoTransfer) {
  plan::Op op{plan::OpKind::all_gather, plan::Lane::tp, plan::TransferAttrs{.group = 0}, {}, {}, "x"};
  op.as<plan::TransferAttrs>().receive = {3, 4};
  EXPECT_THROW(transfer_calls(op, 0, 2, {3, 8}), std::logic_error);
  EXPECT_THROW(transfer_calls({plan::OpKind::activation, plan::Lane::compute, {}, {}, {}, "x"}, 0, 2, {3, 8}),
               std::logic_error);
}

}  // namespace
}  // namespace isobar::comm
