// Scalars of event files, as our writer and protocol buffers make them; torn, damaged and random files.
#include "model/records/files/event_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>

#include "model/records/files/event_file.h"

namespace isobar::records {
namespace {

namespace fs = std::filesystem;

class EventReading : public ::testing::Test {
 protected:
  EventReading() : dir_(fs::temp_directory_path() / ("events." + std::to_string(::getpid()))) {
    fs::create_directories(dir_);
  }
  ~EventReading() override { fs::remove_all(dir_); }
  fs::path append(const std::string& bytes) {
    std::ofstream(dir_ / "f", std::ios::binary | std::ios::app) << bytes;
    return dir_ / "f";
  }
  fs::path dir_;
};

TEST_F(EventReading, ScalarsComeAsTheyAreWritten) {
  std::mt19937 rng(std::random_device{}());
  std::uniform_real_distribution<float> any(-1e3F, 1e3F);
  EventReader read(append(event_file_head(5)));
  EXPECT_TRUE(read.more().empty());
  for (int64_t i = 0; i < 20; ++i) {
    const float value = any(rng);
    const std::string record = event_record(100.5 + static_cast<double>(i), i << 20, "Loss/train", value);
    const size_t torn = std::uniform_int_distribution<size_t>(1, record.size() - 1)(rng);
    append(record.substr(0, torn));
    EXPECT_TRUE(read.more().empty()) << "a record that is not whole";
    append(record.substr(torn));
    const auto got = read.more();
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].tag, "Loss/train");
    EXPECT_EQ(got[0].step, i << 20);
    EXPECT_EQ(got[0].wall_time, 100.5 + static_cast<double>(i));
    EXPECT_EQ(static_cast<float>(got[0].value), value);
  }
  EXPECT_FALSE(read.fault());
}

TEST_F(EventReading, ADamagedRecordEndsItAndIsSaid) {
  std::string record = event_record(1, 2, "loss", 3);
  append(event_file_head(5) + event_record(1, 1, "loss", 4));
  record[record.size() / 2] ^= 4;
  EventReader read(append(record + event_record(1, 3, "loss", 5)));
  EXPECT_EQ(read.more().size(), 1u);
  ASSERT_TRUE(read.fault());
  EXPECT_NE(read.fault()->find("checksum"), std::string::npos);
  EXPECT_TRUE(read.more().empty());
}

// tf.summary.scalar() writes tensors: tag = 1, tensor = 8 {dtype = 1, tensor_content = 4 | float_val = 5}
TEST_F(EventReading, TensorsOfOneNumberAreScalars) {
  const auto field = [](int number, const std::string& bytes) {
    return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) + bytes;
  };
  const auto raw = [](auto v) {
    std::string s(sizeof v, '\0');
    std::memcpy(s.data(), &v, sizeof v);
    return s;
  };
  for (const auto& [tensor, want] : {std::pair{std::string("\x08\x01", 2) + field(4, raw(0.25F)), 0.25},
                                     std::pair{std::string("\x08\x01", 2) + field(5, raw(0.5F)), 0.5},
                                     std::pair{std::string("\x08\x02", 2) + field(4, raw(0.125)), 0.125}}) {
    const std::string value = field(1, "val_loss") + field(8, tensor);
    const auto got = scalars_in(std::string("\x10\x07", 2) + field(5, field(1, value)));
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].step, 7);
    EXPECT_EQ(got[0].value, want);
  }
}

TEST_F(EventReading, RandomBytesAreNoMessage) {
  std::mt19937 rng(std::random_device{}());
  for (int round = 0; round < 20000; ++round) {
    std::string bytes(rng() % 60, '\0');
    for (char& c : bytes) c = static_cast<char>(rng());
    scalars_in(bytes);
    if (round % 100 == 0) {
      fs::remove(dir_ / "f");
      EventReader read(append(event_file_head(1) + bytes));
      EXPECT_TRUE(read.more().empty());
    }
  }
}

}  // namespace
}  // namespace isobar::records
