#include "model/records/files/result_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "model/base/error.h"

namespace isobar::records {
namespace {

namespace fs = std::filesystem;

class ResultFile : public testing::Test {
 protected:
  ResultFile() : file_(fs::temp_directory_path() / ("isobar-records-" + std::to_string(::getpid()))) {}
  ~ResultFile() override { fs::remove(file_); }
  void write(const std::string& text) const { std::ofstream(file_) << text; }
  std::vector<std::string> events() const {
    std::vector<std::string> out;
    for_each_record(file_, nullptr, [&](const Record& r) { out.push_back(event_of(r)); });
    return out;
  }
  fs::path file_;
};

using Words = std::vector<std::string>;

TEST_F(ResultFile, ATornLastLineIsNothingAndABrokenOneIsAProblemOfItsLine) {
  write(line_of(StartRecord{.ranks = 1}) + "\nnot json\n" + line_of(StepRecord{.step = 1}) +
        "\n{\"event\":\"step\",\"step\":\"two\"}\n{\"event\":\"st");
  Words problems;
  int64_t last = -1;
  for_each_record(file_, &problems, [&](const Record& r) {
    if (const auto* step = std::get_if<StepRecord>(&r)) last = step->step;
  });
  EXPECT_EQ(last, 0);  // the line whose step is a string
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_NE(problems[0].find(file_.string() + ":2: is no event"), std::string::npos) << problems[0];
  EXPECT_NE(problems[1].find(file_.string() + ":4: 'step'"), std::string::npos) << problems[1];
  EXPECT_EQ(events(), (Words{"run_start", "step", "step"}));
}

TEST_F(ResultFile, TheEndIsReadBackwardsAsFarAsIsAsked) {
  std::string text = line_of(StartRecord{}) + "\n";
  for (int64_t i = 1; i <= 100; ++i) text += line_of(StepRecord{.step = i}) + "\n";
  write(text + "{\"event\":\"st");
  std::vector<int64_t> steps;
  for_each_from_end(file_, 1 << 20, [&](const Record& r) {
    steps.push_back(std::get<StepRecord>(r).step);
    return steps.size() < 3;
  });
  EXPECT_EQ(steps, (std::vector<int64_t>{100, 99, 98}));
  size_t whole = 0;  // complete lines among the last bytes
  for_each_from_end(file_, 200,
                    [&](const Record& r) { return whole += std::holds_alternative<StepRecord>(r); });
  EXPECT_GT(whole, 0u);
  EXPECT_LT(whole, 5u);
  size_t all = 0;
  for_each_from_end(file_, 1 << 20, [&](const Record&) { return ++all > 0; });
  EXPECT_EQ(all, 101u);
}

TEST_F(ResultFile, NoFileHasNoEndAndCannotBeRead) {
  for_each_from_end(file_, 100, [](const Record&) -> bool { throw std::logic_error("there is none"); });
  EXPECT_THROW(events(), ConfigError);
}

TEST_F(ResultFile, TextOfAnyEncodingIsOneLineOfUtf8) {
  const std::string line = line_of(EndRecord{.status = "failed", .message = "caf\xe9\nnext"});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  write(line + "\n");
  EXPECT_EQ(events(), Words{"run_end"});
}

}  // namespace
}  // namespace isobar::records
