// Records every MPI communication of a program through MPI's profiling interface. Preloaded, it logs each
// call of the unchanged command and forwards it to the library.
//
//   LD_PRELOAD=build/libmpi_counter.so ISOBAR_MPI_CALLS=DIR isobar train … --ranks 4
//
// leaves DIR/rank<r>, one line a thing, bytes throughout:
//   comm 3 0 2                            communicator 3 was made of world ranks 0 and 2
//   call 3 MPI_Iallreduce 32768           … and used
//   call 0 MPI_Ibarrier                   0 is the world
//   call host MPI_Allgather 128           among the ranks of one host; beats: the watchdog's
// Calls that are neither counted here nor named in wire_test.cpp make that test fail: nothing gets by unseen.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

namespace {

std::mutex mutex;
std::string lines;
std::map<MPI_Comm, int> ids = {{MPI_COMM_WORLD, 0}};  // MPI_Comm_free recycles handles
// Names of special communicators: beats (the watchdog's, the only duplicate of the world), host (ranks that
// share memory)
std::map<MPI_Comm, std::string> named;
int made = 0;

std::string bytes(long long count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return " " + std::to_string(count * size);
}

std::string bytes(const int* counts, MPI_Datatype type, MPI_Comm comm) {
  int members = 0;
  PMPI_Comm_size(comm, &members);
  std::string out;
  for (int r = 0; r < members; ++r) out += bytes(counts[r], type);
  return out;
}

void saw(MPI_Comm comm, const std::string& call) {
  const std::lock_guard lock(mutex);
  const auto id = ids.find(comm);
  const auto other = named.find(comm);
  const std::string name = other != named.end() ? other->second
                           : id == ids.end()    ? "unknown"
                                                : std::to_string(id->second);
  lines += "call " + name + " " + call + "\n";
}

void saw_new(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return;
  MPI_Group group, all;
  PMPI_Comm_group(comm, &group);
  PMPI_Comm_group(MPI_COMM_WORLD, &all);
  int members = 0;
  PMPI_Group_size(group, &members);
  const std::lock_guard lock(mutex);
  ids[comm] = ++made;
  lines += "comm " + std::to_string(made);
  for (int r = 0; r < members; ++r) {
    int in_world = 0;
    PMPI_Group_translate_ranks(group, 1, &r, all, &in_world);
    lines += " " + std::to_string(in_world);
  }
  lines += "\n";
  PMPI_Group_free(&group);
  PMPI_Group_free(&all);
}

}  // namespace

extern "C" {

int MPI_Comm_create_group(MPI_Comm of, MPI_Group group, int tag, MPI_Comm* comm) {
  saw(of, "MPI_Comm_create_group");
  const int code = PMPI_Comm_create_group(of, group, tag, comm);
  saw_new(*comm);
  return code;
}

int MPI_Comm_split_type(MPI_Comm of, int type, int key, MPI_Info info, MPI_Comm* comm) {
  saw(of, "MPI_Comm_split_type");
  const int code = PMPI_Comm_split_type(of, type, key, info, comm);
  const std::lock_guard lock(mutex);
  named[*comm] = "host";
  return code;
}

int MPI_Comm_dup(MPI_Comm of, MPI_Comm* comm) {
  saw(of, "MPI_Comm_dup");
  const int code = PMPI_Comm_dup(of, comm);
  const std::lock_guard lock(mutex);
  named[*comm] = "beats";
  return code;
}

int MPI_Comm_free(MPI_Comm* comm) {
  {
    const std::lock_guard lock(mutex);
    ids.erase(*comm);
    named.erase(*comm);
  }
  return PMPI_Comm_free(comm);
}

int MPI_Barrier(MPI_Comm comm) {
  saw(comm, "MPI_Barrier");
  return PMPI_Barrier(comm);
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request* r) {
  saw(comm, "MPI_Ibarrier");
  return PMPI_Ibarrier(comm, r);
}

int MPI_Gather(const void* in, int n, MPI_Datatype t, void* out, int each, MPI_Datatype of, int root,
               MPI_Comm comm) {
  saw(comm, "MPI_Gather root " + std::to_string(root) + bytes(n, t));
  return PMPI_Gather(in, n, t, out, each, of, root, comm);
}

int MPI_Allgather(const void* in, int n, MPI_Datatype t, void* out, int each, MPI_Datatype of,
                  MPI_Comm comm) {
  saw(comm, "MPI_Allgather" + bytes(n, t));
  return PMPI_Allgather(in, n, t, out, each, of, comm);
}

int MPI_Igather(const void* in, int n, MPI_Datatype t, void* out, int each, MPI_Datatype of, int root,
                MPI_Comm comm, MPI_Request* r) {
  saw(comm, "MPI_Igather root " + std::to_string(root) + bytes(n, t));
  return PMPI_Igather(in, n, t, out, each, of, root, comm, r);
}

int MPI_Igatherv(const void* in, int n, MPI_Datatype t, void* out, const int* counts, const int* begins,
                 MPI_Datatype of, int root, MPI_Comm comm, MPI_Request* r) {
  saw(comm, "MPI_Igatherv root " + std::to_string(root) + bytes(n, t));
  return PMPI_Igatherv(in, n, t, out, counts, begins, of, root, comm, r);
}

int MPI_Sendrecv(const void* in, int n, MPI_Datatype t, int to, int tag, void* out, int most, MPI_Datatype of,
                 int from, int received, MPI_Comm comm, MPI_Status* status) {
  saw(comm, "MPI_Sendrecv" + bytes(n, t));
  return PMPI_Sendrecv(in, n, t, to, tag, out, most, of, from, received, comm, status);
}

int MPI_Iallreduce(const void* in, void* out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm,
                   MPI_Request* r) {
  saw(comm, "MPI_Iallreduce" + bytes(n, t));
  return PMPI_Iallreduce(in, out, n, t, op, comm, r);
}

int MPI_Ireduce(const void* in, void* out, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm comm,
                MPI_Request* r) {
  saw(comm, "MPI_Ireduce root " + std::to_string(root) + bytes(n, t));
  return PMPI_Ireduce(in, out, n, t, op, root, comm, r);
}

int MPI_Ibcast(void* x, int n, MPI_Datatype t, int root, MPI_Comm comm, MPI_Request* r) {
  saw(comm, "MPI_Ibcast root " + std::to_string(root) + bytes(n, t));
  return PMPI_Ibcast(x, n, t, root, comm, r);
}

int MPI_Iallgatherv(const void* in, int n, MPI_Datatype t, void* out, const int* counts, const int* at,
                    MPI_Datatype to, MPI_Comm comm, MPI_Request* r) {
  saw(comm, "MPI_Iallgatherv" + bytes(counts, to, comm));
  return PMPI_Iallgatherv(in, n, t, out, counts, at, to, comm, r);
}

int MPI_Ialltoallv(const void* in, const int* send, const int* from, MPI_Datatype t, void* out,
                   const int* receive, const int* at, MPI_Datatype to, MPI_Comm comm, MPI_Request* r) {
  saw(comm, "MPI_Ialltoallv" + bytes(send, t, comm) + " from" + bytes(receive, to, comm));
  return PMPI_Ialltoallv(in, send, from, t, out, receive, at, to, comm, r);
}

// Parts are data, each of a type of its own
int MPI_Ialltoallw(const void* in, const int* send, const int* from, const MPI_Datatype* t, void* out,
                   const int* receive, const int* at, const MPI_Datatype* to, MPI_Comm comm, MPI_Request* r) {
  int members = 0;
  PMPI_Comm_size(comm, &members);
  std::string sent, received;
  for (int i = 0; i < members; ++i) sent += bytes(send[i], t[i]), received += bytes(receive[i], to[i]);
  saw(comm, "MPI_Ialltoallw" + sent + " from" + received);
  return PMPI_Ialltoallw(in, send, from, t, out, receive, at, to, comm, r);
}

int MPI_Isend(const void* x, int n, MPI_Datatype t, int to, int tag, MPI_Comm comm, MPI_Request* r) {
  saw(comm, "MPI_Isend to " + std::to_string(to) + bytes(n, t));
  return PMPI_Isend(x, n, t, to, tag, comm, r);
}

int MPI_Irecv(void* x, int n, MPI_Datatype t, int from, int tag, MPI_Comm comm, MPI_Request* r) {
  saw(comm, "MPI_Irecv from " + std::to_string(from) + bytes(n, t));
  return PMPI_Irecv(x, n, t, from, tag, comm, r);
}

int MPI_Finalize() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int code = PMPI_Finalize();
  if (const char* folder = std::getenv("ISOBAR_MPI_CALLS")) {
    const std::string path = std::string(folder) + "/rank" + std::to_string(rank);
    std::FILE* out = std::fopen(path.c_str(), "w");
    const bool written = out && std::fwrite(lines.data(), 1, lines.size(), out) == lines.size();
    if (!out || std::fclose(out) != 0 || !written) {
      std::fprintf(stderr, "mpi_counter: cannot write %s\n", path.c_str());
      std::abort();
    }
  }
  return code;
}

}  // extern "C"
