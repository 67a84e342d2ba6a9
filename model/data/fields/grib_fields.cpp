// GRIB 1 and 2 read through ecCodes: messages of one or more fields, sorted into variables on time, level,
// latitude and longitude. Variables have ecCodes' NetCDF names ("t2m"), pressure levels become channels
// ("z500"), and points masked by the bitmap are missing. Grids are regular, equidistant or Gaussian.
//
// Opening reads the header of every message; reading a step decodes only the messages that hold it.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "model/data/cf/cf_file.h"
#include "model/data/cf/dates.h"
#include "model/data/fields/slab.h"
#include "model/data/files/grib_message.h"

#ifdef ISOBAR_WITH_ECCODES
#include <eccodes.h>
#endif

namespace isobar::data {

bool is_grib(const std::string& path) {
  char magic[4] = "";
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  return std::string(magic, sizeof magic) == "GRIB";
}

#ifndef ISOBAR_WITH_ECCODES

std::unique_ptr<CfFile> open_grib_file(const std::string&) {
  throw ArrayError("is a GRIB file, and this program was built without ecCodes",
                   "install libeccodes-dev and build again, or convert it: grib_to_netcdf -o out.nc FILE");
}

#else

namespace {

constexpr const char* kTorn = "copy or download it again";
constexpr const char* kHpa = "isobaricInhPa";
constexpr int64_t kMostMessage = int64_t{1} << 32;  // bytes
/// The value that ecCodes is asked to use for missing points; its default, 9999, may be a valid height.
constexpr double kMissing = std::numeric_limits<double>::max();

struct GribMessage {  // position in the file
  int64_t offset = 0, bytes = 0;
  int64_t field = 0;  // index of the field within the message
};

void say_nothing(const codes_context*, int, const char*) {}  // errors are thrown instead

struct GribGrid {
  std::vector<double> latitude, longitude;
  bool operator==(const GribGrid&) const = default;
};

/// One message parsed by ecCodes.
class GribHandle {
 public:
  explicit GribHandle(codes_handle* h) : handle_(h) {}
  explicit GribHandle(std::vector<std::byte> message)
      : message_(std::move(message)),  // ecCodes does not copy it
        handle_(codes_handle_new_from_message(nullptr, message_.data(), message_.size())) {
    if (!handle_) throw ArrayError("a message of it cannot be parsed", kTorn);
  }
  ~GribHandle() { codes_handle_delete(handle_); }
  GribHandle(const GribHandle&) = delete;
  GribHandle& operator=(const GribHandle&) = delete;
  codes_handle* get() const { return handle_; }

  bool has(const char* key) const {
    int error = CODES_SUCCESS;
    return codes_is_defined(handle_, key) && !codes_is_missing(handle_, key, &error);
  }
  int64_t whole(const char* key) const {
    long value = 0;
    require(codes_get_long(handle_, key, &value), key);
    return value;
  }
  double number(const char* key) const {
    double value = 0;
    require(codes_get_double(handle_, key, &value), key);
    return value;
  }
  std::string text(const char* key) const {
    char value[256];
    size_t size = sizeof value;
    require(codes_get_string(handle_, key, value, &size), key);
    return value;
  }
  void set(const char* key, double value) const { require(codes_set_double(handle_, key, value), key); }
  void set(const char* key, const std::string& value) const {
    size_t size = value.size();
    require(codes_set_string(handle_, key, value.c_str(), &size), key);
  }
  std::vector<double> all(const char* key) const {
    size_t size = 0;
    require(codes_get_size(handle_, key, &size), key);
    std::vector<double> values(size);
    require(codes_get_double_array(handle_, key, values.data(), &size), key);
    values.resize(size);
    return values;
  }

 private:
  static void require(int error, const char* key) {
    if (error != CODES_SUCCESS)
      throw ArrayError(std::string("a message of it has no ") + key + ": " + codes_get_error_message(error),
                       kTorn);
  }
  std::vector<std::byte> message_;
  codes_handle* handle_;
};

/// Seconds beyond the minute, which the key validityTime leaves out
int64_t seconds_of(const GribHandle& h) {
  constexpr int64_t kUnitIsSecond[] = {254, 13};  // of editions 1 and 2: WMO code tables 4 and 4.4
  int64_t seconds = h.has("second") ? h.whole("second") : 0;
  const bool second_edition = h.whole("edition") > 1;
  if (h.has("indicatorOfUnitOfTimeRange") &&
      h.whole("indicatorOfUnitOfTimeRange") == kUnitIsSecond[second_edition]) {
    h.set("stepUnits", "s");
    seconds += h.whole("endStep");
  }
  return seconds % 60;
}

double hours_of(const GribHandle& h) {
  using namespace std::chrono;
  const int64_t date = h.whole("validityDate"), time = h.whole("validityTime");
  const year_month_day day{year(static_cast<int>(date / 10000)),
                           month(static_cast<unsigned>(date / 100 % 100)),
                           std::chrono::day(static_cast<unsigned>(date % 100))};
  if (!day.ok()) throw ArrayError("a message of it is of the day " + std::to_string(date), kTorn);
  return 24.0 * static_cast<double>(sys_days(day).time_since_epoch().count()) +
         static_cast<double>(time / 100) + static_cast<double>(time % 100) / 60 +
         static_cast<double>(seconds_of(h)) / 3600;
}

// Values are stored row by row from the first latitude.
GribGrid grid_of(const GribHandle& h) {
  const std::string type = h.text("gridType");
  const bool gaussian = type == "regular_gg";
  if (type != "regular_ll" && !gaussian)
    throw ArrayError("lies on a grid of type " + type + ", which has no rows of latitude, all of one length",
                     "interpolate it to a regular one: cdo -R copy, or grid= when it is retrieved");
  if (h.whole("iScansNegatively") != 0 || h.whole("jPointsAreConsecutive") != 0 ||
      h.whole("alternativeRowScanning") != 0)
    throw ArrayError("has points that do not run eastwards row by row", "write it anew: cdo copy");
  const int64_t columns = h.whole("Ni"), rows = h.whole("Nj");
  if (columns < 1 || rows < 1 || columns > int64_t{1} << 18 || rows > int64_t{1} << 18)
    throw ArrayError("declares a grid of " + std::to_string(rows) + " x " + std::to_string(columns), kTorn);
  GribGrid grid;
  const double north = h.number("latitudeOfFirstGridPointInDegrees"),
               south = h.number("latitudeOfLastGridPointInDegrees"),
               west = h.number("longitudeOfFirstGridPointInDegrees");
  if (gaussian) {
    grid.latitude = h.all("distinctLatitudes");
    std::sort(grid.latitude.begin(), grid.latitude.end());
    if (north > south) std::reverse(grid.latitude.begin(), grid.latitude.end());
    if (static_cast<int64_t>(grid.latitude.size()) != rows)
      throw ArrayError(
          "has " + std::to_string(grid.latitude.size()) + " latitudes for " + std::to_string(rows) + " rows",
          kTorn);
  } else {
    for (int64_t k = 0; k < rows; ++k)
      grid.latitude.push_back(
          rows == 1 ? north
                    : std::lerp(north, south, static_cast<double>(k) / static_cast<double>(rows - 1)));
  }
  const double east = h.number("longitudeOfLastGridPointInDegrees");
  double across = std::fmod(east - west, 360);
  if (across < 0 || (across == 0 && east != west)) across += 360;
  for (int64_t k = 0; k < columns; ++k)
    grid.longitude.push_back(
        columns == 1 ? west : west + across * static_cast<double>(k) / static_cast<double>(columns - 1));
  return grid;
}

/// The variable's NetCDF name in ecCodes' tables
std::string name_of(const GribHandle& h) {
  for (const char* key : {"cfVarName", "shortName"})
    if (h.has(key))
      if (const std::string name = h.text(key); name != "unknown" && name != "~") return name;
  return "param" + std::to_string(h.whole("paramId"));
}

bool is_pressure(const std::string& type) {
  return type == kHpa;
}

std::vector<std::byte> message_at(int fd, const GribMessage& m) {
  std::vector<std::byte> bytes(static_cast<size_t>(m.bytes));
  for (int64_t done = 0; done < m.bytes;) {
    const ssize_t n = ::pread(fd, bytes.data() + done, static_cast<size_t>(m.bytes - done), m.offset + done);
    if (n <= 0) throw ArrayError("ends before its data do (torn)", kTorn);
    done += n;
  }
  return bytes;
}

struct FileDescriptor {
  explicit FileDescriptor(const std::string& path) : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd < 0) throw ArrayError("cannot be opened again", "check that it is still there");
  }
  ~FileDescriptor() { ::close(fd); }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  const int fd;
};

class GribArray : public RawArray {
 public:
  GribArray(const std::string& path, Index dims, std::vector<GribMessage> messages, std::string packing)
      : file_(path), dims_(std::move(dims)), messages_(std::move(messages)), packing_(std::move(packing)) {}
  const Index& dims() const override { return dims_; }
  Element element() const override { return Element::f64; }
  StorageLayout layout() const override {
    return {.element = isobar::data::name_of(element()), .storage = "messages", .filters = {packing_}};
  }

  void read(const Index& start, const Index& count, void* out) const override {
    require_inside(dims_, start, count);
    const size_t n = dims_.size();
    const bool levels = n == 4;
    const int64_t first = levels ? start[1] : 0, some = levels ? count[1] : 1, all = levels ? dims_[1] : 1;
    const int64_t rows = count[n - 2], columns = count[n - 1], width = dims_[n - 1];
    auto* to = static_cast<double*>(out);
    for (int64_t t = start[0]; t < start[0] + count[0]; ++t)
      for (int64_t l = first; l < first + some; ++l) {
        const std::vector<double> field = unpacked(messages_[static_cast<size_t>(t * all + l)]);
        for (int64_t y = start[n - 2]; y < start[n - 2] + rows; ++y, to += columns)
          std::copy_n(field.data() + y * width + start[n - 1], columns, to);
      }
  }
  void try_library(int64_t most_bytes, const std::function<void()>& alive) const override {
    const auto size = static_cast<int64_t>(messages_.size());
    const int64_t each = dims_[dims_.size() - 2] * dims_.back() * 8;
    const int64_t some = std::clamp<int64_t>(most_bytes / each, 1, size);
    for (int64_t i = 0; i < some; ++i, alive()) unpacked(messages_[static_cast<size_t>(i * size / some)]);
  }

 private:
  std::vector<double> unpacked(const GribMessage& m) const {
    const GribHandle h(grib_field(message_at(file_.fd, m), m.field));
    h.set("missingValue", kMissing);
    std::vector<double> field = h.all("values");
    if (static_cast<int64_t>(field.size()) != dims_[dims_.size() - 2] * dims_.back())
      throw ArrayError("a message of it holds " + std::to_string(field.size()) + " points", kTorn);
    for (double& x : field)
      if (x == kMissing) x = std::numeric_limits<double>::quiet_NaN();
    return field;
  }

  FileDescriptor file_;
  Index dims_;
  std::vector<GribMessage> messages_;
  std::string packing_;
};

class GribFields : public CfFile {
 public:
  explicit GribFields(const std::string& path) : path_(path) {
    codes_context_set_logging_proc(codes_context_get_default(), say_nothing);
    codes_grib_multi_support_off(nullptr);  // handles would hide multi-field messages
    const auto close = [](std::FILE* f) { std::fclose(f); };
    const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rb"), close);
    if (!file) throw ArrayError("cannot be opened", "check its permissions");
    std::vector<Found> found;
    int error = CODES_SUCCESS;
    while (codes_handle* const next = codes_handle_new_from_file(nullptr, file.get(), PRODUCT_GRIB, &error)) {
      const GribHandle first(next);
      const GribMessage message{first.whole("offset"), first.whole("totalLength")};
      if (message.bytes > kMostMessage) throw ArrayError("declares a message of 4 GiB or more", kTorn);
      if (found.empty()) edition_ = first.whole("edition"), packing_ = first.text("packingType");
      add_field(first, message, found);
      if (first.whole("edition") < 2) continue;
      const std::vector<std::byte> bytes = message_at(fileno(file.get()), message);
      const int64_t fields = grib_fields_of(bytes);
      for (int64_t k = 1; k < fields; ++k)
        add_field(GribHandle(grib_field(bytes, k)), {message.offset, message.bytes, k}, found);
    }
    if (error != CODES_SUCCESS && error != CODES_END_OF_FILE)
      throw ArrayError(
          std::string("is a GRIB file that cannot be read on: ") + codes_get_error_message(error), kTorn);
    if (found.empty())
      throw ArrayError("is a GRIB file without a message that ecCodes can read",
                       "check it with grib_ls (a bundled program needs ECCODES_DEFINITION_PATH)");
    // If a name occurs on several types of levels, pressure levels keep it.
    std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
      return is_pressure(a.type) && !is_pressure(b.type);
    });
    std::set<std::string> names;
    for (Found& f : found) {
      if (!names.insert(f.name).second) names.insert(f.name += "_" + f.type);
      add_variable(f);
    }
  }

  std::string format() const override { return "GRIB " + std::to_string(edition_); }
  std::string text(const CfVariable& v, const std::string& attribute) const override {
    const auto of = texts_.find(v.id);
    if (of == texts_.end()) return "";
    const auto at = of->second.find(attribute);
    return at == of->second.end() ? "" : at->second;
  }
  std::vector<double> numbers(const CfVariable&, const std::string&, size_t) const override { return {}; }
  std::optional<Element> type_of(const CfVariable&, const std::string&) const override { return {}; }
  std::vector<double> values(const CfVariable& v) const override {
    for (const Axis& a : axes_)
      if (v.dims.size() == 1 && a.dimension == v.dims[0]) return a.values;
    throw ArrayError("'" + v.name + "' is no axis", "name another");
  }
  void require_held(const CfVariable&) const override {}  // opening read every message
  std::unique_ptr<RawArray> array(const CfVariable& v, const std::shared_ptr<ChunkCache>&) override {
    return std::make_unique<GribArray>(path_, sizes_of(v), messages_.at(v.id), packing_);
  }

 private:
  struct Axis {  // may be shared by variables
    int64_t dimension;
    std::vector<double> values;
  };
  struct Found {
    std::string name, units, type;  // type: type of level
    GribGrid grid;
    std::map<std::pair<double, double>, GribMessage> messages;  // by time and level
  };
  /// The dimension of the axis with these values, added if there is none.
  int64_t axis(const std::string& name, const std::string& attribute, const std::string& text,
               const std::vector<double>& values) {
    int64_t others = 0;
    for (const Axis& a : axes_) {
      const std::string& known = dimensions_[static_cast<size_t>(a.dimension)].name;
      if (known != name && !known.starts_with(name + "_")) continue;
      if (a.values == values) return a.dimension;
      ++others;
    }
    const std::string own = others == 0 ? name : name + "_" + std::to_string(others + 1);
    const auto dimension = static_cast<int64_t>(dimensions_.size());
    dimensions_.push_back({own, static_cast<int64_t>(values.size())});
    axes_.push_back({dimension, values});
    const int id = static_cast<int>(variables_.size());
    variables_.push_back({.id = id, .name = own, .dims = {dimension}, .element = Element::f64});
    texts_[id] = {{attribute, text}};
    return dimension;
  }
  void add_field(const GribHandle& h, const GribMessage& message, std::vector<Found>& found) const {
    const GribGrid grid = grid_of(h);
    const std::string name = name_of(h);
    std::string type = h.text("typeOfLevel");
    double level = h.has("level") ? h.number("level") : 0;
    if (type == "isobaricInPa") type = kHpa, level /= 100;  // the form that levels below 1 hPa come in
    auto at = std::find_if(found.begin(), found.end(), [&](const Found& f) {
      return f.name == name && f.type == type && f.grid == grid;
    });
    if (at == found.end()) at = found.insert(found.end(), {name, h.text("units"), type, grid, {}});
    const auto [other, is_new] = at->messages.emplace(std::pair(hours_of(h), level), message);
    if (is_new) return;
    const FileDescriptor file(path_);
    const GribHandle before(grib_field(message_at(file.fd, other->second), other->second.field));
    const std::string what =
        "holds '" + name + "' twice of " + iso_of(hours_of(h) * 3600) + ", level " + level_name(level, "");
    for (const char* key : {"number", "stepType", "dataDate", "dataTime", "stepRange",
                            "typeOfGeneratingProcess", "typeOfProcessedData", "expver", "stream", "centre"}) {
      if (!h.has(key) || !before.has(key) || h.text(key) == before.text(key)) continue;
      throw ArrayError(
          what + ", once of " + key + " " + before.text(key) + " and once of " + h.text(key),
          std::string("keep one: grib_copy -w ") + key + "=" + before.text(key) + " in.grib out.grib");
    }
    throw ArrayError(what + ", with the same keys", "keep one of the two messages: grib_copy -w count=…");
  }
  void add_variable(const Found& f) {
    std::set<double> times, levels;
    for (const auto& [at, message] : f.messages) times.insert(at.first), levels.insert(at.second);
    if (f.messages.size() != times.size() * levels.size())
      throw ArrayError("'" + f.name + "' has " + std::to_string(f.messages.size()) + " fields for " +
                           std::to_string(times.size()) + " times of " + std::to_string(levels.size()) +
                           " levels",
                       "give all levels of all times: grib_copy -w, or download what is not there");
    CfVariable v{.name = f.name, .element = Element::f64};
    v.dims.push_back(axis("time", "units", "hours since 1970-01-01 00:00:00", {times.begin(), times.end()}));
    if (is_pressure(f.type) || levels.size() > 1) {
      v.dims.push_back(axis(f.type, is_pressure(f.type) ? "units" : "axis", is_pressure(f.type) ? "hPa" : "Z",
                            {levels.begin(), levels.end()}));
    }
    v.dims.push_back(axis("latitude", "units", "degrees_north", f.grid.latitude));
    v.dims.push_back(axis("longitude", "units", "degrees_east", f.grid.longitude));
    v.id = static_cast<int>(variables_.size());
    texts_[v.id] = {{"units", f.units}};
    for (const auto& [at, message] : f.messages) messages_[v.id].push_back(message);
    variables_.push_back(v);
  }

  std::string path_, packing_;
  int64_t edition_ = 2;
  std::vector<Axis> axes_;
  std::map<int, std::map<std::string, std::string> > texts_;  // attributes, by id of a variable
  std::map<int, std::vector<GribMessage> > messages_;         // [time, level]
};

}  // namespace

std::unique_ptr<CfFile> open_grib_file(const std::string& path) {
  return std::make_unique<GribFields>(path);
}

#endif

}  // namespace isobar::data
