// A Zarr group, version 2 or 3, as an archive: its arrays are variables on named dimensions (dimension_names,
// or xarray's _ARRAY_DIMENSIONS).
#include <openssl/evp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "model/base/dtype.h"
#include "model/data/cf/cf_file.h"
#include "model/data/fields/slab.h"
#include "model/data/files/npy.h"
#include "model/data/files/zarr/zarr_metadata.h"

namespace isobar::data {
namespace {

using nlohmann::json;

constexpr int64_t kMostValues = int64_t{1} << 25;  // of a coordinate, like require_sizes

/// A number of _FillValue, which xarray writes in Zarr 3 as base64 of a double, whatever the array holds.
std::optional<double> fill_of(const json& value) {
  if (const auto x = zarr_number(value)) return x;
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  constexpr size_t kCoded = 12;  // 8 bytes and padding
  if (text.size() != kCoded || text[kCoded - 1] != '=' || text[kCoded - 2] == '=') return std::nullopt;
  unsigned char bytes[9] = {};
  if (EVP_DecodeBlock(bytes, reinterpret_cast<const unsigned char*>(text.data()), kCoded) != sizeof bytes)
    return std::nullopt;
  double d = 0;
  std::memcpy(&d, bytes, sizeof d);
  return d;
}

class ZarrFile : public CfFile {
 public:
  explicit ZarrFile(const std::string& path) : store_(open_zarr_store(path)), arrays_(zarr_arrays(*store_)) {
    groups_ = zarr_groups(*store_, arrays_);
    for (size_t i = 0; i < arrays_.size(); ++i) add_variable(arrays_[i], static_cast<int>(i));
  }

  std::string format() const override {
    return arrays_.empty() ? "Zarr" : "Zarr " + std::to_string(arrays_[0].version);
  }
  std::string text(const CfVariable& v, const std::string& attribute) const override {
    const json& all = arrays_[v.id].attributes;
    const auto at = all.find(attribute);
    if (at != all.end() && at->is_string()) return at->get<std::string>();
    const std::optional<NumpyTime> time = numpy_time(arrays_[v.id].datetime);
    if (!time || !v.dates) return "";
    return attribute == "units" ? time->units : attribute == "calendar" ? "proleptic_gregorian" : "";
  }
  std::vector<double> numbers(const CfVariable& v, const std::string& attribute,
                              size_t at_most) const override {
    const json& all = arrays_[v.id].attributes;
    const auto at = all.find(attribute);
    if (at == all.end() || at->is_null()) return {};
    std::vector<double> out;
    const json list = at->is_array() ? *at : json::array({*at});
    for (const json& x : list) {
      const auto number = attribute == "_FillValue" ? fill_of(x) : zarr_number(x);
      if (!number) refuse_numbers(v.name, attribute, "another type than numbers", at_most);
      out.push_back(*number);
    }
    if (out.empty() || out.size() > at_most)
      refuse_numbers(v.name, attribute, std::to_string(out.size()) + " numbers", at_most);
    return out;
  }
  std::optional<Element> type_of(const CfVariable& v, const std::string& attribute) const override {
    const json& all = arrays_[v.id].attributes;
    const auto at = all.find(attribute);
    if (at == all.end()) return std::nullopt;
    const json& one = at->is_array() && !at->empty() ? at->front() : *at;
    if (one.is_number_float()) return Element::f64;
    return one.is_number_integer() ? std::optional(Element::i64) : std::nullopt;
  }
  std::vector<double> values(const CfVariable& v) const override {
    const std::unique_ptr<RawArray> array =
        zarr_array(store_, arrays_[v.id], std::make_shared<ChunkCache>(0));
    const int64_t n = declared_product(array->dims());
    if (n > kMostValues)
      throw ArrayError(
          "'" + v.name + "' declares " + std::to_string(n) + " values, too many for a coordinate",
          "the store is damaged: copy it again");
    std::vector<std::byte> raw(static_cast<size_t>(n * size_of(array->element())));
    array->read(Index(array->dims().size(), 0), array->dims(), raw.data());
    std::vector<double> out(static_cast<size_t>(n));
    const std::optional<NumpyTime> time = numpy_time(arrays_[v.id].datetime);
    if (v.dates && !time)
      throw ArrayError("'" + v.name + "' has times in units of '" + arrays_[v.id].datetime + "'",
                       "write them as datetime64[h], [m], [s] or [ns]");
    for (int64_t i = 0; i < n; ++i) {
      const std::byte* const at = raw.data() + i * size_of(v.element);
      int64_t whole = 0;
      if (v.dates) std::memcpy(&whole, at, sizeof whole);
      out[i] = v.dates ? time->value(whole) : as_double(at, v.element);
    }
    return out;
  }
  void require_held(const CfVariable&) const override {}  // absent chunks are fill values
  std::unique_ptr<RawArray> array(const CfVariable& v, const std::shared_ptr<ChunkCache>& cache) override {
    return zarr_array(store_, arrays_[v.id], cache);
  }

 private:
  void add_variable(const ZarrMetadata& m, int id) {
    CfVariable v{.id = id, .name = m.name, .numeric = m.element.has_value(), .dates = !m.datetime.empty()};
    if (!m.element) v.type = "'" + m.type + "'";
    if (m.element) v.element = *m.element;
    if (v.numeric && m.dimension_names.size() != m.dims.size())
      v.numeric = false, v.type = "numbers along dimensions without names";
    for (size_t k = 0; k < m.dims.size() && v.numeric; ++k) {
      const std::string name =
          m.dimension_names[k].empty() ? m.name + std::to_string(k) : m.dimension_names[k];
      const auto same = [&](const CfDimension& d) { return d.name == name; };
      const auto at = std::find_if(dimensions_.begin(), dimensions_.end(), same) - dimensions_.begin();
      if (at == static_cast<int64_t>(dimensions_.size())) dimensions_.push_back({name, m.dims[k]});
      if (dimensions_[at].size != m.dims[k])
        throw ArrayError("dimension '" + name + "' has " + std::to_string(dimensions_[at].size) +
                             " steps, and along '" + m.name + "' " + std::to_string(m.dims[k]),
                         "write the arrays with one length, or give the dimension two names");
      v.dims.push_back(at);
    }
    const auto stated = m.attributes.find("_FillValue");
    if (stated != m.attributes.end()) {
      const auto fill = fill_of(*stated);
      v.has_fill = fill.has_value() && !std::isnan(*fill);  // NaN always means missing
      v.fill = fill.value_or(0);
    } else {
      v.has_fill = v.fill_of_store = m.fill_is_missing;
      v.fill = m.fill;
    }
    variables_.push_back(v);
  }
  std::shared_ptr<const ZarrStore> store_;
  std::vector<ZarrMetadata> arrays_;  // by id of the variable
};

}  // namespace

std::unique_ptr<CfFile> open_zarr_file(const std::string& path) {
  return std::make_unique<ZarrFile>(path);
}

}  // namespace isobar::data
