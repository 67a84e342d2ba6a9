// What a user types: a line for the shell, its exit code and what it printed.
//
//   const Answer a = shell("cd DIR && " + isobar() + " plan run.yaml >/dev/full");
#pragma once
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace isobar {

struct Answer {
  int code = -1;  // as the shell says it: 128 + signal where one ended the command
  std::string out;
};

/// With bash, for pipefail; stdout of the whole line comes back.
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
  return ISOBAR_BINARY_DIR "/isobar";
}
inline std::string shipped(const std::string& config) {
  return ISOBAR_SOURCE_DIR "/configs/" + config;
}

}  // namespace isobar
