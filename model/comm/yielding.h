// What MPI does within one call until all members are through it: MPI_Init, making and freeing communicators,
// MPI_Finalize. Such a call takes several rounds, has no form that can be asked and left (pause.h), and Open
// MPI asks on between the rounds: where ranks share cores, each round waits until the kernel takes the core
// from those that ask. So they yield there. Eight ranks on two cores begin in 0.9 s for 1.7, and in 1.1 s of
// the processors for 2.7.
//
//   const Yielding yielding;
//   must(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
#pragma once
#include <dlfcn.h>

#include <cstdlib>

namespace isobar {

class Yielding {
 public:
  Yielding() : before_(set(true)) {}
  ~Yielding() { set(before_); }
  Yielding(const Yielding&) = delete;
  Yielding& operator=(const Yielding&) = delete;

  /// Of MPI_Init: Open MPI reads the variable there. What a user has set in it is what steps do.
  template <class Begin>
  static void while_beginning(Begin begin) {
    constexpr const char* kVariable = "OMPI_MCA_mpi_yield_when_idle";
    const bool chosen = std::getenv(kVariable);
    if (!chosen) ::setenv(kVariable, "1", 0);
    begin();
    if (!chosen) set(false);
  }

 private:
  // MPI has no name for it; MPICH yields by itself. What it was.
  static bool set(bool yield) {
    using Set = bool (*)(bool);
    static const auto of_open_mpi =
        reinterpret_cast<Set>(dlsym(RTLD_DEFAULT, "opal_progress_set_yield_when_idle"));
    return of_open_mpi && of_open_mpi(yield);
  }

  bool before_;
};

}  // namespace isobar
