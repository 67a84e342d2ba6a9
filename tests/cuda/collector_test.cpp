// CUPTI's buffers, filled in its binary format and read by its own library, which needs no GPU. Other tests
// are skipped without one.
#include "model/trace/cuda/collector.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "model/backend/cuda/runtime/device.h"
#include "model/backend/cuda/runtime/library.h"
#include "tests/trace/fixture.h"

namespace isobar::cuda {
namespace {

class Records {  // consecutive records, as CUPTI packs them
 public:
  template <class Record>
  void add(const Record& r) {
    static_assert(sizeof(Record) % 8 == 0);
    const size_t at = words_.size();
    words_.resize(at + sizeof(Record) / 8);
    std::memcpy(&words_[at], &r, sizeof r);
  }
  uint8_t* data() { return reinterpret_cast<uint8_t*>(words_.data()); }
  size_t bytes() const { return words_.size() * 8; }

 private:
  std::vector<uint64_t> words_;
};

template <class Record>
Record activity(CUpti_ActivityKind kind, uint32_t call, uint64_t node, uint64_t begin, uint64_t end) {
  Record r{};
  r.kind = kind;
  r.correlationId = call;
  r.graphNodeId = node;
  r.start = begin;
  r.end = end;
  return r;
}
CUpti_ActivityKernel10 kernel(uint32_t call, uint64_t node, uint64_t begin, uint64_t end, const char* name) {
  auto r = activity<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, call, node, begin, end);
  r.name = name;
  return r;
}
CUpti_ActivityExternalCorrelation link(uint32_t call, uint64_t external, CUpti_ExternalCorrelationKind kind) {
  CUpti_ActivityExternalCorrelation r{};
  r.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  r.externalKind = kind;
  r.correlationId = call;
  r.externalId = external;
  return r;
}
CUpti_ActivityAPI call_record(CUpti_ActivityKind kind, uint32_t call) {
  CUpti_ActivityAPI r{};
  r.kind = kind;
  r.correlationId = call;
  return r;
}

bool has_cupti() {
  try {
    const Library cupti("libcupti.so.13");
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

TEST(CuptiBuffers, AreReadRecordByRecordAndJoined) {
  if (!has_cupti()) GTEST_SKIP() << "there is no libcupti.so.13 here";
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const trace::SmallPlan s = trace::small_plan();
  Records buffer;
  const uint64_t t = 1'800'000'000'000'000'000u + random() % 1'000'000'000;  // as CUPTI's clock reads
  const auto call = static_cast<uint32_t>(random());
  // op 0: a kernel; op 1: a copy, under a call that another library also announced
  buffer.add(link(call, trace::external_id({4, 0}), CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0));
  buffer.add(call_record(CUPTI_ACTIVITY_KIND_RUNTIME, call));
  buffer.add(kernel(call, 0, t + 100, t + 250, "_ZN6isobar4cuda6kernelEi"));
  buffer.add(link(call + 1, 12345, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1));
  buffer.add(link(call + 1, trace::external_id({4, 1}), CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0));
  buffer.add(activity<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY, call + 1, 0, t + 300, t + 340));
  // ops 2 and 3: a graph's launch from instr 2 on
  buffer.add(link(call + 2, trace::external_id({4, 2}), CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0));
  buffer.add(call_record(CUPTI_ACTIVITY_KIND_DRIVER, call + 2));
  buffer.add(kernel(call + 2, 901, t + 400, t + 460, "a"));
  buffer.add(activity<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, call + 2, 902, t + 470, t + 480));
  buffer.add(kernel(call + 2, 903, t + 490, t + 500, "a"));
  // unattributed
  buffer.add(kernel(call + 3, 0, t + 600, t + 630, "_ZN6isobar4cuda7foreignEPfi"));
  trace::DeviceRecords records;
  records.node_instr = {{901, 0}, {902, 1}, {903, 1}};
  read_buffer(buffer.data(), buffer.bytes(), records);
  EXPECT_EQ(records.activities.size(), 6u);
  EXPECT_EQ(records.links.size(), 3u);

  const auto begin = static_cast<int64_t>(t);
  const trace::DeviceJoin j = trace::join(records, s.program, 0, begin);
  ASSERT_EQ(j.spans.size(), 4u);
  const int64_t expected[4][2] = {{100, 250}, {300, 340}, {400, 460}, {470, 500}};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(j.spans[i].instr, i);
    EXPECT_EQ(j.spans[i].step, 4);
    EXPECT_EQ(j.spans[i].begin_ns, expected[i][0]);
    EXPECT_EQ(j.spans[i].end_ns, expected[i][1]);
  }
  ASSERT_EQ(j.share.other.size(), 1u);
  EXPECT_EQ(j.share.other[0], (std::pair<std::string, int64_t>("isobar::cuda::foreign", 30)));
}

TEST(CuptiBuffers, AnEmptyOneIsNothing) {
  if (!has_cupti()) GTEST_SKIP() << "there is no libcupti.so.13 here";
  trace::DeviceRecords records;
  uint64_t nothing = 0;
  read_buffer(reinterpret_cast<uint8_t*>(&nothing), 0, records);
  EXPECT_TRUE(records.activities.empty());
}

TEST(Collector, SaysWhatFailsWhereThereIsNoDevice) {
  if (!has_cupti()) GTEST_SKIP() << "there is no libcupti.so.13 here";
  if (!find_devices().all.empty()) GTEST_SKIP() << "there is a GPU here";
  try {
    const Collector collector;
    FAIL() << "it listens to nothing";
  } catch (const Failure& e) {
    EXPECT_NE(std::string(e.what()).find("cuptiSubscribe"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace isobar::cuda
