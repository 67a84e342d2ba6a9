// A shared library that is opened when it is first needed. CUDA's libraries are large and may be absent where
// a build runs, so the program links to none of them and asks for their functions by name:
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
  /// Searched as the loader does, then in the toolkit that the program was built with. Throws
  /// std::runtime_error saying what is missing and what needs it.
  explicit Library(const std::string& name);
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  // Never closed: what these libraries start (threads, device modules) outlives any one user.

  template <class F>
  F function(const char* name) const {
    return reinterpret_cast<F>(address(name));
  }
  void* handle() const { return handle_; }  // of dlopen

 private:
  void* address(const char* name) const;  // throws if the library has none of that name
  std::string name_;
  void* handle_;
};

}  // namespace isobar::cuda
