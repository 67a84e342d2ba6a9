// One line and an exit code where nothing else gets to say any: an exception that leaves a thread, a library
// that aborts where memory has run out. The C++ library and MPI would print stacks.
//
//   tell_of_ends();          // early in main()
#pragma once
#include <filesystem>
#include <string>
#include <system_error>

namespace isobar::cli {

/// std::terminate, and SIGABRT, SIGSEGV and SIGBUS where no memory is left, end the process with one line on
/// standard error: exit code 4 where memory was short, else 1 (signals: what they were before).
void tell_of_ends();

/// "out of memory on the host: 812 MB of 1024 MB allowed (ulimit -v) are taken -> …"
std::string out_of_memory_text();

/// "PATH: File name too long -> …"
std::string path_error_text(const std::filesystem::filesystem_error& e);

/// True for errors that mean too little memory; a thread that cannot start reports EAGAIN.
bool is_of_memory(const std::error_code& code);

}  // namespace isobar::cli
