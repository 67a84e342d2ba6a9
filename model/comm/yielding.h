// Makes Open MPI yield inside blocking collective calls that cannot be polled (pause.h): MPI_Init, creating
// and freeing communicators, MPI_Finalize. They take several rounds, and ranks that share cores would
// otherwise wait in each round until the kernel preempts a polling rank.
//
//   const Yielding yielding;
//   must(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
#pragma once
#include <dlfcn.h>

#include <cstdlib>

namespace isobar::comm {

class Yielding {
 public:
  Yielding() : before_(set(true)) {}
  ~Yielding() { set(before_); }
  Yielding(const Yielding&) = delete;
  Yielding& operator=(const Yielding&) = delete;

  /// Runs MPI_Init, where Open MPI reads the variable. A user's own setting stays for the whole run.
  template <class Begin>
  static void during_init(Begin begin) {
    constexpr const char* kVariable = "OMPI_MCA_mpi_yield_when_idle";
    const bool chosen = std::getenv(kVariable);
    if (!chosen) ::setenv(kVariable, "1", 0);
    begin();
    if (!chosen) set(false);
  }

 private:
  // Returns the old value. MPI has no API for it; MPICH yields by default.
  static bool set(bool yield) {
    using Set = bool (*)(bool);
    static const auto of_open_mpi =
        reinterpret_cast<Set>(dlsym(RTLD_DEFAULT, "opal_progress_set_yield_when_idle"));
    return of_open_mpi && of_open_mpi(yield);
  }

  bool before_;
};

}  // namespace isobar::comm
