// NCCL for the emulator: a libnccl.so.2 whose ranks are processes of one host with a shared file. A call
// blocks its stream until the other ranks have done their part, in graphs at each replay. As strict as NCCL:
// a communicator does one thing at a time, equal calls match in order, destroying a communicator waits for
// its work (perhaps for ever), a lost rank is not noticed, and an aborted communicator may not be used again.
// Sums are in rank order in double, so that every rank has the same bits.
#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/base/dtype.h"

using Poll = std::function<bool()>;
// Device bytes of a communicator at creation, and at first use: arbitrary figures.
constexpr size_t kState = 1 << 20, kBuffers = 3 << 20;
extern "C" void isobar_emulator_enqueue(cudaStream_t stream, std::function<Poll()> begin);  // defined by the
                                                                                            // program

namespace {

struct Channel {  // bytes from one rank to another, in order
  static constexpr size_t kSize = 1 << 16;
  std::atomic<uint64_t> written, read;
  std::byte ring[kSize];

  size_t put(const std::byte* from, size_t bytes) {
    const uint64_t w = written.load(std::memory_order_relaxed);
    const size_t n = std::min(bytes, kSize - static_cast<size_t>(w - read.load(std::memory_order_acquire)));
    for (size_t i = 0; i < n; ++i) ring[(w + i) % kSize] = from[i];
    written.store(w + n, std::memory_order_release);
    return n;
  }
  size_t take(std::byte* to, size_t bytes) {
    const uint64_t r = read.load(std::memory_order_relaxed);
    const size_t n = std::min(bytes, static_cast<size_t>(written.load(std::memory_order_acquire) - r));
    for (size_t i = 0; i < n; ++i) to[i] = ring[(r + i) % kSize];
    read.store(r + n, std::memory_order_release);
    return n;
  }
};

struct Shared {  // the file, initially zero
  std::atomic<int> arrived;
  Channel channels[1];  // ranks x ranks, by sender
};

struct Move {  // one message
  int peer;
  std::byte* at;
  size_t left;
};

struct Transfer {  // one call or group on this rank
  std::vector<Move> sends, receives;
  std::function<void()> finish = [] {};
};

size_t size_of(ncclDataType_t t) {
  return t == ncclFloat32 || t == ncclInt32 ? 4 : 2;
}

template <class Read, class Write>
void reduce(const std::vector<std::vector<std::byte>>& parts, size_t count, ncclRedOp_t op, const Read& read,
            const Write& write) {
  if (op != ncclSum && op != ncclMax)
    throw std::logic_error("NCCL is emulated with ncclSum and ncclMax only");
  for (size_t i = 0; i < count; ++i) {
    double total = read(parts.at(0).data(), i);
    for (size_t p = 1; p < parts.size(); ++p) {
      const double x = read(parts[p].data(), i);
      total = op == ncclSum ? total + x : std::max(total, x);
    }
    write(i, total);
  }
}

void reduce_into(const std::vector<std::vector<std::byte>>& parts, size_t count, ncclDataType_t t,
                 ncclRedOp_t op, void* out) {
  using namespace isobar;
  const auto halves = [&](auto to_float, auto from_float) {
    reduce(
        parts, count, op,
        [&](const std::byte* p, size_t i) {
          uint16_t x;
          std::memcpy(&x, p + 2 * i, 2);
          return static_cast<double>(to_float(x));
        },
        [&](size_t i, double x) {
          const uint16_t bits = from_float(static_cast<float>(x));
          std::memcpy(static_cast<std::byte*>(out) + 2 * i, &bits, 2);
        });
  };
  if (t == ncclBfloat16)
    return halves([](uint16_t x) { return to_float(bf16{x}); }, [](float x) { return to_bf16(x).bits; });
  if (t == ncclFloat16)
    return halves([](uint16_t x) { return to_float(f16{x}); }, [](float x) { return to_f16(x).bits; });
  const auto words = [&]<class T>(T) {
    reduce(
        parts, count, op,
        [](const std::byte* p, size_t i) {
          T x;
          std::memcpy(&x, p + sizeof(T) * i, sizeof(T));
          return static_cast<double>(x);
        },
        [&](size_t i, double x) { static_cast<T*>(out)[i] = static_cast<T>(x); });
  };
  if (t == ncclFloat32) words(float{});
  if (t == ncclInt32) words(int32_t{});
}

}  // namespace

struct ncclComm {
  int rank = 0, size = 0;
  Shared* shared = nullptr;
  std::atomic<bool> aborted = false, busy = false;
  void *state = nullptr, *buffers = nullptr;  // on the device, from creation and from the first call

  Channel& channel(int from, int to) { return shared->channels[from * size + to]; }
};

namespace {

struct Queued {
  ncclComm_t comm;
  cudaStream_t stream;
  std::function<Transfer()> make;
};
thread_local int group_depth = 0;
thread_local std::vector<Queued> group;

// Moves what it can; true when complete.
bool progress(ncclComm& c, Transfer& t) {
  bool over = true;
  for (Move& m : t.sends) {
    const size_t n = c.channel(c.rank, m.peer).put(m.at, m.left);
    m.at += n, m.left -= n;
    over = over && m.left == 0;
  }
  // A peer's messages are consecutive: the next begins when the previous is complete.
  std::vector<bool> waits(static_cast<size_t>(c.size), false);
  for (Move& m : t.receives) {
    if (m.left == 0 || waits[static_cast<size_t>(m.peer)]) continue;
    const size_t n = c.channel(m.peer, c.rank).take(m.at, m.left);
    m.at += n, m.left -= n;
    if (m.left > 0) waits[static_cast<size_t>(m.peer)] = true, over = false;
  }
  return over;
}

void enqueue(ncclComm_t comm, cudaStream_t stream, std::vector<std::function<Transfer()>> makes) {
  isobar_emulator_enqueue(stream, [comm, makes = std::move(makes)]() -> Poll {
    if (comm->busy.exchange(true)) throw std::logic_error("two transfers of one NCCL communicator at a time");
    auto all = std::make_shared<std::vector<Transfer>>();
    for (const auto& make : makes) all->push_back(make());
    auto one = std::make_shared<Transfer>();
    for (Transfer& t : *all) {
      one->sends.insert(one->sends.end(), t.sends.begin(), t.sends.end());
      one->receives.insert(one->receives.end(), t.receives.begin(), t.receives.end());
    }
    return [comm, all, one] {
      if (!comm->aborted && !progress(*comm, *one)) return false;
      if (!comm->aborted)
        for (const Transfer& t : *all) t.finish();
      comm->busy = false;
      return true;
    };
  });
}

ncclResult_t call(ncclComm_t comm, cudaStream_t stream, std::function<Transfer()> make) {
  if (!comm || comm->aborted) return ncclInvalidUsage;
  if (!comm->buffers && cudaMalloc(&comm->buffers, kBuffers) != cudaSuccess) return ncclUnhandledCudaError;
  if (group_depth > 0)
    group.push_back({comm, stream, std::move(make)});
  else
    enqueue(comm, stream, {std::move(make)});
  return ncclSuccess;
}

std::byte* bytes_at(const void* p) {
  return static_cast<std::byte*>(const_cast<void*>(p));
}

// Sends `bytes` to every rank, itself included; `use` gets what arrives, by rank.
Transfer everybody(ncclComm& c, const std::function<std::byte*(int)>& to_send, size_t bytes,
                   const std::function<void(std::vector<std::vector<std::byte>>&)>& use) {
  struct Held {
    std::vector<std::vector<std::byte>> out, in;
  };
  auto held = std::make_shared<Held>();
  held->out.resize(static_cast<size_t>(c.size));
  held->in.resize(static_cast<size_t>(c.size));
  Transfer t;
  for (int r = 0; r < c.size; ++r) {
    auto &out = held->out[static_cast<size_t>(r)], &in = held->in[static_cast<size_t>(r)];
    out.assign(to_send(r), to_send(r) + bytes);
    in.resize(bytes);
    if (r == c.rank) {
      in = out;
      continue;
    }
    t.sends.push_back({r, out.data(), bytes});
    t.receives.push_back({r, in.data(), bytes});
  }
  t.finish = [held, use] { use(held->in); };
  return t;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t code) {
  return code == ncclSuccess        ? "no error"
         : code == ncclInvalidUsage ? "invalid usage"
         : code == ncclSystemError  ? "unhandled system error"
         : code == ncclRemoteError  ? "remote process exited or there was a network error"
                                    : "another error";
}
const char* ncclGetLastError(ncclComm_t) {
  return "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 0, sizeof *id);
  std::random_device random;
  const std::string name =
      "/isobar-emulated-nccl-" + std::to_string(random()) + "-" + std::to_string(random());
  std::memcpy(id->internal, name.c_str(), name.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  const size_t bytes =
      sizeof(Shared) + sizeof(Channel) * static_cast<size_t>(size) * static_cast<size_t>(size);
  const int file = ::shm_open(id.internal, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) return ncclSystemError;
  void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (p == MAP_FAILED) return ncclSystemError;
  auto* shared = static_cast<Shared*>(p);
  shared->arrived.fetch_add(1);
  while (shared->arrived.load() < size) ::usleep(200);
  ::shm_unlink(id.internal);  // all ranks have it open; nothing is left behind
  auto c = std::make_unique<ncclComm>();
  c->rank = rank, c->size = size, c->shared = shared;
  if (cudaMalloc(&c->state, kState) != cudaSuccess) return ncclUnhandledCudaError;
  *comm = c.release();
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  while (comm->busy && !comm->aborted) ::usleep(1000);
  return ncclSuccess;  // its memory stays, since a queue may refer to it
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->aborted = true;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) {
  *state = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  if (--group_depth > 0) return ncclSuccess;
  std::vector<Queued> calls = std::move(group);
  group.clear();
  while (!calls.empty()) {  // calls of one communicator and stream are one transfer
    const ncclComm_t comm = calls.front().comm;
    const cudaStream_t stream = calls.front().stream;
    std::vector<std::function<Transfer()>> makes;
    std::erase_if(calls, [&](Queued& q) {
      if (q.comm != comm) return false;
      makes.push_back(std::move(q.make));
      return true;
    });
    enqueue(comm, stream, std::move(makes));
  }
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t t, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, [=] {
    return everybody(
        *comm, [=](int) { return bytes_at(in); }, count * size_of(t),
        [=](auto& parts) { reduce_into(parts, count, t, op, out); });
  });
}

ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t t, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, [=] {
    return everybody(
        *comm, [=](int) { return bytes_at(in); }, count * size_of(t),
        [=](auto& parts) {
          if (comm->rank == root) reduce_into(parts, count, t, op, out);
        });
  });
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t t, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, [=] {
    const size_t bytes = count * size_of(t);
    Transfer one;
    if (comm->rank != root) {
      one.receives.push_back({root, bytes_at(out), bytes});
      return one;
    }
    for (int r = 0; r < comm->size; ++r)
      if (r != root) one.sends.push_back({r, bytes_at(in), bytes});
    if (in != out) one.finish = [=] { std::memcpy(out, in, bytes); };
    return one;
  });
}

ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t t, ncclComm_t comm,
                           cudaStream_t stream) {
  return call(comm, stream, [=] {
    const size_t bytes = count * size_of(t);
    return everybody(
        *comm, [=](int) { return bytes_at(in); }, bytes,
        [=](auto& parts) {
          for (size_t r = 0; r < parts.size(); ++r)
            std::memcpy(bytes_at(out) + r * bytes, parts[r].data(), bytes);
        });
  });
}

ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t t, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, [=] {
    const size_t bytes = count * size_of(t);
    return everybody(
        *comm, [=](int r) { return bytes_at(in) + static_cast<size_t>(r) * bytes; }, bytes,
        [=](auto& parts) { reduce_into(parts, count, t, op, out); });
  });
}

ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call(comm, stream, [=] {
    Transfer one;
    one.sends.push_back({peer, bytes_at(in), count * size_of(t)});
    return one;
  });
}
ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call(comm, stream, [=] {
    Transfer one;
    one.receives.push_back({peer, bytes_at(out), count * size_of(t)});
    return one;
  });
}

}  // extern "C"
