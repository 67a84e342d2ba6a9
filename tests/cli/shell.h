// Runs a shell command line, as a user types it; returns its exit code and output.
//
//   const Answer a = shell("cd DIR && " + isobar() + " plan run.yaml >/dev/full");
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

#include "model/base/system/files.h"
#include "tests/paths.h"

namespace isobar::cli {

struct Answer {
  int code = -1;  // as the shell reports it: 128 + signal where one ended the command
  std::string out;
};

/// Uses bash, for pipefail; returns stdout of the whole line.
inline Answer shell(const std::string& line) {
  std::string quoted;
  for (const char c : line) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  Answer a;
  std::FILE* pipe = ::popen(("bash -c '" + quoted + "'").c_str(), "r");
  if (!pipe) return a;
  std::array<char, 4096> buffer{};
  for (size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) a.out.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  a.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return a;
}

inline std::string isobar_command() {
  return build_dir() + "/isobar";
}
inline std::string shipped(const std::string& config) {
  return source_dir() + "/configs/" + config;
}

/// A directory with a small run (base.yaml) and a sweep of it (sweep.yaml), used as the working directory.
class InDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "isobar-cli-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    write_atomically(dir_ / "base.yaml",
                     "net: {embed_dim: 64, depth: 1, img_height: 32, img_width: 64, in_channels: 2, "
                     "out_channels: 2}\ntrain: {global_batch: 8, steps: 2}\n");
    write_atomically(dir_ / "sweep.yaml", "base: base.yaml\nsteps: 12\naxes: {gpus: [1, 2]}\n");
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string at(const std::string& line) const { return "cd '" + dir_.string() + "' && " + line; }

  std::filesystem::path dir_;
};

}  // namespace isobar::cli
