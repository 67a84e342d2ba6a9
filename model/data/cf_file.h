// The metadata of an archive that follows the CF conventions, whatever its format: named dimensions,
// variables on them with attributes, and their arrays. Four implementations: NetcdfFile, ZarrFile, NpzFields
// and GribFields.
//
//   for (const CfVariable& v : file.variables()) … file.text(v, "units") …
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/data/cf_axes.h"
#include "model/data/chunk_cache.h"
#include "model/data/raw_array.h"

namespace isobar {

struct CfDimension {
  std::string name;
  int64_t size;
};

struct CfVariable {
  int id = -1;
  std::string name;
  Index dims;  // numbers of dimensions
  bool numeric = true;
  std::string type;  // where it is not: what it holds instead of numbers, for people
  Element element = Element::f32;
  bool dates = false;     // numpy's datetime64: a coordinate, no field
  bool has_fill = false;  // _FillValue, or the type's default fill value where the file was pre-filled
  double fill = 0;
  bool fill_of_store =
      false;  // Zarr 2's, of chunks that are not there: 0 in most, and a number among coordinates
};

struct CfGroup {  // below the one that is read
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

  /// "" when absent or no text.
  virtual std::string text(const CfVariable& v, const std::string& attribute) const = 0;
  /// {} when absent. Throws ArrayError for text, and for more than `at_most` numbers.
  virtual std::vector<double> numbers(const CfVariable& v, const std::string& attribute,
                                      size_t at_most) const = 0;
  std::optional<double> number(const CfVariable& v, const std::string& attribute) const;  // one alone
  /// The type of an attribute's numbers; none when it is absent or holds none. JSON knows i64 and f64.
  virtual std::optional<Element> type_of(const CfVariable& v, const std::string& attribute) const = 0;
  virtual std::vector<double> values(const CfVariable& v) const = 0;  // the whole variable, as stored
  /// Throws ArrayError where a variable declares more than the file can hold.
  virtual void require_held(const CfVariable& v) const = 0;
  /// Its numbers, read by many threads. What is left of metadata afterwards are dimensions and variables: the
  /// first call may close the file. Throws ArrayError.
  virtual std::unique_ptr<RawArray> array(const CfVariable& v, const std::shared_ptr<ChunkCache>& cache) = 0;

 protected:
  [[noreturn]] static void refuse_numbers(const std::string& variable, const std::string& attribute,
                                          const std::string& what, size_t at_most);
  Index sizes_of(const CfVariable& v) const;
  std::vector<CfDimension> dimensions_;
  std::vector<CfVariable> variables_;
  std::vector<CfGroup> groups_;
};

/// Of whichever kind it is. Throws ArrayError.
std::unique_ptr<CfFile> open_cf_file(const std::string& path);

/// What its attributes say of a variable as a coordinate.
CfCoordinate about(const CfFile& file, const CfVariable& v);

/// The variable that says where the points of a dimension lie: that of its name, else one along it alone that
/// is an axis by its attributes; null: there is none.
const CfVariable* coordinate_variable(const CfFile& file, int64_t dimension);

/// Which axis a dimension is, by the attributes of that variable, or by its name.
CfAxis axis_of(const CfFile& file, int64_t dimension);

/// All values of a variable as a reader of fields has them: unpacked, NaN where they are missing.
std::vector<double> decoded(const CfFile& file, const CfVariable& v);

/// The decoded values of that variable, or 0, 1, 2 … where there is none.
std::vector<double> coordinate_of(const CfFile& file, int64_t dimension);

/// How the values of a variable are packed and which are missing, by its attributes (CF conventions, chapters
/// 2.5 and 8.1). Throws ArrayError.
Packing packing_of(const CfFile& file, const CfVariable& v);

}  // namespace isobar
