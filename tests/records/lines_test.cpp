// Lines of files that may be anything: none takes more memory than the longest that is read.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "model/base/system/files.h"
#include "model/records/files/result_file.h"

namespace isobar::records {
namespace {

class Lines : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "isobar-lines-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    file_ = dir_ / "result.jsonl";
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::filesystem::path dir_, file_;
};

/// Peak memory of this process, in bytes.
int64_t peak_bytes() {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word;)
    if (int64_t kib = 0; word == "VmHWM:" && in >> kib) return kib << 10;
  return 0;
}

TEST_F(Lines, ComeWholeWhereverTheWindowsEnd) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::vector<std::string> wanted;
  std::string text;
  for (int i = 0; i < 40; ++i) {
    const int64_t length = std::uniform_int_distribution<int64_t>(0, i % 8 == 0 ? 3'000'000 : 200)(random);
    wanted.emplace_back(static_cast<size_t>(length), static_cast<char>('a' + i % 26));
    text += wanted.back() + "\n";
  }
  for (const std::string tail : {"", "torn"}) {
    std::ofstream(file_, std::ios::binary | std::ios::trunc) << text << tail;
    std::vector<std::string> have, torn;
    const int64_t behind = for_each_line(InputFile(file_), 0, [&](std::string_view line, LineEnd end) {
      EXPECT_NE(end, LineEnd::too_long);
      (end == LineEnd::torn ? torn : have).emplace_back(line);
    });
    EXPECT_EQ(have, wanted);
    EXPECT_EQ(torn, tail.empty() ? std::vector<std::string>{} : std::vector{tail});
    EXPECT_EQ(behind, static_cast<int64_t>(text.size()));
    const auto from = static_cast<int64_t>(wanted[0].size()) + 1;
    size_t n = 0;
    for_each_line(InputFile(file_), from, [&](std::string_view line, LineEnd end) {
      if (end == LineEnd::whole) EXPECT_EQ(line, wanted[++n]);
    });
    EXPECT_EQ(n, wanted.size() - 1);
  }
}

// A gigabyte without an end of line took four of memory, and json of one line 25 times its length.
TEST_F(Lines, OneOfAGigabyteIsLeftOut) {
  const std::string event = R"({"event": "checkpoint", "step": 3, "path": "c", "bytes": 1, "seconds": 1})";
  std::ofstream(file_) << event << "\n";
  const auto first = static_cast<int64_t>(event.size()) + 1, end = first + (int64_t{1000} << 20);
  std::filesystem::resize_file(file_, static_cast<uintmax_t>(end));  // a hole: it takes no room on the disk
  std::ofstream(file_, std::ios::app) << "\n" << event << "\n";
  const int64_t before = peak_bytes();
  ASSERT_GT(before, 0);
  int64_t events = 0;
  std::vector<std::string> problems;
  for_each_record(file_, &problems, [&](const Record&) { ++events; });
  EXPECT_EQ(events, 2);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find(":2: is longer than any event, ignored"), std::string::npos) << problems[0];
  events = 0;
  EXPECT_EQ(for_each_new(file_, first, [&](const Record&) { ++events; }), end + 1 + first);
  EXPECT_EQ(events, 1);
  EXPECT_LT(peak_bytes() - before, int64_t{200} << 20);
}

}  // namespace
}  // namespace isobar::records
