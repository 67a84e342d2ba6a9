#include "bench/cli/words/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>

namespace isobar::cli {

void open_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      if (::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
        ::_exit(1);                               // the lowest is free
  std::signal(SIGXFSZ, SIG_IGN);                  // a write beyond ulimit -f fails as one on a full disk does
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // a log file keeps up, and an abort loses no line
}

int checked_output(int code) {
  std::cout.flush();
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && !std::ferror(stdout) && std::cout.good()) return code;
  if (errno == EPIPE) return code != 0 ? code : 128 + SIGPIPE;
  std::fprintf(stderr,
               "isobar: standard output: cannot be written%s%s -> free its disk, or send it elsewhere\n",
               errno != 0 ? ": " : "", errno != 0 ? std::strerror(errno) : "");
  return code != 0 ? code : 1;
}

}  // namespace isobar::cli
