// NumPy's .npz as an archive of fields. Arrays [time, (level,) latitude, longitude] are variables, [latitude,
// longitude] static variables, and one-dimensional arrays with the name of an axis (time, latitude or lat,
// longitude or lon, level …) coordinates. Times are datetime64; NaN is missing.
//
//   numpy.savez("2019.npz", t2m=t2m, time=times, latitude=latitude, longitude=longitude)
//   NpzFields file("2019.npz");                                  // throws ArrayError
//
// Stored arrays (numpy.savez) are read step by step; deflated ones (numpy.savez_compressed) are inflated
// whole on first use and kept.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/data/cf/cf_file.h"
#include "model/data/files/npy.h"
#include "model/data/files/zarr/zarr_store.h"

namespace isobar::data {

class NpzFields : public CfFile {
 public:
  explicit NpzFields(const std::string& path);

  std::string format() const override { return "npz"; }
  std::string text(const CfVariable& v, const std::string& attribute) const override;
  std::vector<double> numbers(const CfVariable&, const std::string&, size_t) const override { return {}; }
  std::optional<Element> type_of(const CfVariable&, const std::string&) const override { return {}; }
  std::vector<double> values(const CfVariable& v) const override;
  void require_held(const CfVariable&) const override {}  // the constructor compares header and size
  std::unique_ptr<RawArray> array(const CfVariable& v, const std::shared_ptr<ChunkCache>& cache) override;

 private:
  int64_t dimension(const std::string& name, int64_t size);
  void add_axes();
  void add_field(size_t id);
  std::string level_axis(int64_t size) const;

  std::string path_;
  std::shared_ptr<const ZarrStore> store_;
  std::vector<std::string> names_;
  std::vector<NpyHeader> headers_;
  std::map<std::string, int64_t> sizes_;  // by axis: time, latitude, longitude
};

}  // namespace isobar::data
