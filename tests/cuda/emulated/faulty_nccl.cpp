// A libnccl.so.2 that wraps another one and makes one rank's n-th transfer fail:
//
//   LD_LIBRARY_PATH=<folder of this> ISOBAR_NCCL_NEXT=/usr/lib/…/libnccl.so.2 ISOBAR_NCCL_FAULT=1:20:error
//   mpiexec -n 3 …
//
// rank : call (counted from 1, over all communicators) : error, the call fails; async, it is enqueued, and
// then the communicator reports a lost peer; stall, it never returns; die, the process is killed; stuck, it
// fails, and aborting a communicator never returns; busy, as async, and it keeps its stream busy until the
// communicator is aborted (emulated GPUs only, as NCCL's kernels do for a lost peer).
#include <dlfcn.h>
#include <nccl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

namespace {

struct Fault {
  int rank = -1, call = 0;
  std::string kind;
};

Fault wanted() {
  const char *text = std::getenv("ISOBAR_NCCL_FAULT"), *rank = std::getenv("OMPI_COMM_WORLD_RANK");
  Fault f;
  char kind[16] = {};
  if (!text || std::sscanf(text, "%d:%d:%15s", &f.rank, &f.call, kind) != 3) std::abort();
  f.kind = kind;
  if (!rank || std::atoi(rank) != f.rank) f.call = 0;  // another rank's fault
  return f;
}

void* next(const char* name) {
  static void* library = [] {
    const char* path = std::getenv("ISOBAR_NCCL_NEXT");
    void* p = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (!p) {
      std::fprintf(stderr, "ISOBAR_NCCL_NEXT: %s\n", path ? dlerror() : "is not set");
      std::abort();
    }
    return p;
  }();
  return dlsym(library, name);
}

std::atomic<int> calls{0};
std::atomic<bool> peer_gone{false}, stuck{false}, aborted{false};

/// Blocks the stream until a communicator has been aborted.
void occupy(cudaStream_t stream) {
  using Poll = std::function<bool()>;
  using Enqueue = void(cudaStream_t, std::function<Poll()>);
  auto* enqueue = reinterpret_cast<Enqueue*>(dlsym(RTLD_DEFAULT, "isobar_emulator_enqueue"));
  if (!enqueue) {
    std::fprintf(stderr, "ISOBAR_NCCL_FAULT: busy is for emulated GPUs\n");
    std::abort();
  }
  enqueue(stream, [] { return Poll([] { return aborted.load(); }); });
}

/// True if this call is to fail.
bool goes_wrong(cudaStream_t stream) {
  static const Fault fault = wanted();
  if (++calls != fault.call) return false;
  if (fault.kind == "die") std::raise(SIGKILL);
  while (fault.kind == "stall") ::pause();
  if (fault.kind == "busy") occupy(stream);
  if (fault.kind == "async" || fault.kind == "busy") peer_gone = true;
  if (fault.kind == "stuck") stuck = true;
  return fault.kind == "error" || stuck;
}

}  // namespace

extern "C" {

#define ISOBAR_FORWARD(result, name, declared, given)            \
  result name declared {                                         \
    return reinterpret_cast<decltype(&name)>(next(#name)) given; \
  }
#define ISOBAR_TRANSFER(name, declared, given)                   \
  ncclResult_t name declared {                                   \
    if (goes_wrong(s)) return ncclSystemError;                   \
    return reinterpret_cast<decltype(&name)>(next(#name)) given; \
  }

ISOBAR_FORWARD(ncclResult_t, ncclGetVersion, (int* v), (v))
ISOBAR_FORWARD(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id), (id))
ISOBAR_FORWARD(ncclResult_t, ncclCommInitRank, (ncclComm_t * c, int n, ncclUniqueId id, int r), (c, n, id, r))
ISOBAR_FORWARD(ncclResult_t, ncclCommDestroy, (ncclComm_t c), (c))
ISOBAR_FORWARD(const char*, ncclGetErrorString, (ncclResult_t code), (code))
ISOBAR_FORWARD(const char*, ncclGetLastError, (ncclComm_t c), (c))
ISOBAR_FORWARD(ncclResult_t, ncclGroupStart, (), ())
ISOBAR_FORWARD(ncclResult_t, ncclGroupEnd, (), ())

ncclResult_t ncclCommAbort(ncclComm_t c) {
  while (stuck) ::pause();
  aborted = true;
  return reinterpret_cast<decltype(&ncclCommAbort)>(next("ncclCommAbort"))(c);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t* state) {
  const ncclResult_t code =
      reinterpret_cast<decltype(&ncclCommGetAsyncError)>(next("ncclCommGetAsyncError"))(c, state);
  if (peer_gone) *state = ncclRemoteError;
  return code;
}

ISOBAR_TRANSFER(ncclAllReduce,
                (const void* in, void* out, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c,
                 cudaStream_t s),
                (in, out, n, t, op, c, s))
ISOBAR_TRANSFER(ncclBroadcast,
                (const void* in, void* out, size_t n, ncclDataType_t t, int root, ncclComm_t c,
                 cudaStream_t s),
                (in, out, n, t, root, c, s))
ISOBAR_TRANSFER(ncclAllGather,
                (const void* in, void* out, size_t n, ncclDataType_t t, ncclComm_t c, cudaStream_t s),
                (in, out, n, t, c, s))
ISOBAR_TRANSFER(ncclReduceScatter,
                (const void* in, void* out, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c,
                 cudaStream_t s),
                (in, out, n, t, op, c, s))
ISOBAR_TRANSFER(ncclReduce,
                (const void* in, void* out, size_t n, ncclDataType_t t, ncclRedOp_t op, int root,
                 ncclComm_t c, cudaStream_t s),
                (in, out, n, t, op, root, c, s))
ISOBAR_TRANSFER(ncclSend,
                (const void* in, size_t n, ncclDataType_t t, int peer, ncclComm_t c, cudaStream_t s),
                (in, n, t, peer, c, s))
ISOBAR_TRANSFER(ncclRecv, (void* out, size_t n, ncclDataType_t t, int peer, ncclComm_t c, cudaStream_t s),
                (out, n, t, peer, c, s))

}  // extern "C"
