// isobar.h for C++, with RAII handles and exceptions.
//
//   isobar::Net net("runs/emulator", {.threads = 1, .batch = 4096});
//   net.run(n, in, out);          // throws isobar::Error with isobar_last_error()'s text
#pragma once
#include <memory>
#include <stdexcept>
#include <string>

#include "isobar/isobar.h"

namespace isobar {

class Error : public std::runtime_error {
 public:
  Error(int code, const std::string& what) : std::runtime_error(what), code_(code) {}
  int code() const { return code_; }  // ISOBAR_FAILED …

 private:
  int code_;
};

class Net {
 public:
  explicit Net(const std::string& checkpoint, isobar_options options = {0, 0}) {
    isobar_net* net = nullptr;
    check(isobar_open(checkpoint.c_str(), &options, &net));
    net_.reset(net);
  }
  isobar_shape input() const { return isobar_input_shape(net_.get()); }
  isobar_shape output() const { return isobar_output_shape(net_.get()); }
  /// The channel must exist
  std::string input_name(int64_t channel) const { return isobar_input_name(net_.get(), channel); }
  std::string output_name(int64_t channel) const { return isobar_output_name(net_.get(), channel); }
  void run(int64_t n, const float* in, float* out) { check(isobar_run(net_.get(), n, in, out)); }
  /// [rows, inputs] for the outputs `which`, counted from 0
  void jacobian(const float* in, int64_t rows, const int64_t* which, float* out) {
    check(isobar_jacobian(net_.get(), in, rows, which, out));
  }
  isobar_net* handle() { return net_.get(); }

 private:
  static void check(int code) {
    if (code != ISOBAR_OK) throw Error(code, isobar_last_error());
  }
  struct Close {
    void operator()(isobar_net* net) const { isobar_close(net); }
  };
  std::unique_ptr<isobar_net, Close> net_;
};

}  // namespace isobar
