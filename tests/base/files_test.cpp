// Files that a kill may hit at any moment.
#include "model/base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <thread>

#include "model/base/error.h"
#include "model/base/hash.h"

namespace isobar {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  Files() : dir_(fs::temp_directory_path() / ("isobar-files-" + std::to_string(::getpid()))) {
    fs::create_directories(dir_);
  }
  ~Files() override { fs::remove_all(dir_); }
  fs::path dir_;
};

TEST_F(Files, AppendedLinesFollowEachOther) {
  const fs::path p = dir_ / "deeper" / "lines";
  append_line(p, "one");
  append_line(p, "");
  append_line(p, "three");
  EXPECT_EQ(read_file(p), "one\n\nthree\n");
}

TEST_F(Files, ALineTornByAKillIsTheOnlyOneLost) {
  const fs::path p = dir_ / "lines";
  append_line(p, "{\"a\":1}");
  std::ofstream(p, std::ios::app) << "{\"a\":2,\"tor";
  append_line(p, "{\"a\":3}");
  append_line(p, "{\"a\":4}");
  EXPECT_EQ(read_file(p), "{\"a\":1}\n{\"a\":2,\"tor\n{\"a\":3}\n{\"a\":4}\n");
}

TEST_F(Files, LinesOfManyWritersStayWhole) {
  const fs::path p = dir_ / "lines";
  append_line(p, "0");
  std::vector<std::thread> writers;
  for (char c : {'a', 'b', 'c', 'd'})
    writers.emplace_back([&, c] {
      for (int i = 0; i < 25; ++i) append_line(p, std::string(3000, c));
    });
  for (std::thread& t : writers) t.join();
  std::ifstream in(p);
  std::string line;
  std::getline(in, line);
  int n = 0;
  for (; std::getline(in, line); ++n) {
    ASSERT_EQ(line.size(), 3000u);
    ASSERT_EQ(line.find_first_not_of(line[0]), std::string::npos);
  }
  EXPECT_EQ(n, 100);
}

TEST_F(Files, WriteAtomicallyReplacesAndLeavesNothingBeside) {
  const fs::path p = dir_ / "new" / "file";
  write_atomically(p, "old");
  write_atomically(p, std::string("a\0b", 3));
  EXPECT_EQ(read_file(p), std::string("a\0b", 3));
  EXPECT_EQ(std::distance(fs::directory_iterator(p.parent_path()), fs::directory_iterator()), 1);
}

TEST_F(Files, WhatIsNoFileIsWrittenToAndNotReplaced) {
  // A link leads on to its file; a fifo gets the bytes; a full disk is an error. All are still there
  // afterwards.
  write_atomically(dir_ / "target", "old");
  fs::create_symlink(dir_ / "target", dir_ / "link");
  write_atomically(dir_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(dir_ / "link"));
  EXPECT_EQ(read_file(dir_ / "target"), "new");

  ASSERT_EQ(::mkfifo((dir_ / "fifo").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { std::getline(std::ifstream(dir_ / "fifo"), got); });
  write_atomically(dir_ / "fifo", "through\n");
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(fs::is_fifo(dir_ / "fifo"));

  fs::create_symlink("/dev/full", dir_ / "full");
  try {
    write_atomically(dir_ / "full", "anything");
    ADD_FAILURE() << "a full disk took it";
  } catch (const std::system_error& e) {
    EXPECT_EQ(e.code().value(), ENOSPC) << e.what();
  }
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(Files, AReaderNeverSeesHalfAFileThoughTheWriterIsKilled) {
  const fs::path p = dir_ / "file";
  const std::string first(1 << 20, 'a'), second(1 << 20, 'b');
  write_atomically(p, first);
  for (int round = 0; round < 5; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (;;) {
        write_atomically(p, first);
        write_atomically(p, second);
      }
    }
    for (int i = 0; i < 10; ++i) {
      const std::string seen = read_file(p);
      EXPECT_TRUE(seen == first || seen == second) << seen.size();
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::string left = read_file(p);
    EXPECT_TRUE(left == first || left == second) << left.size();
  }
}

TEST_F(Files, WhatCannotBeReadOrWrittenSaysSo) {
  EXPECT_THROW(read_file(dir_ / "absent"), ConfigError);
  EXPECT_THROW(read_file(dir_), ConfigError);
  EXPECT_THROW(write_atomically(dir_ / "file" / "below", (write_atomically(dir_ / "file", "x"), "y")),
               std::exception);
}

TEST(Hash, IsSha256) {  // FIPS 180-2, appendix B
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace isobar
