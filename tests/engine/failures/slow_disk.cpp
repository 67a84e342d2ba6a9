// Preloaded under the command: makes calls slow, or endless, by rules of ISOBAR_SLOW_DISK, apart by ';', of
// the words
//
//   CALL PART SECONDS TIMES RANK       fsync checkpoints 6 1 0: the first fsync of rank 0 on a file whose
//   path holds
//                                      "checkpoints" takes 6 s longer; RANK * is any, TIMES counts in each
//                                      process
//
// CALL: open, read, write, fsync; or `sum`, the collective MPI_Iallreduce of floats, whatever PART, which
// then turns without end: an op that hangs.
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <string>

namespace {

bool takes_its_time(const char* call, const char* path) {
  static std::mutex mutex;
  static int done[16] = {};
  const char* rules = std::getenv("ISOBAR_SLOW_DISK");
  if (!rules) return false;
  const char* own_rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (!own_rank) own_rank = std::getenv("PMI_RANK");  // for MPICH
  int number = 0;
  for (const char* rule = rules; rule && number < 16; ++number) {
    char name[16], part[64], rank[16];
    double seconds = 0;
    int times = 0;
    if (std::sscanf(rule, " %15s %63s %lf %d %15[^; ]", name, part, &seconds, &times, rank) == 5 &&
        std::strcmp(name, call) == 0 && std::strstr(path, part) &&
        (rank[0] == '*' || (own_rank && std::strcmp(rank, own_rank) == 0))) {
      {
        const std::lock_guard lock(mutex);
        if (done[number] >= times) return false;
        ++done[number];
      }
      // Tests wait for this file to appear.
      if (const char* mark = std::getenv("ISOBAR_SLOW_MARK"))
        if (const int fd = ::creat(mark, 0644); fd >= 0) ::close(fd);
      timespec left{static_cast<time_t>(seconds),
                    static_cast<long>(1e9 * (seconds - static_cast<time_t>(seconds)))};
      while (::nanosleep(&left, &left) != 0 && errno == EINTR) {  // uninterruptible, like a disk
      }
      return true;
    }
    rule = std::strchr(rule, ';');
    if (rule) ++rule;
  }
  return false;
}

void on_file(const char* call, int fd) {
  char path[4096];
  const ssize_t n = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path - 1);
  if (n <= 0) return;
  path[n] = '\0';
  takes_its_time(call, path);
}

template <class F>
F next(const char* name) {
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int fsync(int fd) {
  on_file("fsync", fd);
  return next<int (*)(int)>("fsync")(fd);
}
int fdatasync(int fd) {
  on_file("fsync", fd);
  return next<int (*)(int)>("fdatasync")(fd);
}
ssize_t write(int fd, const void* from, size_t n) {
  if (fd > 2) on_file("write", fd);
  return next<ssize_t (*)(int, const void*, size_t)>("write")(fd, from, n);
}
ssize_t pwrite(int fd, const void* from, size_t n, off_t at) {
  on_file("write", fd);
  return next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite")(fd, from, n, at);
}
ssize_t pwrite64(int fd, const void* from, size_t n, off64_t at) {
  on_file("write", fd);
  return next<ssize_t (*)(int, const void*, size_t, off64_t)>("pwrite64")(fd, from, n, at);
}
ssize_t read(int fd, void* to, size_t n) {
  on_file("read", fd);
  return next<ssize_t (*)(int, void*, size_t)>("read")(fd, to, n);
}
ssize_t pread(int fd, void* to, size_t n, off_t at) {
  on_file("read", fd);
  return next<ssize_t (*)(int, void*, size_t, off_t)>("pread")(fd, to, n, at);
}
ssize_t pread64(int fd, void* to, size_t n, off64_t at) {
  on_file("read", fd);
  return next<ssize_t (*)(int, void*, size_t, off64_t)>("pread64")(fd, to, n, at);
}
int open(const char* path, int flags, ...) {
  std::va_list more;
  va_start(more, flags);
  const int mode = va_arg(more, int);
  va_end(more);
  takes_its_time("open", path);
  return next<int (*)(const char*, int, ...)>("open")(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  std::va_list more;
  va_start(more, flags);
  const int mode = va_arg(more, int);
  va_end(more);
  takes_its_time("open", path);
  return next<int (*)(const char*, int, ...)>("open64")(path, flags, mode);
}

int MPI_Iallreduce(const void* in, void* out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm,
                   MPI_Request* r) {
  if (t == MPI_FLOAT && takes_its_time("sum", "sum"))
    for (volatile int turns = 0;;) turns = turns + 1;
  return PMPI_Iallreduce(in, out, n, t, op, comm, r);
}

}  // extern "C"
