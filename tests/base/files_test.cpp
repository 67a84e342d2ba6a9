// Files that a kill may hit at any moment.
#include "model/base/system/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <thread>

#include "model/base/error.h"
#include "model/base/system/temporary.h"
#include "model/base/text/hash.h"

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

mode_t mode_of(const fs::path& p) {
  struct stat s {};
  EXPECT_EQ(::stat(p.c_str(), &s), 0) << p;
  return s.st_mode & 07777;
}

TEST_F(Files, WriteAtomicallyKeepsTheModeAndNewFilesFollowTheUmask) {
  const fs::path p = dir_ / "file";
  for (const mode_t umask : {022, 077, 002}) {
    fs::remove(p);
    const mode_t before = ::umask(umask);
    write_atomically(p, "new");
    EXPECT_EQ(mode_of(p), 0666 & ~umask);
    for (const mode_t mode : {0600, 0640, 0755, 0400}) {
      ASSERT_EQ(::chmod(p.c_str(), mode), 0);
      write_atomically(p, "newer");
      EXPECT_EQ(mode_of(p), mode);
    }
    ::umask(before);
  }
}

TEST_F(Files, WriteAtomicallyKeepsTheOwnerWhereItMay) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  const fs::path p = dir_ / "file";
  write_atomically(p, "old");
  ASSERT_EQ(::chown(p.c_str(), 12345, 23456), 0);
  ASSERT_EQ(::chmod(p.c_str(), 0600), 0);
  write_atomically(p, "new");
  struct stat s {};
  ASSERT_EQ(::stat(p.c_str(), &s), 0);
  EXPECT_EQ(s.st_uid, 12345u);
  EXPECT_EQ(s.st_gid, 23456u);
  EXPECT_EQ(s.st_mode & 07777, 0600u);
}

// The process dies in the middle of writing, as it would be seen by others at that moment.
TEST_F(Files, HalfAFileIsNoMoreReadableThanTheOldOne) {
  const fs::path p = dir_ / "file";
  write_atomically(p, "old");
  ASSERT_EQ(::chmod(p.c_str(), 0600), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::umask(0);
    ::signal(SIGXFSZ, SIG_DFL);
    const rlimit file{4096, 4096}, core{0, 0};
    ::setrlimit(RLIMIT_CORE, &core);
    ::setrlimit(RLIMIT_FSIZE, &file);
    write_atomically(p, std::string(1 << 16, 'x'));
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ) << status;
  int left = 0;
  for (const auto& entry : fs::directory_iterator(dir_)) {
    EXPECT_EQ(mode_of(entry.path()), 0600u) << entry.path();
    left += entry.path() != p;
  }
  EXPECT_EQ(left, 1) << "it was not stopped in the middle";
  EXPECT_EQ(read_file(p), "old");
}

// In a folder that others may write, a link may lie under any name that they can foresee.
TEST_F(Files, ALinkUnderAForeseeableNameIsNotWrittenThrough) {
  const fs::path p = dir_ / "file", mine = dir_ / "mine";
  write_atomically(mine, "mine");
  const pid_t child = ::fork();  // so that its process number is known beforehand
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (const std::string& name :
         {std::string(".tmp"), ".tmp." + std::to_string(::getpid()), std::string(".part")})
      fs::create_symlink(mine, p.string() + name);
    write_atomically(p, "new");
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_file(mine), "mine");
  EXPECT_EQ(read_file(p), "new");
  make_anew(p.string() + ".part");
  EXPECT_FALSE(fs::is_symlink(p.string() + ".part"));
  EXPECT_EQ(read_file(mine), "mine");
}

TEST_F(Files, WriteAtomicallyLeavesNothingWhereItFails) {
  const std::string longest(255, 'n');
  write_atomically(dir_ / longest, "a name as long as names may be");
  EXPECT_EQ(read_file(dir_ / longest), "a name as long as names may be");
  EXPECT_THROW(write_atomically(dir_ / (longest + "n"), "x"), std::exception);
  for (const auto& entry : fs::directory_iterator(dir_))
    EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos) << entry.path();
}

TEST_F(Files, ATemporaryFileIsOfItsUserAloneAndGoesAway) {
  ASSERT_EQ(::setenv("TMPDIR", dir_.c_str(), 1), 0);
  const mode_t before = ::umask(0);
  fs::path path;
  {
    const TemporaryFile file("isobar-", ".html", "secret");
    path = file.path();
    EXPECT_EQ(path.parent_path(), dir_);
    EXPECT_EQ(mode_of(path), 0600u);
    EXPECT_EQ(read_file(path), "secret");
    EXPECT_EQ(path.extension(), ".html");
  }
  EXPECT_FALSE(fs::exists(path));
  ::umask(before);
  ASSERT_EQ(::setenv("TMPDIR", (dir_ / "nowhere").c_str(), 1), 0);
  EXPECT_THROW(TemporaryFile("isobar-", ".html", "secret"), ConfigError);
  ::unsetenv("TMPDIR");
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
