// The metadata of a netCDF file (classic or netCDF-4), read by the netCDF library behind the library lock.
//
//   NetcdfFile file("era5.nc");            // throws ArrayError
//   for (const auto& v : file.variables()) …
#pragma once
#include <netcdf.h>

#include <memory>
#include <string>
#include <vector>

#include "model/data/cf/cf_file.h"

namespace isobar::data {

class NetcdfFile : public CfFile {
 public:
  explicit NetcdfFile(const std::string& path);
  ~NetcdfFile() override;
  NetcdfFile(const NetcdfFile&) = delete;
  NetcdfFile& operator=(const NetcdfFile&) = delete;

  std::string format() const override { return hdf5_ ? "netCDF-4" : "netCDF classic"; }
  std::string text(const CfVariable& v, const std::string& attribute) const override;
  std::vector<double> numbers(const CfVariable& v, const std::string& attribute,
                              size_t at_most) const override;
  std::optional<Element> type_of(const CfVariable& v, const std::string& attribute) const override;
  std::vector<double> values(const CfVariable& v) const override;
  std::vector<double> values_at(const CfVariable& v, int64_t step) const;  // of its first dimension
  void require_held(const CfVariable& v) const override;
  std::unique_ptr<RawArray> array(const CfVariable& v, const std::shared_ptr<ChunkCache>& cache) override;

 private:
  void check(int rc, const std::string& doing) const;
  void read_metadata();
  void read_fill(CfVariable& v, nc_type type) const;
  void read_groups(int of, const std::string& path);
  void close();
  std::string path_;
  int id_ = -1;
  bool hdf5_ = false;
  int64_t file_bytes_ = 0;
};

}  // namespace isobar::data
