// NumPy's .npz as an archive of fields. Arrays [time, (level,) latitude, longitude] are variables, [latitude,
// longitude] static variables, and one-dimensional arrays with the name of an axis (time, latitude or lat,
// longitude or lon, level …) coordinates. Times are datetime64; NaN is missing.
//
//   numpy.savez("2019.npz", t2m=t2m, time=times, latitude=latitude, longitude=longitude)
//
// Stored arrays (numpy.savez) are read step by step; deflated ones (numpy.savez_compressed) are inflated
// whole on first use and kept.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/data/cf/cf_file.h"
#include "model/data/fields/slab.h"
#include "model/data/files/npy.h"
#include "model/data/files/zarr/zarr_store.h"

namespace isobar::data {
namespace {

constexpr const char* kEnding = ".npy";

constexpr const char* kNpzFieldsMend =
    "write it with numpy.savez: numbers, [time, latitude, longitude] or [time, level, latitude, "
    "longitude]";

constexpr int64_t kMostOfAxis = int64_t{1} << 25;  // values, like require_sizes

/// An array in a zip, read by steps of its first axis.
class NpzArray : public RawArray {
 public:
  NpzArray(std::shared_ptr<const ZarrStore> store, std::string member, NpyHeader header)
      : store_(std::move(store)), member_(std::move(member)), header_(std::move(header)) {
    stored_ = store_->has_parts(member_);
  }
  const Index& dims() const override { return header_.shape; }
  Element element() const override { return header_.element; }
  StorageLayout layout() const override {
    StorageLayout l{.element = name_of(element()), .storage = "contiguous", .big_endian = header_.big_endian};
    if (!stored_) l.filters = {"deflate"};
    return l;
  }

  void read(const Index& start, const Index& count, void* out) const override {
    require_inside(header_.shape, start, count);
    if (product(count) == 0) return;
    const int64_t size = size_of(element());
    if (header_.fortran) return read_columns_first(start, count, static_cast<std::byte*>(out));
    const Index strides = strides_of(header_.shape), out_strides = strides_of(count);
    Index one = count, corner = start;
    one[0] = 1, corner[0] = 0;
    int64_t within = 0;  // offset of the box within a step
    for (size_t k = 1; k < corner.size(); ++k) within += corner[k] * strides[k];
    thread_local std::vector<std::byte> bytes;
    for (int64_t i = 0; i < count[0]; ++i) {
      const std::byte* step = step_at(start[0] + i, bytes);
      copy_box(one, size, step + within * size, strides,
               static_cast<std::byte*>(out) + i * out_strides[0] * size, out_strides);
    }
    if (header_.big_endian) swap_bytes(out, product(count), size);
  }

 private:
  /// Reads from Fortran order, in which a step of the first axis is all over the array.
  void read_columns_first(const Index& start, const Index& count, std::byte* out) const {
    const int64_t size = size_of(element());
    Index strides(count.size(), 1);
    for (size_t k = 1; k < count.size(); ++k) strides[k] = strides[k - 1] * header_.shape[k - 1];
    int64_t corner = 0;
    for (size_t k = 0; k < count.size(); ++k) corner += start[k] * strides[k];
    copy_box(count, size, all() + corner * size, strides, out, strides_of(count));
    if (header_.big_endian) swap_bytes(out, product(count), size);
  }
  const std::byte* step_at(int64_t i, std::vector<std::byte>& bytes) const {
    const int64_t step = header_.count / header_.shape[0] * size_of(element());
    if (!stored_) return all() + i * step;
    if (!store_->read(member_, {header_.data_at + i * step, step}, bytes)) gone();
    return bytes.data();
  }
  const std::byte* all() const {
    const std::lock_guard lock(mutex_);
    if (whole_.empty() && !store_->read(member_, {}, whole_)) gone();
    if (static_cast<int64_t>(whole_.size()) < header_.data_at + header_.count * size_of(element()))
      throw ArrayError("'" + member_ + "' ends before its data do (torn)", "copy or download it again");
    return whole_.data() + header_.data_at;  // not modified after it is filled
  }
  [[noreturn]] void gone() const {
    throw ArrayError("'" + member_ + "' is not there any more", "copy it again");
  }

  std::shared_ptr<const ZarrStore> store_;
  std::string member_;
  NpyHeader header_;
  bool stored_ = true;
  mutable std::mutex mutex_;
  mutable std::vector<std::byte> whole_;  // an array that is not read by steps
};

class NpzFields : public CfFile {
 public:
  explicit NpzFields(const std::string& path) : path_(path), store_(open_zarr_store(path)) {
    for (const std::string& member : store_->children()) {
      if (!member.ends_with(kEnding)) continue;
      std::vector<std::byte> head;
      try {
        store_->read(member, {0, kMostOfNpyHeader}, head);
      } catch (const ArrayError&) {  // the member is shorter
        store_->read(member, {}, head);
      }
      const std::string bytes(reinterpret_cast<const char*>(head.data()), head.size());
      try {
        headers_.push_back(parse_npy_header(bytes, path, "", kNpzFieldsMend));
      } catch (const ConfigError& e) {  // text or objects, or damaged: reading to the end checks the sum
        store_->read(member, {}, head);
        const std::string name = member.substr(0, member.size() - std::strlen(kEnding));
        variables_.push_back({.id = -1, .name = name, .numeric = false, .type = "text or objects"});
        continue;
      }
      names_.push_back(member.substr(0, member.size() - std::strlen(kEnding)));
    }
    if (names_.empty()) throw ArrayError("holds no array of numbers", kNpzFieldsMend);
    add_axes();
    for (size_t i = 0; i < names_.size(); ++i)
      if (headers_[i].shape.size() >= 2) add_field(i);
  }

  std::string format() const override { return "npz"; }
  std::string text(const CfVariable& v, const std::string& attribute) const override {
    const std::optional<NumpyTime> time = v.id < 0 ? std::nullopt : numpy_time(headers_[v.id].datetime);
    if (!time) return "";
    return attribute == "units" ? time->units : attribute == "calendar" ? "proleptic_gregorian" : "";
  }
  std::vector<double> numbers(const CfVariable&, const std::string&, size_t) const override { return {}; }
  std::optional<Element> type_of(const CfVariable&, const std::string&) const override { return {}; }
  std::vector<double> values(const CfVariable& v) const override {
    const NpyHeader& h = headers_[v.id];
    if (h.count > kMostOfAxis)
      throw ArrayError(
          "'" + v.name + "' declares " + std::to_string(h.count) + " values, too many for a coordinate",
          "the file is damaged: copy it again");
    const std::optional<NumpyTime> time = numpy_time(h.datetime);
    if (!h.datetime.empty() && !time)
      throw ArrayError("'" + v.name + "' has times in units of '" + h.datetime + "'",
                       "write them as datetime64[h], [m], [s] or [ns]");
    const NpzArray array(store_, names_[v.id] + kEnding, h);
    std::vector<std::byte> raw(static_cast<size_t>(h.count * size_of(h.element)));
    array.read(Index(h.shape.size(), 0), h.shape, raw.data());
    std::vector<double> out(static_cast<size_t>(h.count));
    for (int64_t i = 0; i < h.count; ++i) {
      const std::byte* const at = raw.data() + i * size_of(h.element);
      int64_t whole = 0;
      if (time) std::memcpy(&whole, at, sizeof whole);
      out[i] = time ? time->value(whole) : as_double(at, h.element);
    }
    return out;
  }
  void require_held(const CfVariable&) const override {}  // the constructor compares header and size
  std::unique_ptr<RawArray> array(const CfVariable& v, const std::shared_ptr<ChunkCache>&) override {
    return std::make_unique<NpzArray>(store_, names_[v.id] + kEnding, headers_[v.id]);
  }

 private:
  int64_t dimension(const std::string& name, int64_t size) {
    const auto same = [&](const CfDimension& d) { return d.name == name && d.size == size; };
    const auto at = std::find_if(dimensions_.begin(), dimensions_.end(), same);
    if (at != dimensions_.end()) return at - dimensions_.begin();
    dimensions_.push_back({name, size});
    return static_cast<int64_t>(dimensions_.size()) - 1;
  }
  /// Adds the coordinates. An axis without one takes its length from the first array of three or four axes.
  void add_axes() {
    const auto note = [&](CfAxis axis, int64_t size) {
      const char* name = axis == CfAxis::time ? "time" : axis == CfAxis::latitude ? "latitude" : "longitude";
      sizes_.emplace(name, size);
    };
    for (size_t i = 0; i < names_.size(); ++i) {
      const NpyHeader& h = headers_[i];
      if (h.shape.size() != 1) continue;
      CfAxis axis = classify({.name = names_[i]});
      if (!h.datetime.empty()) axis = CfAxis::time;
      if (axis == CfAxis::other) {
        variables_.push_back({.id = static_cast<int>(i),
                              .name = names_[i],
                              .numeric = false,
                              .type = std::to_string(h.shape[0]) + " numbers along one axis"});
        continue;
      }
      if (axis != CfAxis::level) note(axis, h.shape[0]);
      variables_.push_back({.id = static_cast<int>(i),
                            .name = axis == CfAxis::time        ? "time"
                                    : axis == CfAxis::latitude  ? "latitude"
                                    : axis == CfAxis::longitude ? "longitude"
                                                                : names_[i],
                            .element = h.element,
                            .dates = !h.datetime.empty()});
      variables_.back().dims = {dimension(variables_.back().name, h.shape[0])};
    }
    for (const NpyHeader& h : headers_) {
      const size_t n = h.shape.size();
      if ((n != 3 && n != 4) || !h.datetime.empty()) continue;
      note(CfAxis::time, h.shape[0]), note(CfAxis::latitude, h.shape[n - 2]),
          note(CfAxis::longitude, h.shape[n - 1]);
    }
  }
  /// Adds an array as a variable, unless its lengths differ from those of the axes.
  void add_field(size_t id) {
    const NpyHeader& h = headers_[id];
    const size_t n = h.shape.size();
    std::vector<std::string> axes;
    if (n >= 3) axes.emplace_back("time");
    if (n == 4) axes.push_back(level_axis(h.shape[1]));
    axes.emplace_back("latitude"), axes.emplace_back("longitude");
    CfVariable v{.id = static_cast<int>(id), .name = names_[id], .element = h.element};
    v.numeric = n <= 4 && h.datetime.empty();
    v.type = h.datetime.empty() ? "an array of other lengths than the axes" : "dates";
    for (size_t k = 0; k < axes.size() && v.numeric; ++k) {
      const auto known = sizes_.find(axes[k]);
      v.numeric = known == sizes_.end() || known->second == h.shape[k];
    }
    for (size_t k = 0; k < axes.size() && v.numeric; ++k) v.dims.push_back(dimension(axes[k], h.shape[k]));
    variables_.push_back(v);
  }
  std::string level_axis(int64_t size) const {
    for (const CfVariable& v : variables_)
      if (v.dims.size() == 1 && dimensions_[v.dims[0]].size == size &&
          axis_of(*this, v.dims[0]) == CfAxis::level)
        return v.name;
    return "second axis";
  }

  std::string path_;
  std::shared_ptr<const ZarrStore> store_;
  std::vector<std::string> names_;
  std::vector<NpyHeader> headers_;
  std::map<std::string, int64_t> sizes_;  // by axis: time, latitude, longitude
};

}  // namespace

std::unique_ptr<CfFile> open_npz_file(const std::string& path) {
  return std::make_unique<NpzFields>(path);
}

}  // namespace isobar::data
