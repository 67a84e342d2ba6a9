#include "bench/sweep/run/proctree.h"

#include <dirent.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

namespace isobar::sweep {
namespace {

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  if (in) out << in.rdbuf();
  return out.str();
}

std::vector<pid_t> numbers_in(const std::string& folder) {
  std::vector<pid_t> out;
  DIR* dir = ::opendir(folder.c_str());
  if (!dir) return out;  // the process is gone
  while (const dirent* entry = ::readdir(dir))
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') out.push_back(std::atoi(entry->d_name));
  ::closedir(dir);
  return out;
}

struct Stat {
  char state = 'X';
  pid_t parent = -1;
};

Stat stat_of(pid_t pid) {
  const std::string text = slurp("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = text.rfind(')');  // the name may contain brackets
  Stat s;
  if (name_end == std::string::npos) return s;
  std::istringstream rest(text.substr(name_end + 1));
  rest >> s.state >> s.parent;
  return s;
}

std::vector<pid_t> children(pid_t pid) {
  std::vector<pid_t> out;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (pid_t task : numbers_in(tasks)) {
    std::istringstream list(slurp(tasks + "/" + std::to_string(task) + "/children"));
    for (pid_t child; list >> child;) out.push_back(child);
  }
  return out;
}

// For kernels without the `children` files: reads every process's parent.
std::multimap<pid_t, pid_t> by_parent() {
  std::multimap<pid_t, pid_t> out;
  for (pid_t pid : all_processes()) out.emplace(stat_of(pid).parent, pid);
  return out;
}

}  // namespace

std::vector<pid_t> all_processes() {
  return numbers_in("/proc");
}

std::vector<pid_t> descendants(pid_t root) {
  const std::string own = std::to_string(::getpid());
  static const bool has_children_files =
      ::access(("/proc/" + own + "/task/" + own + "/children").c_str(), R_OK) == 0;
  const std::multimap<pid_t, pid_t> parents =
      has_children_files ? std::multimap<pid_t, pid_t>{} : by_parent();
  std::vector<pid_t> out, todo = {root};
  while (!todo.empty()) {
    const pid_t pid = todo.back();
    todo.pop_back();
    std::vector<pid_t> next;
    if (has_children_files) {
      next = children(pid);
    } else {
      for (auto [it, end] = parents.equal_range(pid); it != end; ++it) next.push_back(it->second);
    }
    for (pid_t child : next) {
      todo.push_back(child);
      const char state = stat_of(child).state;
      if (state != 'Z' && state != 'X') out.push_back(child);
    }
  }
  return out;
}

int64_t private_bytes(pid_t pid) {
  std::istringstream in(slurp("/proc/" + std::to_string(pid) + "/statm"));
  int64_t size = 0, resident = 0, shared = 0;
  if (!(in >> size >> resident >> shared)) return 0;
  return (resident - shared) * ::sysconf(_SC_PAGESIZE);
}

bool environment_has(pid_t pid, const std::string& entry) {
  const std::string all = '\0' + slurp("/proc/" + std::to_string(pid) + "/environ");
  return all.find('\0' + entry + '\0') != std::string::npos;
}

int64_t oom_kills() {
  std::istringstream in(slurp("/proc/vmstat"));
  std::string key;
  for (int64_t value; in >> key >> value;)
    if (key == "oom_kill") return value;
  return 0;
}

}  // namespace isobar::sweep
