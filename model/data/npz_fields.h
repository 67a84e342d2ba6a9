// NumPy's .npz as an archive of fields: arrays [time, latitude, longitude] or [time, level, latitude,
// longitude] are variables, [latitude, longitude] ones without a time axis, and arrays of one axis that are
// called as axes are (time, latitude or lat, longitude or lon, level …) their coordinates. A time axis is
// told as numpy's datetime64. NaN is missing.
//
//   numpy.savez("2019.npz", t2m=t2m, time=times, latitude=latitude, longitude=longitude)
//   NpzFields file("2019.npz");                                  // throws ArrayError
//
// What is stored (numpy.savez) is read step by step; what is deflated (numpy.savez_compressed) is inflated
// whole when it is first read, and kept.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/data/cf_file.h"
#include "model/data/npy.h"
#include "model/data/zarr_store.h"

namespace isobar {

class NpzFields : public CfFile {
 public:
  explicit NpzFields(const std::string& path);

  std::string format() const override { return "npz"; }
  std::string text(const CfVariable& v, const std::string& attribute) const override;
  std::vector<double> numbers(const CfVariable&, const std::string&, size_t) const override { return {}; }
  std::optional<Element> type_of(const CfVariable&, const std::string&) const override { return {}; }
  std::vector<double> values(const CfVariable& v) const override;
  void require_held(const CfVariable&) const override {}  // the header is held to the bytes that are there
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
  std::map<std::string, int64_t> sizes_;  // of the time, latitude and longitude axes
};

}  // namespace isobar
