// A Zarr group, version 2 or 3, as an archive: its arrays are variables on named dimensions (dimension_names,
// or xarray's _ARRAY_DIMENSIONS).
//
//   ZarrFile file("era5.zarr");                                 // or a zip; throws ArrayError
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "model/data/cf/cf_file.h"
#include "model/data/files/zarr/zarr_metadata.h"

namespace isobar::data {

class ZarrFile : public CfFile {
 public:
  explicit ZarrFile(const std::string& path);

  std::string format() const override;
  std::string text(const CfVariable& v, const std::string& attribute) const override;
  std::vector<double> numbers(const CfVariable& v, const std::string& attribute,
                              size_t at_most) const override;
  std::optional<Element> type_of(const CfVariable& v, const std::string& attribute) const override;
  std::vector<double> values(const CfVariable& v) const override;
  void require_held(const CfVariable&) const override {}  // absent chunks are fill values
  std::unique_ptr<RawArray> array(const CfVariable& v, const std::shared_ptr<ChunkCache>& cache) override;

 private:
  void add_variable(const ZarrMetadata& m, int id);
  std::shared_ptr<const ZarrStore> store_;
  std::vector<ZarrMetadata> arrays_;  // by id of the variable
};

}  // namespace isobar::data
