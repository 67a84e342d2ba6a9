// Run by mpiexec on several ranks: every transfer against hand-made sums and copies. Each rank generates all
// ranks' inputs from a shared seed; outputs are poisoned. The same tests cover MPI and NCCL (transport.h).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "model/plan/link.h"
#include "tests/comm/ranks.h"
#include "tests/comm/transport.h"

namespace isobar::comm {
namespace {

uint32_t shared_seed() {
  uint32_t seed = std::random_device{}();
  MPI_Bcast(&seed, 1, MPI_UINT32_T, 0, MPI_COMM_WORLD);
  return seed;
}

std::vector<int> all_ranks() {
  std::vector<int> ranks(world);
  for (int r = 0; r < world; ++r) ranks[r] = r;
  return ranks;
}

void finish(TestComm& comm, TestRequests& requests) {
  while (!comm.test(requests)) std::this_thread::yield();
}

// Converts between a type's elements and floats.
std::vector<std::byte> encode(const std::vector<float>& x, DType t) {
  std::vector<std::byte> out(x.size() * size_of(t));
  for (size_t i = 0; i < x.size(); ++i) {
    const bf16 b = to_bf16(x[i]);
    const auto h = static_cast<_Float16>(x[i]);
    const auto n = static_cast<int32_t>(x[i]);
    const void* from = t == DType::bf16  ? static_cast<const void*>(&b)
                       : t == DType::f16 ? static_cast<const void*>(&h)
                       : t == DType::i32 ? static_cast<const void*>(&n)
                                         : &x[i];
    std::memcpy(out.data() + i * size_of(t), from, size_of(t));
  }
  return out;
}

float decode(const std::byte* at, DType t) {
  bf16 b;
  _Float16 h;
  int32_t n;
  float f;
  switch (t) {
    case DType::bf16:
      std::memcpy(&b, at, 2);
      return to_float(b);
    case DType::f16:
      std::memcpy(&h, at, 2);
      return static_cast<float>(h);
    case DType::i32:
      std::memcpy(&n, at, 4);
      return static_cast<float>(n);
    case DType::f32:
      std::memcpy(&f, at, 4);
      return f;
  }
  return NAN;
}

std::vector<float> decode(const std::vector<std::byte>& x, DType t) {
  std::vector<float> out(x.size() / size_of(t));
  for (size_t i = 0; i < out.size(); ++i) out[i] = decode(x.data() + i * size_of(t), t);
  return out;
}

class Transfers : public testing::TestWithParam<DType> {
 protected:
  // Rank r's data, rounded to the type.
  std::vector<float> data(uint32_t seed, int r, int64_t n) {
    std::mt19937 random(seed * 31 + r);
    std::vector<float> x(n);
    if (type == DType::i32)
      for (float& v : x) v = static_cast<float>(static_cast<int>(random() % 2001) - 1000);
    else
      for (float& v : x) v = std::normal_distribution<float>()(random);
    return decode(encode(x, type), type);
  }
  std::vector<std::byte> poison(int64_t n) { return encode(std::vector<float>(n, 12345), type); }
  std::vector<int64_t> random_parts(std::mt19937& random, int64_t most) {
    std::vector<int64_t> parts(world);
    for (int64_t& p : parts) p = static_cast<int64_t>(random() % most);
    parts[random() % world] = 0;  // a rank may have nothing
    parts[random() % world] = most;
    return parts;
  }
  /// `got` are sums over ranks of `inputs` from element `from` on, within one rounding per hop.
  void expect_sums(const std::vector<float>& got, const std::vector<std::vector<float>>& inputs,
                   int64_t from) {
    const float step = type == DType::bf16  ? 1.0f / 128
                       : type == DType::f16 ? 1.0f / 1024
                       : type == DType::i32 ? 0.0f
                                            : 1.0f / (1 << 22);
    for (size_t i = 0; i < got.size(); ++i) {
      double sum = 0, magnitude = 0;
      for (const auto& x : inputs) {
        sum += x[from + i];
        magnitude += std::abs(x[from + i]);
      }
      ASSERT_NEAR(got[i], sum, magnitude * step * (world - 1)) << "element " << i;
    }
  }
  const DType type = GetParam();
};

TEST_P(Transfers, AllReduceSumsOverTheRanks) {
  TestComm comm({{"dp", all_ranks()}});
  const plan::Op op{plan::OpKind::all_reduce, plan::Lane::dp, plan::TransferAttrs{.group = 0}, {}, {}, "x"};
  for (const int64_t n : {1, 7, 1000, 300001}) {
    const uint32_t seed = shared_seed();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::vector<std::vector<float>> inputs;
    for (int r = 0; r < world; ++r) inputs.push_back(data(seed, r, n));
    auto x = encode(inputs[rank], type);
    TestRequests requests = comm.post(op, x.data(), {n, n}, x.data(), type);
    finish(comm, requests);
    expect_sums(decode(x, type), inputs, 0);
  }
}

TEST_P(Transfers, AllReduceGivesTheMaximumOverTheRanks) {
  if (type != DType::f32) GTEST_SKIP() << "maxima are of f32";
  TestComm comm({{"tp", all_ranks()}});
  plan::TransferAttrs attrs{.group = 0};
  attrs.largest = true;
  const plan::Op op{plan::OpKind::all_reduce, plan::Lane::tp, attrs, {}, {}, "x"};
  const uint32_t seed = shared_seed();
  std::vector<std::vector<float>> inputs;
  for (int r = 0; r < world; ++r) inputs.push_back(data(seed, r, 1000));
  for (int r = 0; r < world; ++r) inputs[r][r] = -INFINITY;  // a rank without words of a vocabulary
  std::vector<float> x = inputs[rank];
  TestRequests requests = comm.post(op, x.data(), {1000, 1000}, x.data(), type);
  finish(comm, requests);
  for (size_t i = 0; i < x.size(); ++i) {
    float most = -INFINITY;
    for (const auto& of_rank : inputs) most = std::max(most, of_rank[i]);
    ASSERT_EQ(x[i], most) << "element " << i << ", seed " << seed;
  }
}

TEST_P(Transfers, BroadcastGivesTheFirstRanksBits) {
  std::vector<int> ranks = all_ranks();
  std::reverse(ranks.begin(), ranks.end());
  TestComm comm({{"dp", ranks}});
  const plan::Op op{plan::OpKind::broadcast, plan::Lane::dp, plan::TransferAttrs{.group = 0}, {}, {}, "x"};
  const uint32_t seed = shared_seed();
  for (const int64_t n : {1, 50021}) {
    const auto sent = encode(data(seed, world - 1, n), type);
    auto x = rank == world - 1 ? sent : poison(n);
    TestRequests requests = comm.post(op, x.data(), {n, n}, x.data(), type);
    finish(comm, requests);
    EXPECT_EQ(x, sent);
  }
}

TEST_P(Transfers, AllGatherPutsPartsInGroupOrder) {
  std::vector<int> ranks = all_ranks();
  std::rotate(ranks.begin(), ranks.begin() + 1, ranks.end());  // group order differs from the world's
  const int me = (rank + world - 1) % world;
  TestComm comm({{"tp", ranks}});
  for (int round = 0; round < 12; ++round) {
    const uint32_t seed = shared_seed();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    plan::Op op{plan::OpKind::all_gather, plan::Lane::tp, plan::TransferAttrs{.group = 0}, {}, {}, "x"};
    const bool even = round % 3 == 0, in_place = round % 2 == 0;
    auto parts = even ? std::vector<int64_t>(world, 1 + random() % 999)
                      : random_parts(random, round < 6 ? 50 : 100000);
    if (!even) op.as<plan::TransferAttrs>().receive = parts;
    std::vector<std::byte> expected;
    int64_t begin = 0, n = 0;
    for (int p = 0; p < world; ++p) {
      if (p < me) begin += parts[p];
      n += parts[p];
      const auto part = encode(data(seed, ranks[p], parts[p]), type);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    auto out = poison(n);
    const auto own = encode(data(seed, rank, parts[me]), type);
    std::byte* place = out.data() + begin * size_of(type);
    if (in_place) std::copy(own.begin(), own.end(), place);
    TestRequests requests = comm.post(op, in_place ? place : own.data(), {parts[me], n}, out.data(), type);
    finish(comm, requests);
    ASSERT_EQ(out, expected) << "round " << round;
  }
}

TEST_P(Transfers, ReduceScatterLeavesEachRankTheSumOfItsPart) {
  TestComm comm({{"tp", all_ranks()}});
  for (int round = 0; round < 12; ++round) {
    const uint32_t seed = shared_seed();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    plan::Op op{plan::OpKind::reduce_scatter, plan::Lane::tp, plan::TransferAttrs{.group = 0}, {}, {}, "x"};
    const bool even = round % 3 == 0, in_place = round % 2 == 0;
    auto parts = even ? std::vector<int64_t>(world, 1 + random() % 999)
                      : random_parts(random, round < 6 ? 50 : 100000);
    if (!even) op.as<plan::TransferAttrs>().send = parts;
    int64_t begin = 0, n = 0;
    for (int p = 0; p < world; ++p) {
      if (p < rank) begin += parts[p];
      n += parts[p];
    }
    std::vector<std::vector<float>> inputs;
    for (int r = 0; r < world; ++r) inputs.push_back(data(seed, r, n));
    auto whole = encode(inputs[rank], type);
    const auto before = whole;
    auto apart = poison(parts[rank]);
    std::byte* place = in_place ? whole.data() + begin * size_of(type) : apart.data();
    TestRequests requests = comm.post(op, whole.data(), {n, parts[rank]}, place, type);
    finish(comm, requests);
    std::vector<std::byte> got(place, place + parts[rank] * size_of(type));
    expect_sums(decode(got, type), inputs, begin);
    std::copy_n(before.begin() + begin * size_of(type), got.size(), whole.begin() + begin * size_of(type));
    ASSERT_EQ(whole, before) << "others' parts of the input changed in round " << round;
  }
}

TEST_P(Transfers, SendsMeetTheReceivesOfTheirGroup) {
  // a ring, every rank sends and receives; one group per link, all of one name
  std::vector<plan::Group> groups;
  const int to = (rank + 1) % world, from = (rank + world - 1) % world;
  groups.push_back({"forward", {rank, to}});
  groups.push_back({"forward", {from, rank}});
  TestComm comm(groups);
  for (const int64_t n : {1, 100, 200003}) {
    const uint32_t seed = shared_seed();
    const auto sent = encode(data(seed, rank, n), type), expected = encode(data(seed, from, n), type);
    auto got = poison(n);
    const plan::Op send{
        plan::OpKind::send, plan::Lane::send_forward, plan::TransferAttrs{.group = 0}, {}, {}, "send"};
    const plan::Op recv{
        plan::OpKind::recv, plan::Lane::recv_forward, plan::TransferAttrs{.group = 1}, {}, {}, "recv"};
    TestRequests sending = comm.post(send, sent.data(), {n, 0}, nullptr, type);
    TestRequests receiving = comm.post(recv, nullptr, {0, n}, got.data(), type);
    finish(comm, receiving);
    finish(comm, sending);
    EXPECT_EQ(got, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Transfers, testing::Values(DType::f32, DType::bf16, DType::f16, DType::i32),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Comm, GroupsOfTheSameRanksDoNotMix) {
  // two lanes at once, posted in opposite orders on even and odd ranks, many in flight
  TestComm comm({{"dp", all_ranks()}, {"tp", all_ranks()}});
  const int64_t n = 5000;
  for (int round = 0; round < 20; ++round) {
    std::vector<float> dp(n, static_cast<float>(rank + 1)), tp(n, static_cast<float>(100 * (rank + 1)));
    TestRequests requests[2];
    for (const int turn : {0, 1}) {
      const int group = (turn + rank) % 2;
      std::vector<float>& x = group == 0 ? dp : tp;
      const plan::Op op{plan::OpKind::all_reduce,
                        group == 0 ? plan::Lane::dp : plan::Lane::tp,
                        plan::TransferAttrs{.group = group},
                        {},
                        {},
                        "x"};
      requests[group] = comm.post(op, x.data(), {n, n}, x.data(), DType::f32);
    }
    for (TestRequests& r : requests) finish(comm, r);
    const auto sum = static_cast<float>(world * (world + 1) / 2);
    ASSERT_EQ(dp, std::vector<float>(n, sum));
    ASSERT_EQ(tp, std::vector<float>(n, 100 * sum));
  }
}

TEST(Comm, GroupsComeInAnyOrderAndNumber) {
  // Every pair of ranks has a group, in another order on each rank; rank 0 has one more.
  std::vector<plan::Group> groups;
  std::mt19937 random(rank);
  for (int r = 0; r < world; ++r)
    if (r != rank) groups.push_back({"pair", {std::min(r, rank), std::max(r, rank)}});
  groups.push_back({"all", all_ranks()});
  if (rank == 0) groups.push_back({"alone", {0}});
  std::shuffle(groups.begin(), groups.end(), random);
  TestComm comm(groups);
  std::vector<float> x(groups.size(), static_cast<float>(1 << rank));
  std::vector<TestRequests> requests;
  for (size_t g = 0; g < groups.size(); ++g) {
    const plan::Op op{plan::OpKind::all_reduce,
                      plan::Lane::dp,
                      plan::TransferAttrs{.group = static_cast<int32_t>(g)},
                      {},
                      {},
                      "x"};
    requests.push_back(comm.post(op, &x[g], {1, 1}, &x[g], DType::f32));
  }
  for (TestRequests& r : requests) finish(comm, r);
  for (size_t g = 0; g < groups.size(); ++g) {
    int expected = 0;
    for (const int r : groups[g].ranks) expected |= 1 << r;
    EXPECT_EQ(x[g], static_cast<float>(expected)) << groups[g].name;
  }
}

#ifndef ISOBAR_TEST_NCCL  // which takes the groups' ranks
TEST(Comm, RanksCountInTheWorldThatItIsGiven) {
  MPI_Comm reversed;
  MPI_Comm_split(MPI_COMM_WORLD, 0, world - rank, &reversed);
  {
    TestComm comm({{"dp", all_ranks()}}, reversed);
    float x = rank == world - 1 ? 7.0f : 0.0f;  // first in the reversed world
    TestRequests requests =
        comm.post({plan::OpKind::broadcast, plan::Lane::dp, plan::TransferAttrs{.group = 0}, {}, {}, "x"}, &x,
                  {1, 1}, &x, DType::f32);
    finish(comm, requests);
    EXPECT_EQ(x, 7.0f);
  }
  MPI_Comm_free(&reversed);
}
#endif

TEST(Comm, RefusesPartsThatDoNotAddUp) {
  TestComm comm({{"dp", all_ranks()}});
  plan::Op op{plan::OpKind::all_gather, plan::Lane::dp, plan::TransferAttrs{.group = 0}, {}, {}, "x"};
  std::vector<float> x(2 * world + 1);
  EXPECT_THROW(comm.post(op, x.data(), {2, 2 * world + 1}, x.data(), DType::f32), std::logic_error);
  op.as<plan::TransferAttrs>().receive.assign(world, 2);
  EXPECT_THROW(comm.post(op, x.data(), {2, 2 * world + 1}, x.data(), DType::f32), std::logic_error);
}

}  // namespace
}  // namespace isobar::comm
