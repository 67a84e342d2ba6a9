#include "model/backend/cuda/runtime/library.h"

#include <dlfcn.h>

#include <stdexcept>

namespace isobar::cuda {

Library::Library(const std::string& name)
    : name_(name), handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
  if (handle_) return;
  const std::string why = dlerror();
  const std::string beside = std::string(ISOBAR_CUDA_LIBRARY_DIR) + "/" + name;
  handle_ = dlopen(beside.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!handle_)
    throw std::runtime_error("running on a GPU needs " + name + ": " + why +
                             "; install it, or put its directory in LD_LIBRARY_PATH");
}

void* Library::address(const char* name) const {
  void* found = dlsym(handle_, name);
  if (!found) throw std::runtime_error(name_ + " has no " + name + ": another version is needed");
  return found;
}

}  // namespace isobar::cuda
