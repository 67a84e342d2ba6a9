// The metadata of an archive that follows the CF conventions, in any format: named dimensions, variables with
// attributes, and their arrays. One implementation for each format.
//
//   for (const CfVariable& v : file.variables()) … file.text(v, "units") …
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/data/cf/cf_axes.h"
#include "model/data/fields/chunk_cache.h"
#include "model/data/files/raw_array.h"

namespace isobar::data {

struct CfDimension {
  std::string name;
  int64_t size;
};

struct CfVariable {
  int id = -1;
  std::string name;
  Index dims;  // indices into dimensions()
  bool numeric = true;
  std::string type;  // of a variable that is not numeric: its type, for messages
  Element element = Element::f32;
  bool dates = false;     // NumPy's datetime64, which is never a field
  bool has_fill = false;  // _FillValue, or the type's default fill value where the file was pre-filled
  double fill = 0;
  bool fill_of_store =
      false;  // `fill` is Zarr 2's fill_value for absent chunks; often 0, which is a valid coordinate
};

struct CfGroup {  // a group below the one that is read
  std::string name;
  std::vector<std::string> variables;
};

class CfFile {
 public:
  virtual ~CfFile() = default;
  virtual std::string format() const = 0;  // "netCDF-4", "Zarr 3"
  const std::vector<CfDimension>& dimensions() const { return dimensions_; }
  const std::vector<CfVariable>& variables() const { return variables_; }
  const std::vector<CfGroup>& groups() const { return groups_; }
  const CfVariable* find(const std::string& name) const;  // null when absent

  /// "" when the attribute is absent or not text.
  virtual std::string text(const CfVariable& v, const std::string& attribute) const = 0;
  /// {} when absent. Throws ArrayError for text, and for more than `at_most` numbers.
  virtual std::vector<double> numbers(const CfVariable& v, const std::string& attribute,
                                      size_t at_most) const = 0;
  std::optional<double> number(const CfVariable& v, const std::string& attribute) const;  // one value
  /// The type of an attribute's numbers; none when it is absent or not numeric. In JSON the types are i64 and
  /// f64.
  virtual std::optional<Element> type_of(const CfVariable& v, const std::string& attribute) const = 0;
  virtual std::vector<double> values(const CfVariable& v) const = 0;  // the whole variable, as stored
  /// Throws ArrayError when a variable declares more data than the file can hold.
  virtual void require_held(const CfVariable& v) const = 0;
  /// The variable's data, readable by many threads; throws ArrayError. The first call may close the file,
  /// after which attributes are no longer available.
  virtual std::unique_ptr<RawArray> array(const CfVariable& v, const std::shared_ptr<ChunkCache>& cache) = 0;

 protected:
  [[noreturn]] static void refuse_numbers(const std::string& variable, const std::string& attribute,
                                          const std::string& what, size_t at_most);
  Index sizes_of(const CfVariable& v) const;
  std::vector<CfDimension> dimensions_;
  std::vector<CfVariable> variables_;
  std::vector<CfGroup> groups_;
};

/// Opens an archive of any of these formats. Throws ArrayError.
std::unique_ptr<CfFile> open_cf_file(const std::string& path);
std::unique_ptr<CfFile> open_zarr_file(const std::string& path);  // a group, also in a zip
std::unique_ptr<CfFile> open_npz_file(const std::string& path);
std::unique_ptr<CfFile> open_grib_file(const std::string& path);
bool is_grib(const std::string& path);

/// The attributes that describe a variable as a coordinate.
CfCoordinate about(const CfFile& file, const CfVariable& v);

/// The coordinate variable of a dimension: the one of the same name, else a one-dimensional variable along it
/// whose attributes make it an axis. Null when there is none.
const CfVariable* coordinate_variable(const CfFile& file, int64_t dimension);

/// The axis type of a dimension, from the attributes of its coordinate variable or from its name.
CfAxis axis_of(const CfFile& file, int64_t dimension);

/// All values of a variable, unpacked, with NaN for missing ones.
std::vector<double> decoded(const CfFile& file, const CfVariable& v);

/// The decoded values of the coordinate variable, or 0, 1, 2 … when there is none.
std::vector<double> coordinate_of(const CfFile& file, int64_t dimension);

/// Packing and missing values of a variable, from its attributes (CF conventions, chapters 2.5 and 8.1).
/// Throws ArrayError.
Packing packing_of(const CfFile& file, const CfVariable& v);

}  // namespace isobar::data
