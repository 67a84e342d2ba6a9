// A shared library that is opened on first use. CUDA's libraries are large and may be absent at run time, so
// the program links to none of them and looks up their functions by name:
//
//   struct CublasLt {
//     Library lib{"libcublasLt.so.13"};
//     decltype(&cublasLtMatmul) matmul = lib.function<decltype(&cublasLtMatmul)>("cublasLtMatmul");
//   };
#pragma once
#include <string>

namespace isobar::cuda {

class Library {
 public:
  /// Searched like the loader does, then in the build's toolkit. Throws std::runtime_error with what is
  /// missing and what needs it.
  explicit Library(const std::string& name);
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  // Never closed: these libraries' threads and device modules outlive any user.

  template <class F>
  F function(const char* name) const {
    return reinterpret_cast<F>(address(name));
  }
  void* handle() const { return handle_; }  // of dlopen

 private:
  void* address(const char* name) const;  // throws if the library lacks it
  std::string name_;
  void* handle_;
};

}  // namespace isobar::cuda
