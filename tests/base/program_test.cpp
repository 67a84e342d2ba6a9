// Which programs and files are taken of a command's own accord.
#include "model/base/system/program.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "model/base/system/files.h"
#include "tests/paths.h"

namespace isobar {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCopied = "ISOBAR_TEST_COPIED";

// A folder that is the working directory, with PATH and others put back afterwards.
class Programs : public testing::Test {
 protected:
  Programs() : before_(fs::current_path()) {
    std::string name = fs::temp_directory_path() / "isobar-programs-XXXXXX";
    if (!::mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
    dir_ = fs::canonical(name);
    fs::current_path(dir_);
    for (const char* name : kNames)
      if (const char* value = std::getenv(name)) environment_.emplace_back(name, value);
  }
  ~Programs() override {
    fs::current_path(before_);
    fs::remove_all(dir_);
    for (const char* name : kNames) ::unsetenv(name);
    for (const auto& [name, value] : environment_) ::setenv(name.c_str(), value.c_str(), 1);
  }

  fs::path script(const fs::path& path, const std::string& text) {
    write_atomically(path, "#!/bin/sh\n" + text);
    EXPECT_EQ(::chmod(path.c_str(), 0755), 0);
    return path;
  }
  static void set_path(const std::string& path) { ::setenv("PATH", path.c_str(), 1); }

  static constexpr const char* kNames[] = {"PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "ISOBAR_REPORT_PYTHON",
                                           kCopied};
  const fs::path before_;
  fs::path dir_;
  std::vector<std::pair<std::string, std::string>> environment_;
};

TEST_F(Programs, OfPathAloneAndNotOfTheWorkingDirectory) {
  script(dir_ / "tool", "echo bait");
  script(dir_ / "sub/tool", "echo bait");
  for (const std::string path : {"", ":", ".", "sub", ":/nonexistent:", "./:sub:..", "sub/../sub"}) {
    set_path(path);
    EXPECT_EQ(program_in_path("tool"), fs::path()) << path;
    EXPECT_EQ(run_program({"tool"}).code, 127) << path;
  }
  script(dir_ / "bin/tool", "echo good; echo bad >&2; exit 3");
  set_path(":.:sub:" + (dir_ / "bin").string() + ":/usr/bin:/bin");
  EXPECT_EQ(program_in_path("tool"), dir_ / "bin/tool");
  const ProgramRun run = run_program({"tool"});
  EXPECT_EQ(run.code, 3);
  EXPECT_EQ(run.out, "good\n");
  EXPECT_EQ(run.err, "bad\n");
  EXPECT_EQ(program_in_path("./sub/tool"), dir_ / "./sub/tool") << "a name with a slash is that file";
}

TEST_F(Programs, NotWhatEverybodyMayWrite) {
  script(dir_ / "open/tool", "echo bait");
  script(dir_ / "bin/tool", "echo good");
  set_path((dir_ / "open").string() + ":" + (dir_ / "bin").string());
  EXPECT_EQ(program_in_path("tool"), dir_ / "open/tool");
  ASSERT_EQ(::chmod((dir_ / "open").c_str(), 0777), 0);
  EXPECT_EQ(program_in_path("tool"), dir_ / "bin/tool");
  ASSERT_EQ(::chmod((dir_ / "open").c_str(), 01777), 0);  // others can add to it, and replace nothing
  EXPECT_EQ(program_in_path("tool"), dir_ / "open/tool");
  ASSERT_EQ(::chmod((dir_ / "open/tool").c_str(), 0757), 0);
  EXPECT_EQ(program_in_path("tool"), dir_ / "bin/tool");
  fs::remove(dir_ / "open/tool");
  fs::create_symlink(dir_ / "bin/tool", dir_ / "open/tool");
  EXPECT_EQ(program_in_path("tool"), dir_ / "open/tool");
  ASSERT_EQ(::chmod((dir_ / "bin").c_str(), 0777), 0);
  EXPECT_EQ(program_in_path("tool"), fs::path()) << "a link into a folder that everybody may write";
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chmod((dir_ / "bin").c_str(), 0755), 0);
  ASSERT_EQ(::lchown((dir_ / "open/tool").c_str(), 12345, 12345), 0);
  EXPECT_EQ(program_in_path("tool"), dir_ / "bin/tool") << "another user's link in a folder like /tmp";
}

TEST_F(Programs, ThePythonThatDraws) {
  script(dir_ / ".venv-reports/bin/python", "echo bait");
  script(dir_ / "bin/python3", "echo good");
  set_path((dir_ / "bin").string());
  ::unsetenv("ISOBAR_REPORT_PYTHON");
  std::string refused;
  EXPECT_NE(drawing_python(&refused).string().substr(0, (dir_ / ".venv").string().size()), (dir_ / ".venv"));
  EXPECT_EQ(refused, "");
  for (const std::string& named : {std::string("python3"), (dir_ / "bin/python3").string()}) {
    ::setenv("ISOBAR_REPORT_PYTHON", named.c_str(), 1);
    EXPECT_EQ(drawing_python(&refused), dir_ / "bin/python3");
    EXPECT_EQ(refused, "");
  }
  for (const std::string named :
       {"nothing", "bin/python3", "./.venv-reports/bin/python", "/nonexistent/python"}) {
    refused.clear();
    ::setenv("ISOBAR_REPORT_PYTHON", named.c_str(), 1);
    EXPECT_EQ(drawing_python(&refused), fs::path()) << named;
    EXPECT_NE(refused.find("ISOBAR_REPORT_PYTHON: " + named), std::string::npos) << refused;
  }
}

// This test's own program lies in the build, and its sources beside that.
TEST_F(Programs, TheOwnTreeIsTwoLevelsAtMost) {
  write_atomically(dir_ / "reports/render.py", "bait");
  write_atomically(dir_ / "own.txt", "bait");
  const fs::path program = fs::canonical("/proc/self/exe"), build = program.parent_path();
  EXPECT_EQ(file_of_program(program.filename()), program);
  EXPECT_EQ(file_of_program("own.txt"), fs::path());
  const fs::path above = build.parent_path().parent_path();
  for (const auto& entry : fs::directory_iterator(above)) {  // three levels up
    const fs::path name = entry.path().filename();
    if (!fs::exists(build / name) && !fs::exists(build.parent_path() / name)) {
      EXPECT_EQ(file_of_program(name), fs::path());
      break;
    }
  }
  const fs::path renderer = file_of_program("reports/render.py");
  EXPECT_TRUE(renderer.is_absolute() && renderer.string().find(dir_.string()) != 0) << renderer;
}

// Started by the next test in a tree of its own.
TEST(ProgramOfATree, SaysWhatItTakes) {
  std::string refused;
  const fs::path taken = file_of_program("reports/render.py", &refused);
  std::printf("takes %s\n%s\nis %s\n", taken.c_str(), refused.c_str(), own_program().c_str());
  const fs::path own = fs::path(source_dir()) / "reports/render.py";
  EXPECT_TRUE(std::getenv(kCopied) || taken == own) << taken << " " << refused;
  EXPECT_TRUE(taken.empty() || refused.empty());
}

// By a loader of its own, the kernel takes that for the program; anywhere else it is the program itself.
TEST_F(Programs, AWheelsProgramIsItsLauncher) {
  ::setenv(kCopied, "1", 1);
  const auto is = [&](const fs::path& copy) {
    fs::create_directories((dir_ / copy).parent_path());
    fs::copy_file("/proc/self/exe", dir_ / copy);
    const std::string out = run_program({(dir_ / copy).string(), "--gtest_filter=ProgramOfATree.*"}).out;
    const size_t at = out.find("\nis ");
    return at == std::string::npos ? out : out.substr(at + 4, out.find('\n', at + 4) - at - 4);
  };
  EXPECT_EQ(is("tree/lib/glibc/ld-linux-x86-64.so.2"), (dir_ / "tree/bin/isobar").string());
  EXPECT_EQ(is("tree/bin/ld-linux"), (dir_ / "tree/bin/ld-linux").string());
  EXPECT_EQ(is("tree/lib/glibc/isobar"), (dir_ / "tree/lib/glibc/isobar").string());
}

// A copy of a program with its tree, as others would have it changed.
TEST_F(Programs, NothingOfTheOwnTreeThatOthersMayWrite) {
  const fs::path root = dir_ / "tree";
  fs::create_directories(root / "bin");
  fs::copy_file("/proc/self/exe", root / "bin/test");
  write_atomically(root / "share/isobar/reports/render.py", "own");
  // Three levels above the program, and in the working directory
  write_atomically(dir_ / "reports/render.py", "bait");
  ::setenv(kCopied, "1", 1);
  const auto said = [&] {
    return run_program({(root / "bin/test").string(), "--gtest_filter=ProgramOfATree.*"}).out;
  };
  const fs::path file = root / "share/isobar/reports/render.py";
  EXPECT_NE(said().find("takes " + file.string() + "\n"), std::string::npos) << said();
  const auto refuses = [&](const fs::path& changed, const std::string& why) {
    const std::string text = said();
    EXPECT_NE(text.find(file.string() + " is not taken: " + changed.string() + " " + why), std::string::npos)
        << text;
    EXPECT_NE(text.find("takes \n"), std::string::npos) << text;
  };
  for (const fs::path& changed : {file, file.parent_path(), root / "share"}) {
    const fs::perms before = fs::status(changed).permissions();
    fs::permissions(changed, fs::perms::others_write, fs::perm_options::add);
    refuses(changed, "can be written by everybody");
    fs::permissions(changed, before);
    if (::geteuid() != 0) continue;
    ASSERT_EQ(::chown(changed.c_str(), 12345, 12345), 0);
    refuses(changed, "is another user's");
    ASSERT_EQ(::chown(changed.c_str(), 0, 12345), 0);
    fs::permissions(changed, fs::perms::group_write, fs::perm_options::add);
    refuses(changed, "can be written by others");
    fs::permissions(changed, before);
    ASSERT_EQ(::chown(changed.c_str(), 0, 0), 0);
  }
  fs::remove_all(root / "share");
  EXPECT_NE(said().find("takes \n"), std::string::npos) << said();
}

}  // namespace
}  // namespace isobar
