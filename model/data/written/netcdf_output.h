// Writes a netCDF file under a temporary name until it is complete; every error of the library becomes a
// ConfigError that names the file.
//
//   NetcdfOutput out("ocean.nc");                        // writes ocean.nc.part
//   const int lat = out.dimension("lat", 32);
//   const int sst = out.variable("sst", NC_SHORT, {lat});
//   out.text(sst, "units", "degC");
//   out.coordinate("latitude", lat, "degrees_north", degrees, "latitude");
//   out.end_header();   …   out.finish();
//
// The constructor, finish() and the destructor take the library lock (library_lock.h); between them the
// caller holds it.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace isobar::data {

class NetcdfOutput {
 public:
  /// `classic`: netCDF-3 with 64-bit offsets, else netCDF-4.
  explicit NetcdfOutput(std::string path, bool classic = false);
  ~NetcdfOutput();  // without finish(): removes the unfinished file
  NetcdfOutput(const NetcdfOutput&) = delete;
  NetcdfOutput& operator=(const NetcdfOutput&) = delete;

  int id() const { return file_; }
  void check(int rc, const std::string& doing) const;
  int dimension(const std::string& name, int64_t size);
  int variable(const std::string& name, int type, const std::vector<int>& dimensions);
  void text(int variable, const std::string& attribute, const std::string& value);
  void fill_value(int variable, float missing);
  /// Classes 0, 1, 2 …: CF's flag_values and flag_meanings, without blanks
  void flags(int variable, const std::vector<std::string>& meanings);
  /// Defines a variable along `dimension`, whose values end_header() writes; -1 where there are none.
  int coordinate(const std::string& name, int dimension, const std::string& units, std::vector<double> values,
                 const std::string& standard_name = "");
  void end_header();
  void finish();  // flushes to disk and renames

 private:
  std::string path_, part_;
  int file_ = -1;
  std::map<int, std::vector<double>> coordinates_;  // by variable
};

}  // namespace isobar::data
