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

/// Completes a request that all ranks post, outside of the executor.
void finish(MPI_Request request, const char* what) {
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
  MPI_Request r;
  must(MPI_Ibarrier(MPI_COMM_WORLD, &r), "MPI_Ibarrier");
  finish(r, "MPI_Ibarrier");
}

double Mpi::max_of(double x) const {
  if (!active_) return x;
  double most = 0;
  MPI_Request r;
  must(MPI_Iallreduce(&x, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &r), "MPI_Iallreduce");
  finish(r, "MPI_Iallreduce");
  return most;
}

std::vector<double> Mpi::sum_of(std::vector<double> x) const {
  if (!active_) return x;
  MPI_Request r;
  must(MPI_Iallreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD,
                      &r),
       "MPI_Iallreduce");
  finish(r, "MPI_Iallreduce");
  return x;
}

std::string Mpi::from_first(std::string s) const {
  if (!active_) return s;
  auto n = static_cast<int64_t>(s.size());
  MPI_Request r;
  must(MPI_Ibcast(&n, 1, MPI_INT64_T, 0, MPI_COMM_WORLD, &r), "MPI_Ibcast");
  finish(r, "MPI_Ibcast");
  s.resize(n);
  must(MPI_Ibcast(s.data(), static_cast<int>(n), MPI_CHAR, 0, MPI_COMM_WORLD, &r), "MPI_Ibcast");
  finish(r, "MPI_Ibcast");
  return s;
}

std::vector<std::string> Mpi::to_first(std::string s) const {
  if (!active_) return {std::move(s)};
  const int size = static_cast<int>(s.size());
  std::vector<int> sizes(rank_ == 0 ? size_ : 0), begins(sizes.size());
  MPI_Request r;
  must(MPI_Igather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, 0, MPI_COMM_WORLD, &r), "MPI_Igather");
  finish(r, "MPI_Igather");
  std::exclusive_scan(sizes.begin(), sizes.end(), begins.begin(), 0);
  std::string all(std::accumulate(sizes.begin(), sizes.end(), size_t{0}), '\0');
  must(MPI_Igatherv(s.data(), size, MPI_CHAR, all.data(), sizes.data(), begins.data(), MPI_CHAR, 0,
                    MPI_COMM_WORLD, &r),
       "MPI_Igatherv");
  finish(r, "MPI_Igatherv");
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

void add_bf16(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* x = static_cast<const bf16*>(in);
  auto* y = static_cast<bf16*>(inout);
  for (int i = 0; i < *count; ++i) y[i] = to_bf16(to_float(x[i]) + to_float(y[i]));
}

void add_f16(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* x = static_cast<const f16*>(in);
  auto* y = static_cast<f16*>(inout);
  for (int i = 0; i < *count; ++i) y[i] = to_f16(to_float(x[i]) + to_float(y[i]));
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
  must(MPI_Op_create(add_bf16, 1, &sum_bf16_), "MPI_Op_create");
  must(MPI_Op_create(add_f16, 1, &sum_f16_), "MPI_Op_create");
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

MPI_Op Comm::sum_of(DType t) const {
  return t == DType::bf16 ? sum_bf16_ : t == DType::f16 ? sum_f16_ : MPI_SUM;
}

Requests Comm::post(const plan::Op& op, const void* in, Extent counts, void* out, DType t) {
  const std::lock_guard lock(mutex_);
  MPI_Comm comm = comms_.at(op.as<plan::TransferAttrs>().group);
  Requests requests;
  switch (op.kind) {
    case plan::OpKind::all_reduce:
      must(MPI_Iallreduce(MPI_IN_PLACE, out, as_int(op, counts.out), mpi_type(t),
                          op.as<plan::TransferAttrs>().largest ? MPI_MAX : sum_of(t), comm, requests.next()),
           "MPI_Iallreduce");
      break;
    case plan::OpKind::broadcast:
      must(MPI_Ibcast(out, as_int(op, counts.out), mpi_type(t), 0, comm, requests.next()), "MPI_Ibcast");
      break;
    case plan::OpKind::all_gather:
      all_gather(op, in, counts, out, t, requests);
      break;
    case plan::OpKind::reduce_scatter:
      reduce_scatter(op, in, counts, out, t, requests);
      break;
    case plan::OpKind::all_to_all:
      all_to_all(op, in, counts, out, t, requests);
      break;
    case plan::OpKind::exchange:
      exchange(op, in, counts, out, t, requests);
      break;
    case plan::OpKind::send:
      must(MPI_Isend(in, as_int(op, counts.in), mpi_type(t), 1, 0, comm, requests.next()), "MPI_Isend");
      break;
    case plan::OpKind::recv:
      must(MPI_Irecv(out, as_int(op, counts.out), mpi_type(t), 0, 0, comm, requests.next()), "MPI_Irecv");
      break;
    default:
      throw std::logic_error(op.path + " does not run over the network");
  }
  return requests;
}

void Comm::all_gather(const plan::Op& op, const void* in, Extent counts, void* out, DType t,
                      Requests& requests) {
  const int rank = rank_[op.as<plan::TransferAttrs>().group],
            size = size_[op.as<plan::TransferAttrs>().group];
  const auto parts = plan::parts_of(op, counts.out, size);
  // Nonblocking calls may read these until they complete, so the request owns them.
  requests.counts.resize(size);
  requests.displacements.resize(size);
  for (int r = 0; r < size; ++r) {
    requests.counts[r] = as_int(op, parts[r]);
    requests.displacements[r] = as_int(op, begin_of(parts, r));
  }
  // MPI requires all ranks or none to be in place, and a rank cannot know the others: so it always is.
  std::byte* own = static_cast<std::byte*>(out) + begin_of(parts, rank) * size_of(t);
  if (in != own && parts[rank] > 0) std::memcpy(own, in, parts[rank] * size_of(t));
  must(MPI_Iallgatherv(MPI_IN_PLACE, 0, mpi_type(t), out, requests.counts.data(),
                       requests.displacements.data(), mpi_type(t), comms_[op.as<plan::TransferAttrs>().group],
                       requests.next()),
       "MPI_Iallgatherv");
}

// One reduction per part, to the rank that owns it. MPI's in-place reduce_scatter moves the result to the
// front of the buffer, and Open MPI's nonblocking one (libnbc) sums everything at rank 0.
void Comm::reduce_scatter(const plan::Op& op, const void* in, Extent counts, void* out, DType t,
                          Requests& requests) {
  const int rank = rank_[op.as<plan::TransferAttrs>().group],
            size = size_[op.as<plan::TransferAttrs>().group];
  const auto parts = plan::parts_of(op, counts.in, size);
  int64_t begin = 0;
  for (int owner = 0; owner < size; begin += parts[owner++]) {
    if (parts[owner] == 0) continue;
    const void* part = at(in, begin, t);
    const bool in_place = owner == rank && part == out;
    must(MPI_Ireduce(in_place ? MPI_IN_PLACE : part, owner == rank ? out : nullptr, as_int(op, parts[owner]),
                     mpi_type(t), sum_of(t), owner, comms_[op.as<plan::TransferAttrs>().group],
                     requests.next()),
         "MPI_Ireduce");
  }
}

namespace {

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

}  // namespace

void Comm::copies_to_all(const plan::Op& op, const void* in, Extent counts, void* out, DType t,
                         Requests& requests) {
  const auto& a = op.as<plan::TransferAttrs>();
  const int rank = rank_[a.group], size = size_[a.group];
  const CopyRuns runs = copy_runs(counts.offsets, experts_of(op, size), rank, size);
  for (const auto* side : {a.back ? &runs.experts : &runs.tokens, a.back ? &runs.tokens : &runs.experts})
    for (const std::vector<CopyRun>& of_rank : *side) {
      const bool any =
          std::any_of(of_rank.begin(), of_rank.end(), [](const CopyRun& r) { return r.count > 0; });
      requests.counts.push_back(any ? 1 : 0);
      requests.types.push_back(type_of(op, of_rank, t));
    }
  requests.displacements.assign(size, 0);
  must(MPI_Ialltoallw(in, requests.counts.data(), requests.displacements.data(), requests.types.data(), out,
                      requests.counts.data() + size, requests.displacements.data(),
                      requests.types.data() + size, comms_[a.group], requests.next()),
       "MPI_Ialltoallw");
}

void Comm::all_to_all(const plan::Op& op, const void* in, Extent counts, void* out, DType t,
                      Requests& requests) {
  if (counts.offsets != nullptr) return copies_to_all(op, in, counts, out, t, requests);
  const int size = size_[op.as<plan::TransferAttrs>().group];
  // sent parts, then received ones; the request owns them
  for (const auto& parts : {plan::send_parts(op, counts.in, size), plan::receive_parts(op, counts.out, size)})
    for (int r = 0; r < size; ++r) {
      requests.counts.push_back(as_int(op, parts[r]));
      requests.displacements.push_back(as_int(op, begin_of(parts, r)));
    }
  // Open MPI's libnbc takes two equal addresses for MPI_IN_PLACE, and an empty view may begin at the other's
  // address.
  static char nothing[2];
  if (counts.in == 0) in = &nothing[0];
  if (counts.out == 0) out = &nothing[1];
  must(MPI_Ialltoallv(in, requests.counts.data(), requests.displacements.data(), mpi_type(t), out,
                      requests.counts.data() + size, requests.displacements.data() + size, mpi_type(t),
                      comms_[op.as<plan::TransferAttrs>().group], requests.next()),
       "MPI_Ialltoallv");
}

// One step round the ring of the group's ranks. Between two ranks both messages have the same peer: MPI keeps
// their order.
void Comm::exchange(const plan::Op& op, const void* in, Extent counts, void* out, DType t,
                    Requests& requests) {
  const int rank = rank_[op.as<plan::TransferAttrs>().group],
            size = size_[op.as<plan::TransferAttrs>().group];
  MPI_Comm comm = comms_[op.as<plan::TransferAttrs>().group];
  must(
      MPI_Irecv(out, as_int(op, counts.out), mpi_type(t), (rank + size - 1) % size, 0, comm, requests.next()),
      "MPI_Irecv");
  must(MPI_Isend(in, as_int(op, counts.in), mpi_type(t), (rank + 1) % size, 0, comm, requests.next()),
       "MPI_Isend");
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
