#pragma once
#include <string.h>

#include <string>

namespace isobar {

/// "SIGSEGV" for 11.
inline std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

}  // namespace isobar
