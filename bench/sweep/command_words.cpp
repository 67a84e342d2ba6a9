#include "bench/sweep/command_words.h"

#include <glob.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "model/base/error.h"

namespace isobar::sweep {

namespace fs = std::filesystem;

std::string with_words(const RunSpec& spec, const char* key, const std::string& text,
                       const std::function<std::string(const std::string&)>& value) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c == '{' || c == '}') && text.substr(i + 1, 1) == std::string(1, c)) {
      out += c;
      ++i;
    } else if (c == '{') {
      const size_t end = text.find('}', i);
      if (end == std::string::npos)
        throw ConfigError(spec.file, key, "has a { without }: '" + text.substr(i) + "'",
                          "close it, or write {{ for a brace");
      out += value(text.substr(i + 1, end - i - 1));
      i = end;
    } else {
      out += c;
    }
  }
  return out;
}

std::set<std::string> words_of_command(const RunSpec& spec) {
  std::set<std::string> words;
  with_words(spec, "run.command", spec.run.command, [&](const std::string& word) {
    words.insert(word);
    return word;
  });
  return words;
}

bool starts_on_every_node(const RunSpec& spec) {
  return words_of_command(spec).contains("node_rank");
}

bool knows_nodes(const RunSpec& spec) {
  const std::set<std::string> words = words_of_command(spec);
  return words.contains("node_rank") || words.contains("nodes") || words.contains("nodelist");
}

void require_words_of_nodes(const RunSpec& spec, int64_t nodes) {
  if (spec.run.command.empty() || nodes < 2 || knows_nodes(spec)) return;
  throw ConfigError(spec.file, "run.command",
                    "runs on " + std::to_string(nodes) + " nodes, and names neither {node_rank} nor {nodes}",
                    "start it on each node, `torchrun --nnodes {nodes} --node-rank {node_rank} --master-addr "
                    "{master_addr} --master-port {master_port} …`, or all by `srun -N {nodes} -n {ranks} …`");
}

int64_t free_port() {
  const int s = ::socket(AF_INET, SOCK_STREAM, 0);
  if (s < 0) throw std::system_error(errno, std::generic_category(), "socket");
  sockaddr_in at{};
  at.sin_family = AF_INET;
  socklen_t length = sizeof at;
  const bool bound = ::bind(s, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 &&
                     ::getsockname(s, reinterpret_cast<sockaddr*>(&at), &length) == 0;
  const int error = errno;
  ::close(s);
  if (!bound) throw std::system_error(error, std::generic_category(), "no free port");
  return ntohs(at.sin_port);
}

std::vector<std::string> words_that_tell(const std::vector<std::string>& nodes) {
  std::string names;
  for (const std::string& n : nodes) names += (names.empty() ? "" : ",") + n;
  return {"/usr/bin/env", std::string(kToldNodes) + "=" + names,
          std::string(kToldPort) + "=" + std::to_string(free_port())};
}

std::optional<fs::path> checkpoint_of_command(const RunSpec& spec, const fs::path& run_dir) {
  if (spec.run.checkpoint.empty()) return std::nullopt;
  std::string escaped;  // of the folder only the pattern's own signs are such
  for (const char c : fs::absolute(run_dir).lexically_normal().string()) {
    if (std::string("*?[\\").find(c) != std::string::npos) escaped += '\\';
    escaped += c;
  }
  const std::string pattern =
      fs::path(spec.run.checkpoint).is_absolute() ? spec.run.checkpoint : escaped + "/" + spec.run.checkpoint;
  glob_t found{};
  std::optional<fs::path> newest;
  fs::file_time_type when{};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; ++i) {
      std::error_code gone;
      const auto t = fs::last_write_time(found.gl_pathv[i], gone);
      if (!gone && (!newest || t >= when)) newest = found.gl_pathv[i], when = t;
    }
  ::globfree(&found);
  return newest;
}

}  // namespace isobar::sweep
