// GRIB 1 and 2 read through ecCodes: messages of one or more fields, sorted into variables on time, level,
// latitude and longitude. Variables have ecCodes' NetCDF names ("t2m"), pressure levels become channels
// ("z500"), and points masked by the bitmap are missing. Grids are regular, equidistant or Gaussian.
//
//   if (is_grib(path)) GribFields file(path);                    // throws ArrayError
//
// Opening reads the header of every message; reading a step decodes only the messages that hold it.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/data/cf/cf_file.h"

namespace isobar::data {

bool is_grib(const std::string& path);

struct GribMessage {  // position in the file
  int64_t offset = 0, bytes = 0;
  int64_t field = 0;  // index of the field within the message
};
class GribHandle;

class GribFields : public CfFile {
 public:
  explicit GribFields(const std::string& path);

  std::string format() const override { return "GRIB " + std::to_string(edition_); }
  std::string text(const CfVariable& v, const std::string& attribute) const override;
  std::vector<double> numbers(const CfVariable&, const std::string&, size_t) const override { return {}; }
  std::optional<Element> type_of(const CfVariable&, const std::string&) const override { return {}; }
  std::vector<double> values(const CfVariable& v) const override;
  void require_held(const CfVariable&) const override {}  // opening read every message
  std::unique_ptr<RawArray> array(const CfVariable& v, const std::shared_ptr<ChunkCache>& cache) override;

 private:
  struct Axis {  // may be shared by variables
    int64_t dimension;
    std::vector<double> values;
  };
  struct Found;
  int64_t axis(const std::string& name, const std::string& attribute, const std::string& text,
               const std::vector<double>& values);
  void add_field(const GribHandle& h, const GribMessage& message, std::vector<Found>& found) const;
  void add_variable(const Found& f);

  std::string path_, packing_;
  int64_t edition_ = 2;
  std::vector<Axis> axes_;
  std::map<int, std::map<std::string, std::string>> texts_;  // attributes, by id of a variable
  std::map<int, std::vector<GribMessage>> messages_;         // [time, level]
};

}  // namespace isobar::data
