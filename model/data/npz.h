// NumPy's .npz: a zip of .npy files, stored (numpy.savez) or deflated (numpy.savez_compressed); written
// stored.
//
//   NpzFile file("patterns.npz", "data.train");
//   file.names();                                      // sst, tair
//   file.read("sst").values;                           // as npy.h reads them
//   NpzOutput out("forecast.npz");
//   out.add("sst", npy_bytes("<f4", {rows}, bytes));   …   out.finish();
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "model/data/npy.h"

struct zip;

namespace isobar {

class NpzFile {
 public:
  NpzFile(std::string path, std::string key);  // throws ConfigError
  ~NpzFile();
  NpzFile(const NpzFile&) = delete;
  NpzFile& operator=(const NpzFile&) = delete;
  /// Of its arrays, in the order of the file, each once.
  std::vector<std::string> names() const;
  bool has(const std::string& name) const;
  /// Throws ConfigError: damaged, encrypted, of more than 1 GiB, or what npy.h refuses.
  NpyArray read(const std::string& name) const;

 private:
  int64_t entry_of(const std::string& name) const;  // -1: there is none
  std::string path_, key_;
  zip* zip_ = nullptr;
};

/// A file that appears under its name when it is complete. Throws ConfigError where it cannot be written.
class NpzOutput {
 public:
  explicit NpzOutput(std::string path);
  ~NpzOutput();  // without finish(): nothing is left
  NpzOutput(const NpzOutput&) = delete;
  NpzOutput& operator=(const NpzOutput&) = delete;
  void add(const std::string& name, std::string npy);  // kept until finish()
  void finish();

 private:
  [[noreturn]] void fail(const std::string& why) const;
  std::string path_, part_;
  std::vector<std::pair<std::string, std::string>> members_;
};

}  // namespace isobar
