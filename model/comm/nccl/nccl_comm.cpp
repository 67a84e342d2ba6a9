#include "model/comm/nccl/nccl_comm.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <thread>

#include "model/backend/cuda/runtime/device.h"
#include "model/backend/cuda/runtime/library.h"
#include "model/comm/transfers.h"
#include "model/plan/ops/operands.h"

namespace isobar::comm {
namespace {

#define ISOBAR_NCCL_FUNCTIONS(f)                                                                         \
  f(GetVersion) f(GetUniqueId) f(CommInitRank) f(CommAbort) f(CommDestroy) f(CommGetAsyncError)          \
      f(GetErrorString) f(GetLastError) f(GroupStart) f(GroupEnd) f(AllReduce) f(Broadcast) f(AllGather) \
          f(ReduceScatter) f(Reduce) f(Send) f(Recv)

struct Nccl {  // NCCL's functions, by name without "nccl"
  cuda::Library lib{"libnccl.so.2"};
// NOLINTNEXTLINE(bugprone-macro-parentheses): it declares a member
#define ISOBAR_DECLARE(name) decltype(&nccl##name) name = lib.function<decltype(&nccl##name)>("nccl" #name);
  ISOBAR_NCCL_FUNCTIONS(ISOBAR_DECLARE)
#undef ISOBAR_DECLARE
};
#undef ISOBAR_NCCL_FUNCTIONS

const Nccl& nccl() {
  static const Nccl library;
  return library;
}

void must(ncclResult_t code, const std::string& what, ncclComm_t comm = nullptr) {
  if (code == ncclSuccess) return;
  std::string text = what + ": " + nccl().GetErrorString(code);
  if (const char* more = nccl().GetLastError(comm); more && *more) text += std::string("; ") + more;
  throw cuda::Failure(text);
}

ncclDataType_t nccl_type(DType t) {
  switch (t) {
    case DType::f32:
      return ncclFloat32;
    case DType::i32:
      return ncclInt32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
      return ncclFloat16;
  }
  throw std::logic_error("an element type that NCCL does not know");
}

// host/PCI address of the calling thread's device
std::string device_address() {
  int device = 0;
  ISOBAR_CUDA(cudaGetDevice(&device));
  std::array<char, 32> bus{};
  ISOBAR_CUDA(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device));
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return std::string(host.data()) + "/" + bus.data();
}

// Two numbers of 24 bits each, which doubles hold exactly.
std::pair<double, double> digest(const std::string& s) {
  uint64_t h = 1469598103934665603u;
  for (const char c : s) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return {static_cast<double>(h & 0xffffff), static_cast<double>(h >> 24 & 0xffffff)};
}

}  // namespace

bool any_two_share_a_device(const Mpi& mpi) {
  std::vector<double> all(2 * static_cast<size_t>(mpi.size()), 0.0);
  std::tie(all[2 * mpi.rank()], all[2 * mpi.rank() + 1]) = digest(device_address());
  all = mpi.sum_of(all);
  std::vector<std::pair<double, double>> seen;
  for (size_t r = 0; r < all.size(); r += 2) seen.emplace_back(all[r], all[r + 1]);
  std::sort(seen.begin(), seen.end());
  return std::adjacent_find(seen.begin(), seen.end()) != seen.end();
}

NcclComm::NcclComm(const std::vector<plan::Group>& groups, int rank, bool share_a_device, Comm& bootstrap,
                   double timeout_s)
    : groups_(groups),
      comms_(groups.size(), nullptr),
      rank_(groups.size(), 0),
      unwinding_(std::uncaught_exceptions()) {
  // NCCL reads its environment only once, at its first use.
  if (share_a_device) ::setenv("NCCL_HOSTID", ("isobar-rank-" + std::to_string(rank)).c_str(), 1);
  try {
    for (const size_t i : creation_order(groups)) {
      const auto& ranks = groups[i].ranks;
      const auto me = std::find(ranks.begin(), ranks.end(), rank);
      if (me == ranks.end()) throw std::logic_error("rank is not in its group " + groups[i].name);
      rank_[i] = static_cast<int>(me - ranks.begin());
      create(groups[i], static_cast<int32_t>(i), rank_[i], bootstrap, timeout_s);
    }
  } catch (...) {
    abort();
    throw;
  }
}

NcclComm::~NcclComm() {
  // Destroying waits for pending work, which may never end after a failure.
  if (std::uncaught_exceptions() > unwinding_) abort();
  for (ncclComm_t comm : comms_)
    if (comm) nccl().CommDestroy(comm);  // errors at the end of the run have no receiver
}

void NcclComm::create(const plan::Group& group, int32_t index, int rank, Comm& bootstrap, double timeout_s) {
  using clock = std::chrono::steady_clock;
  const auto deadline = clock::now() + std::chrono::duration<double>(timeout_s);
  const auto late = [&](const char* what) {
    return cuda::Failure("NCCL communicator of group " + group.name + ": " + what + " took longer than " +
                         std::to_string(static_cast<int64_t>(timeout_s)) +
                         " s; another rank has failed, or no network interface connects them "
                         "(NCCL_SOCKET_IFNAME, NCCL_DEBUG=INFO)");
  };
  ncclUniqueId id{};
  if (rank == 0) must(nccl().GetUniqueId(&id), "ncclGetUniqueId");
  std::array<int32_t, sizeof id / sizeof(int32_t)> words{};
  static_assert(sizeof words == sizeof id);
  std::memcpy(words.data(), &id, sizeof id);
  const plan::Op broadcast{
      plan::OpKind::broadcast, plan::Lane::compute, plan::TransferAttrs{.group = index}, {}, {},
      "id of " + group.name};
  Requests sent =
      bootstrap.post(broadcast, words.data(), {words.size(), words.size()}, words.data(), DType::i32);
  while (!bootstrap.test(sent)) {
    if (clock::now() > deadline) throw late("its id over MPI");
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  std::memcpy(&id, words.data(), sizeof id);

  // Waits for the group's other ranks without a timeout, so it has a thread of its own.
  int device = 0;
  ISOBAR_CUDA(cudaGetDevice(&device));
  struct Made {
    ncclComm_t comm = nullptr;
    ncclResult_t code = ncclSuccess;
  };
  std::promise<Made> promise;
  std::future<Made> made = promise.get_future();
  std::thread([id, rank, device, size = static_cast<int>(group.ranks.size()),
               p = std::move(promise)]() mutable {
    Made m;
    m.code = cudaSetDevice(device) == cudaSuccess ? nccl().CommInitRank(&m.comm, size, id, rank)
                                                  : ncclUnhandledCudaError;
    p.set_value(m);
  }).detach();
  if (made.wait_until(deadline) != std::future_status::ready) throw late("ncclCommInitRank");
  const Made m = made.get();
  must(m.code, "ncclCommInitRank of group " + group.name);
  comms_[index] = m.comm;
}

// NCCL takes the sizes of messages from the host.
std::vector<int32_t> NcclComm::on_host(const plan::Op& op, const int32_t* offsets, cudaStream_t stream) {
  if (offsets == nullptr) return {};
  std::vector<int32_t> out(
      static_cast<size_t>(isobar::plan::in<plan::OpKind::all_to_all>(op, "offsets").count));
  ISOBAR_CUDA(
      cudaMemcpyAsync(out.data(), offsets, out.size() * sizeof(int32_t), cudaMemcpyDeviceToHost, stream));
  while (cudaStreamQuery(stream) == cudaErrorNotReady) check();
  ISOBAR_CUDA(cudaStreamSynchronize(stream));
  return out;
}

void NcclComm::launch(const plan::Op& op, const void* in, int64_t in_count, void* out, int64_t out_count,
                      const int32_t* offsets, DType t, cudaStream_t stream) {
  using Kind = TransferCall::Kind;
  const Nccl& n = nccl();
  ncclComm_t comm = comms_.at(op.as<plan::TransferAttrs>().group);
  const ncclDataType_t type = nccl_type(t);
  const auto size = static_cast<int>(groups_[op.as<plan::TransferAttrs>().group].ranks.size());
  const std::vector<int32_t> ends = on_host(op, offsets, stream);
  const auto calls = transfer_calls(op, rank_[op.as<plan::TransferAttrs>().group], size,
                                    {in_count, out_count, offsets == nullptr ? nullptr : ends.data()});
  const auto call = [&](const TransferCall& c) {
    auto* to = static_cast<std::byte*>(out) + c.out * size_of(t);
    const auto* from = c.in_place ? to : static_cast<const std::byte*>(in) + c.in * size_of(t);
    const auto count = static_cast<size_t>(c.count);
    switch (c.kind) {
      case Kind::all_reduce:
        return n.AllReduce(from, to, count, type, c.largest ? ncclMax : ncclSum, comm, stream);
      case Kind::broadcast:
        return n.Broadcast(from, to, count, type, c.peer, comm, stream);
      case Kind::all_gather:
        return n.AllGather(from, to, count, type, comm, stream);
      case Kind::reduce_scatter:
        return n.ReduceScatter(from, to, count, type, ncclSum, comm, stream);
      case Kind::reduce:
        return n.Reduce(from, to, count, type, ncclSum, c.peer, comm, stream);
      case Kind::send:
        return n.Send(from, count, type, c.peer, comm, stream);
      case Kind::recv:
        return n.Recv(to, count, type, c.peer, comm, stream);
    }
    return ncclInvalidArgument;
  };
  const bool group = calls.size() > 1;
  if (group) must(n.GroupStart(), "ncclGroupStart");
  for (const TransferCall& c : calls) must(call(c), op.path, comm);
  if (group) must(n.GroupEnd(), op.path, comm);
}

void NcclComm::check() {
  for (size_t i = 0; i < comms_.size(); ++i) {
    if (!comms_[i]) continue;
    ncclResult_t state = ncclSuccess;
    must(nccl().CommGetAsyncError(comms_[i], &state), "ncclCommGetAsyncError", comms_[i]);
    if (state != ncclInProgress) must(state, "transfers of group " + groups_[i].name, comms_[i]);
  }
}

void NcclComm::abort() noexcept {
  for (ncclComm_t& comm : comms_)
    if (comm) nccl().CommAbort(std::exchange(comm, nullptr));  // the first failure is reported, not this one
}

std::string NcclComm::version() {
  int v = 0;
  must(nccl().GetVersion(&v), "ncclGetVersion");
  return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
}

}  // namespace isobar::comm
