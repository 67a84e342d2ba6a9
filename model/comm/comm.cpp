#include "model/comm/comm.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "model/base/error.h"
#include "model/base/system/cpus.h"
#include "model/base/system/denormals.h"
#include "model/comm/launcher.h"
#include "model/comm/must.h"
#include "model/comm/pause.h"
#include "model/comm/yielding.h"
#include "model/plan/link.h"
#include "model/plan/ops/operands.h"

namespace isobar::comm {
namespace {

/// Posts a request that all ranks post, outside of the executor, and completes it.
template <class Post>
void finish(const char* what, const Post& post) {
  MPI_Request request;
  must(post(&request), what);
  int done = 0;
  for (Pause pause; !done; pause()) must(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what);
}

}  // namespace

int sharing_cores(const std::vector<cpu_set_t>& ranks, size_t mine) {
  int sharing = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    cpu_set_t both;
    CPU_AND(&both, &ranks[i], &ranks[mine]);
    sharing += i == mine || CPU_COUNT(&both) > 0 ? 1 : 0;
  }
  return sharing;
}

int order_on_cores(const std::vector<cpu_set_t>& ranks, size_t mine) {
  int order = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    cpu_set_t both;
    CPU_AND(&both, &ranks[i], &ranks[mine]);
    if (i == mine || CPU_COUNT(&both) == 0) continue;
    if (!CPU_EQUAL(&ranks[i], &ranks[mine])) return -1;
    order += i < mine ? 1 : 0;
  }
  return order;
}

bool Mpi::started_by_launcher() {
  const Launch launch = launch_of(::getenv);
  check_joined(launch, version());
  return launch.started();
}

Mpi::Mpi() : cpus_(process_cpus()) {
  if (!started_by_launcher()) return;
  flush_denormals();  // MPI's own threads inherit it
  int provided = 0;
  Yielding::during_init(
      [&] { must(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread"); });
  const Yielding yielding;
  active_ = true;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  try {
    check_launch(launch_of(::getenv), size_, version());
  } catch (const ConfigError&) {
    MPI_Finalize();
    throw;
  }
  if (provided < MPI_THREAD_MULTIPLE)
    throw std::runtime_error(
        "this MPI gives no MPI_THREAD_MULTIPLE; use one that was built with it (Cray MPICH: set "
        "MPICH_MAX_THREAD_SAFETY=multiple)");
  MPI_Comm host;
  must(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host),
       "MPI_Comm_split_type");
  MPI_Comm_size(host, &on_host_);
  MPI_Comm_rank(host, &rank_on_host_);
  cpu_set_t own;
  CPU_ZERO(&own);
  for (const int c : cpus_) CPU_SET(c, &own);  // empty if unknown: this rank then shares with none
  std::vector<cpu_set_t> all(static_cast<size_t>(on_host_));
  must(MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, host), "MPI_Allgather");
  on_cores_ = sharing_cores(all, static_cast<size_t>(rank_on_host_));
  rank_on_cores_ = order_on_cores(all, static_cast<size_t>(rank_on_host_));
  MPI_Comm_free(&host);
}

Mpi::~Mpi() {
  const Yielding yielding;
  if (active_) MPI_Finalize();
}

std::string Mpi::version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int n = 0;
  MPI_Get_library_version(text, &n);
  return short_version(std::string(text, n));
}

void Mpi::barrier() const {
  if (!active_) return;
  finish("MPI_Ibarrier", [](MPI_Request* r) { return MPI_Ibarrier(MPI_COMM_WORLD, r); });
}

double Mpi::max_of(double x) const {
  if (!active_) return x;
  double most = 0;
  finish("MPI_Iallreduce", [&](MPI_Request* r) {
    return MPI_Iallreduce(&x, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, r);
  });
  return most;
}

std::vector<double> Mpi::sum_of(std::vector<double> x) const {
  if (!active_) return x;
  finish("MPI_Iallreduce", [&](MPI_Request* r) {
    return MPI_Iallreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()), MPI_DOUBLE, MPI_SUM,
                          MPI_COMM_WORLD, r);
  });
  return x;
}

std::string Mpi::from_first(std::string s) const {
  if (!active_) return s;
  auto n = static_cast<int64_t>(s.size());
  finish("MPI_Ibcast", [&](MPI_Request* r) { return MPI_Ibcast(&n, 1, MPI_INT64_T, 0, MPI_COMM_WORLD, r); });
  s.resize(n);
  finish("MPI_Ibcast", [&](MPI_Request* r) {
    return MPI_Ibcast(s.data(), static_cast<int>(n), MPI_CHAR, 0, MPI_COMM_WORLD, r);
  });
  return s;
}

std::vector<std::string> Mpi::to_first(std::string s) const {
  if (!active_) return {std::move(s)};
  const int size = static_cast<int>(s.size());
  std::vector<int> sizes(rank_ == 0 ? size_ : 0), begins(sizes.size());
  finish("MPI_Igather", [&](MPI_Request* r) {
    return MPI_Igather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, 0, MPI_COMM_WORLD, r);
  });
  std::exclusive_scan(sizes.begin(), sizes.end(), begins.begin(), 0);
  std::string all(std::accumulate(sizes.begin(), sizes.end(), size_t{0}), '\0');
  finish("MPI_Igatherv", [&](MPI_Request* r) {
    return MPI_Igatherv(s.data(), size, MPI_CHAR, all.data(), sizes.data(), begins.data(), MPI_CHAR, 0,
                        MPI_COMM_WORLD, r);
  });
  std::vector<std::string> out;
  for (size_t r = 0; r < sizes.size(); ++r) out.push_back(all.substr(begins[r], sizes[r]));
  return out;
}

void Mpi::abort(int code) const {
  if (active_) {
    // Hydra, MPICH's mpiexec, drops an aborting rank's buffered output, and with it the error message: wait
    // until it is through.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    MPI_Abort(MPI_COMM_WORLD, code);
  }
  std::_Exit(code);
}

namespace {

// MPI has no 16-bit floats: moves use 16-bit integers, sums an operator of our own.
MPI_Datatype mpi_type(DType t) {
  switch (t) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::i32:
      return MPI_INT32_T;
    case DType::bf16:
    case DType::f16:
      return MPI_UINT16_T;
  }
  throw std::logic_error("an element type that MPI does not know");
}

template <class T, T round(float)>
void add(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* x = static_cast<const T*>(in);
  auto* y = static_cast<T*>(inout);
  for (int i = 0; i < *count; ++i) y[i] = round(to_float(x[i]) + to_float(y[i]));
}

int as_int(const plan::Op& op, int64_t count) {
  if (count > std::numeric_limits<int>::max())
    throw std::runtime_error(op.path + ": more than 2^31 elements in one transfer; lower policy.bucket_mb");
  return static_cast<int>(count);
}

const std::byte* at(const void* data, int64_t element, DType t) {
  return static_cast<const std::byte*>(data) + element * size_of(t);
}

// Offset of this rank's part.
int64_t begin_of(const std::vector<int64_t>& parts, int rank) {
  return std::accumulate(parts.begin(), parts.begin() + rank, int64_t{0});
}

}  // namespace

CopyRuns copy_runs(const int32_t* offsets, int64_t experts, int rank, int size) {
  const int64_t held = experts / size;
  const auto of = [&](int r) { return offsets + r * (experts + 1); };
  for (int r = 0; r < size; ++r)
    if (of(r)[0] != 0 || !std::is_sorted(of(r), of(r) + experts + 1))
      throw std::runtime_error("offsets of experts that do not ascend: a rank's memory is corrupt");
  const auto run_of = [&](int r, int64_t e) { return CopyRun{of(r)[e], of(r)[e + 1] - of(r)[e]}; };
  CopyRuns out{.tokens = std::vector<std::vector<CopyRun>>(size),
               .experts = std::vector<std::vector<CopyRun>>(size)};
  int64_t first = 0;
  for (int64_t e = 0; e < held; ++e)
    for (int r = 0; r < size; ++r) {
      const int64_t count = run_of(r, rank * held + e).count;
      out.experts[r].push_back({first, count});
      out.tokens[r].push_back(run_of(rank, r * held + e));
      first += count;
    }
  return out;
}

int64_t experts_of(const plan::Op& all_to_all, int size) {
  return plan::in<plan::OpKind::all_to_all>(all_to_all, "offsets").count / size - 1;
}

std::vector<size_t> creation_order(const std::vector<plan::Group>& groups) {
  std::vector<size_t> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(groups[a].name, groups[a].ranks) < std::tie(groups[b].name, groups[b].ranks);
  });
  return order;
}

Comm::Comm(const std::vector<plan::Group>& groups, MPI_Comm world)
    : comms_(groups.size(), MPI_COMM_NULL), rank_(groups.size()), size_(groups.size()) {
  if (groups.empty()) return;
  const Yielding yielding;
  must(MPI_Op_create(add<bf16, to_bf16>, 1, &sum_bf16_), "MPI_Op_create");
  must(MPI_Op_create(add<f16, to_f16>, 1, &sum_f16_), "MPI_Op_create");
  MPI_Group all;
  must(MPI_Comm_group(world, &all), "MPI_Comm_group");
  for (const size_t i : creation_order(groups)) {
    const auto& ranks = groups[i].ranks;
    MPI_Group group;
    must(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &group), "MPI_Group_incl");
    // Members number their groups differently, so the tag is hashed from what they share. Tags reach to
    // 32767.
    uint32_t tag = 2166136261;
    const auto mix = [&](uint32_t x) { tag = (tag ^ x) * 16777619; };
    for (const char c : groups[i].name) mix(static_cast<unsigned char>(c));
    for (const int r : ranks) mix(static_cast<uint32_t>(r));
    must(MPI_Comm_create_group(world, group, static_cast<int>((tag >> 16 ^ tag) & 0x7fff), &comms_[i]),
         "MPI_Comm_create_group");
    MPI_Group_free(&group);
    MPI_Comm_rank(comms_[i], &rank_[i]);
    MPI_Comm_size(comms_[i], &size_[i]);
  }
  MPI_Group_free(&all);
}

Comm::~Comm() {
  const Yielding yielding;
  for (MPI_Comm& comm : comms_) MPI_Comm_free(&comm);
  for (MPI_Op* op : {&sum_bf16_, &sum_f16_})
    if (*op != MPI_OP_NULL) MPI_Op_free(op);
}

namespace {

// An op on its group's communicator
struct Posting {
  const plan::Op& op;
  const plan::TransferAttrs& a;
  MPI_Comm comm;
  int rank, size;
  const void* in;
  const Extent& counts;
  void* out;
  DType t;
  MPI_Op sum;
  Requests& requests;
};

void all_gather(const Posting& p) {
  const auto parts = plan::parts_of(p.op, p.counts.out, p.size);
  // Nonblocking calls may read these until they complete, so the request owns them.
  for (int r = 0; r < p.size; ++r) {
    p.requests.counts.push_back(as_int(p.op, parts[r]));
    p.requests.displacements.push_back(as_int(p.op, begin_of(parts, r)));
  }
  // MPI requires all ranks or none to be in place, and a rank cannot know the others: so it always is.
  std::byte* own = static_cast<std::byte*>(p.out) + begin_of(parts, p.rank) * size_of(p.t);
  if (p.in != own && parts[p.rank] > 0) std::memcpy(own, p.in, parts[p.rank] * size_of(p.t));
  must(MPI_Iallgatherv(MPI_IN_PLACE, 0, mpi_type(p.t), p.out, p.requests.counts.data(),
                       p.requests.displacements.data(), mpi_type(p.t), p.comm, p.requests.next()),
       "MPI_Iallgatherv");
}

// One reduction per part, to the rank that owns it. MPI's in-place reduce_scatter moves the result to the
// front of the buffer, and Open MPI's nonblocking one (libnbc) sums everything at rank 0.
void reduce_scatter(const Posting& p) {
  const auto parts = plan::parts_of(p.op, p.counts.in, p.size);
  int64_t begin = 0;
  for (int owner = 0; owner < p.size; begin += parts[owner++]) {
    if (parts[owner] == 0) continue;
    const void* part = at(p.in, begin, p.t);
    const bool own = owner == p.rank;
    must(MPI_Ireduce(own && part == p.out ? MPI_IN_PLACE : part, own ? p.out : nullptr,
                     as_int(p.op, parts[owner]), mpi_type(p.t), p.sum, owner, p.comm, p.requests.next()),
         "MPI_Ireduce");
  }
}

// A datatype that gathers or scatters these runs of rows: of one expert all ranks' copies are neighbours.
MPI_Datatype type_of(const plan::Op& op, const std::vector<CopyRun>& runs, DType t) {
  const int64_t width = op.as<plan::TransferAttrs>().width;
  std::vector<int> counts;
  std::vector<MPI_Aint> begins;
  for (const CopyRun& r : runs) {
    counts.push_back(as_int(op, r.count * width));
    begins.push_back(static_cast<MPI_Aint>(r.first * width * size_of(t)));
  }
  MPI_Datatype type = MPI_DATATYPE_NULL;
  must(MPI_Type_create_hindexed(static_cast<int>(runs.size()), counts.data(), begins.data(), mpi_type(t),
                                &type),
       "MPI_Type_create_hindexed");
  must(MPI_Type_commit(&type), "MPI_Type_commit");
  return type;
}

void copies_to_all(const Posting& p) {
  const CopyRuns runs = copy_runs(p.counts.offsets, experts_of(p.op, p.size), p.rank, p.size);
  Requests& to = p.requests;
  for (const auto* side : {p.a.back ? &runs.experts : &runs.tokens, p.a.back ? &runs.tokens : &runs.experts})
    for (const std::vector<CopyRun>& of_rank : *side) {
      const bool any =
          std::any_of(of_rank.begin(), of_rank.end(), [](const CopyRun& r) { return r.count > 0; });
      to.counts.push_back(any ? 1 : 0);
      to.types.push_back(type_of(p.op, of_rank, p.t));
    }
  to.displacements.assign(p.size, 0);
  must(MPI_Ialltoallw(p.in, to.counts.data(), to.displacements.data(), to.types.data(), p.out,
                      to.counts.data() + p.size, to.displacements.data(), to.types.data() + p.size, p.comm,
                      to.next()),
       "MPI_Ialltoallw");
}

void all_to_all(const Posting& p) {
  if (p.counts.offsets != nullptr) return copies_to_all(p);
  Requests& to = p.requests;
  // sent parts, then received ones; the request owns them
  for (const auto& parts :
       {plan::send_parts(p.op, p.counts.in, p.size), plan::receive_parts(p.op, p.counts.out, p.size)})
    for (int r = 0; r < p.size; ++r) {
      to.counts.push_back(as_int(p.op, parts[r]));
      to.displacements.push_back(as_int(p.op, begin_of(parts, r)));
    }
  // Open MPI's libnbc takes two equal addresses for MPI_IN_PLACE, and an empty view may begin at the other's
  // address.
  static char nothing[2];
  const void* const in = p.counts.in == 0 ? &nothing[0] : p.in;
  void* const out = p.counts.out == 0 ? &nothing[1] : p.out;
  must(MPI_Ialltoallv(in, to.counts.data(), to.displacements.data(), mpi_type(p.t), out,
                      to.counts.data() + p.size, to.displacements.data() + p.size, mpi_type(p.t), p.comm,
                      to.next()),
       "MPI_Ialltoallv");
}

void send(const Posting& p, int to) {
  must(MPI_Isend(p.in, as_int(p.op, p.counts.in), mpi_type(p.t), to, 0, p.comm, p.requests.next()),
       "MPI_Isend");
}

void receive(const Posting& p, int from) {
  must(MPI_Irecv(p.out, as_int(p.op, p.counts.out), mpi_type(p.t), from, 0, p.comm, p.requests.next()),
       "MPI_Irecv");
}

}  // namespace

Requests Comm::post(const plan::Op& op, const void* in, Extent counts, void* out, DType t) {
  const std::lock_guard lock(mutex_);
  const auto& a = op.as<plan::TransferAttrs>();
  const MPI_Op sum = t == DType::bf16 ? sum_bf16_ : t == DType::f16 ? sum_f16_ : MPI_SUM;
  Requests requests;
  const Posting p{op,  a,       comms_.at(a.group), rank_[a.group], size_[a.group], in, counts, out, t,
                  sum, requests};
  switch (op.kind) {
    case plan::OpKind::all_reduce:
      must(MPI_Iallreduce(MPI_IN_PLACE, out, as_int(op, counts.out), mpi_type(t), a.largest ? MPI_MAX : sum,
                          p.comm, requests.next()),
           "MPI_Iallreduce");
      break;
    case plan::OpKind::broadcast:
      must(MPI_Ibcast(out, as_int(op, counts.out), mpi_type(t), 0, p.comm, requests.next()), "MPI_Ibcast");
      break;
    case plan::OpKind::all_gather:
      all_gather(p);
      break;
    case plan::OpKind::reduce_scatter:
      reduce_scatter(p);
      break;
    case plan::OpKind::all_to_all:
      all_to_all(p);
      break;
    case plan::OpKind::exchange:
      // One step round the ring of the group's ranks. Between two ranks both messages have the same peer: MPI
      // keeps their order.
      receive(p, (p.rank + p.size - 1) % p.size);
      send(p, (p.rank + 1) % p.size);
      break;
    case plan::OpKind::send:
      send(p, 1);
      break;
    case plan::OpKind::recv:
      receive(p, 0);
      break;
    default:
      throw std::logic_error(op.path + " does not run over the network");
  }
  return requests;
}

bool Comm::test(Requests& requests) {
  const std::lock_guard lock(mutex_);
  int done = 0;
  must(MPI_Testall(static_cast<int>(requests.all.size()), requests.all.data(), &done, MPI_STATUSES_IGNORE),
       "MPI_Testall");
  if (done != 0)
    for (MPI_Datatype& type : requests.types)
      if (type != MPI_DATATYPE_NULL) must(MPI_Type_free(&type), "MPI_Type_free");
  return done != 0;
}

}  // namespace isobar::comm
