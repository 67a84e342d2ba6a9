// NumPy's .npz: a zip of .npy files, stored (numpy.savez) or deflated (numpy.savez_compressed). Writes them
// stored.
//
//   NpzFile file("patterns.npz", "data.train");
//   file.names();                                      // sst, tair
//   file.read("sst").values;                           // as doubles
//   NpzOutput out("forecast.npz");
//   out.add("sst", npy_bytes("<f4", {rows}, bytes));   …   out.finish();
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "model/data/files/npy.h"

struct zip;

namespace isobar::data {

class NpzFile {
 public:
  NpzFile(std::string path, std::string key);  // throws ConfigError
  ~NpzFile();
  NpzFile(const NpzFile&) = delete;
  NpzFile& operator=(const NpzFile&) = delete;
  /// Names of the arrays in file order, without duplicates.
  std::vector<std::string> names() const;
  bool has(const std::string& name) const;
  /// Throws ConfigError: damaged, encrypted, more than 1 GiB, or refused by npy.h.
  NpyArray read(const std::string& name) const;

 private:
  int64_t entry_of(const std::string& name) const;  // -1: none
  std::string path_, key_;
  zip* zip_ = nullptr;
};

/// Writes a file under a temporary name until it is complete. Throws ConfigError when it cannot be written.
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

}  // namespace isobar::data
