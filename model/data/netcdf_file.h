// The metadata of a netCDF file (classic or netCDF-4), read by the netCDF library behind the library lock.
//
//   NetcdfFile file("era5.nc");            // throws ArrayError
//   for (const auto& v : file.variables()) …
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/data/element.h"
#include "model/data/raw_array.h"

namespace isobar {

struct NetcdfDimension {
  std::string name;
  int64_t size;
};

struct NetcdfVariable {
  int id = -1;
  std::string name;
  Index dims;  // dimension ids
  bool numeric = true;
  Element element = Element::f32;
  bool has_fill = false;  // _FillValue, or the type's default fill value where the file was pre-filled
  double fill = 0;
};

class NetcdfFile {
 public:
  explicit NetcdfFile(const std::string& path);
  ~NetcdfFile();
  NetcdfFile(const NetcdfFile&) = delete;
  NetcdfFile& operator=(const NetcdfFile&) = delete;

  bool is_hdf5() const { return hdf5_; }
  const std::vector<NetcdfDimension>& dimensions() const { return dimensions_; }
  const std::vector<NetcdfVariable>& variables() const { return variables_; }
  const NetcdfVariable* find(const std::string& name) const;  // null when absent

  /// "" when absent or no text.
  std::string text(const NetcdfVariable& v, const std::string& attribute) const;
  /// {} when absent. Throws ArrayError for text, and for more than `at_most` numbers.
  std::vector<double> numbers(const NetcdfVariable& v, const std::string& attribute, size_t at_most) const;
  std::optional<double> number(const NetcdfVariable& v, const std::string& attribute) const;  // one alone
  std::vector<double> values(const NetcdfVariable& v) const;  // the whole variable, as stored
  std::vector<double> values_at(const NetcdfVariable& v, int64_t step) const;  // of its first dimension
  /// Throws ArrayError where a variable declares more than the file can hold.
  void require_held(const NetcdfVariable& v) const;

 private:
  void check(int rc, const std::string& doing) const;
  void read_metadata();
  std::string path_;
  int id_ = -1;
  bool hdf5_ = false;
  int64_t file_bytes_ = 0;
  std::vector<NetcdfDimension> dimensions_;
  std::vector<NetcdfVariable> variables_;
};

/// How the values of a variable are packed and which are missing, by its attributes (CF conventions, chapters
/// 2.5 and 8.1). Throws ArrayError.
Packing packing_of(const NetcdfFile& file, const NetcdfVariable& v);

}  // namespace isobar
