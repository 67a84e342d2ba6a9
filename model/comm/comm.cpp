#include "model/comm/comm.h"

#include <cstdlib>
#include <limits>
#include <stdexcept>

namespace isobar {
namespace {

void must(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int n = 0;
  MPI_Error_string(code, text, &n);
  throw std::runtime_error(std::string(what) + ": " + std::string(text, n));
}

}  // namespace

bool Mpi::started_by_launcher() {
  for (const char* name :
       {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "PALS_SIZE"})
    if (std::getenv(name)) return true;
  return false;
}

namespace {

MPI_Datatype mpi_type(DType t) {
  switch (t) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::i32:
      return MPI_INT32_T;
    default:
      throw std::logic_error("MPI sums 16-bit floats as bytes; reduce in f32");
  }
}

}  // namespace

Mpi::Mpi() {
  if (!started_by_launcher()) return;
  int provided = 0;
  must(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  active_ = true;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  if (provided < MPI_THREAD_SERIALIZED)
    throw std::runtime_error("this MPI offers no threads; use one built with MPI_THREAD_MULTIPLE");
  MPI_Comm host;
  must(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host),
       "MPI_Comm_split_type");
  MPI_Comm_size(host, &on_host_);
  MPI_Comm_free(&host);
}

Mpi::~Mpi() {
  if (active_) MPI_Finalize();
}

std::string Mpi::version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int n = 0;
  MPI_Get_library_version(text, &n);
  const std::string s(text, n);
  return s.substr(0, s.find(','));
}

void Mpi::barrier() const {
  if (active_) MPI_Barrier(MPI_COMM_WORLD);
}

double Mpi::max_of(double x) const {
  if (active_) must(MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
  return x;
}

std::vector<double> Mpi::sum_of(std::vector<double> x) const {
  if (active_)
    must(MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()), MPI_DOUBLE, MPI_SUM,
                       MPI_COMM_WORLD),
         "MPI_Allreduce");
  return x;
}

std::string Mpi::from_first(std::string s) const {
  if (!active_) return s;
  int64_t n = static_cast<int64_t>(s.size());
  must(MPI_Bcast(&n, 1, MPI_INT64_T, 0, MPI_COMM_WORLD), "MPI_Bcast");
  s.resize(n);
  must(MPI_Bcast(s.data(), static_cast<int>(n), MPI_CHAR, 0, MPI_COMM_WORLD), "MPI_Bcast");
  return s;
}

void Mpi::abort(int code) const {
  if (active_) MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

Comm::Comm(const std::vector<Group>& groups) {
  if (groups.empty()) return;
  MPI_Group world;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  for (size_t i = 0; i < groups.size(); ++i) {
    MPI_Group group;
    MPI_Comm comm;
    const auto& ranks = groups[i].ranks;
    must(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group), "MPI_Group_incl");
    must(MPI_Comm_create_group(MPI_COMM_WORLD, group, static_cast<int>(i), &comm), "MPI_Comm_create_group");
    MPI_Group_free(&group);
    comms_.push_back(comm);
  }
  MPI_Group_free(&world);
}

Comm::~Comm() {
  for (MPI_Comm& comm : comms_) MPI_Comm_free(&comm);
}

MPI_Request Comm::post(const Op& op, void* data, int64_t count, DType t) {
  if (count > std::numeric_limits<int>::max())
    throw std::runtime_error(op.path + ": more than 2^31 elements in one collective; lower policy.bucket_mb");
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm comm = comms_.at(op.a.group);
  const int n = static_cast<int>(count);
  bytes_ += count * size_of(t);
  switch (op.kind) {
    case OpKind::all_reduce:
      must(MPI_Iallreduce(MPI_IN_PLACE, data, n, mpi_type(t), MPI_SUM, comm, &request), "MPI_Iallreduce");
      break;
    case OpKind::broadcast:
      must(MPI_Ibcast(data, n, mpi_type(t), 0, comm, &request), "MPI_Ibcast");
      break;
    default:
      throw std::logic_error(op.path + " is not a collective");
  }
  return request;
}

bool Comm::test(MPI_Request& request) {
  int done = 0;
  must(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

void Comm::wait(MPI_Request& request) {
  must(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
}

}  // namespace isobar
