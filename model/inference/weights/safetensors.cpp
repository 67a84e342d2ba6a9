#include "model/inference/weights/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>
#include <tuple>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/system/temporary.h"
#include "model/base/text/joined.h"
#include "model/base/text/json.h"
#include "model/base/text/json_fault.h"

namespace isobar::inference {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLongestHeader = 100'000'000;  // the limit of the format's own library

[[noreturn]] void fail(const char* doing, const fs::path& path) {
  throw std::system_error(errno, std::generic_category(), std::string(doing) + " " + path.string());
}

ConfigError torn(const fs::path& path, const std::string& what) {
  return {path.string(), "", "is not a whole safetensors file: " + what,
          "write it again with the program that made it, or take another checkpoint"};
}

int64_t elements(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  return n;
}

/// The header's length and JSON, padded to a multiple of 8 bytes.
std::string header_of(const std::vector<plan::Tensor>& tensors, const Metadata& metadata, DType type) {
  nlohmann::ordered_json header;
  header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const plan::Tensor& t : tensors) {
    const int64_t end = offset + elements(t.shape) * size_of(type);
    header[t.name] = {
        {"dtype", type == DType::bf16 ? "BF16" : "F32"}, {"shape", t.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out + text;
}

/// Reads and converts elements by blocks, for types with one value an element.
template <class T>
void read_converted(const OpenFile& file, const StoredTensor& t, int64_t first, int64_t count, T* values) {
  const int64_t width = t.type->bits / 8;
  int64_t offset = t.offset + first * width;
  if (t.type->kind == StoredType::Kind::floating && width == static_cast<int64_t>(sizeof(T)))
    return file.read_at(offset, values, count * width);
  std::array<std::byte, 32768> block;
  for (int64_t done = 0; done < count;) {
    const int64_t n = std::min<int64_t>(count - done, static_cast<int64_t>(block.size()) / width);
    file.read_at(offset, block.data(), n * width);
    convert(*t.type, block.data(), n, values + done);
    done += n, offset += n * width;
  }
}

std::string shape_text(const StoredTensor& t) {
  return std::string(t.type->name) + " [" + joined(t.shape) + "]";
}

/// A key that occurs twice in an object of the header, or none.
std::optional<std::string> doubled_key(std::string_view header) {
  std::vector<std::set<std::string>> seen;  // keys of the open objects
  std::optional<std::string> out;
  const auto look = [&](int depth, nlohmann::json::parse_event_t what, nlohmann::json& j) {
    using Event = nlohmann::json::parse_event_t;
    if (what == Event::object_start) seen.resize(std::max<size_t>(seen.size(), depth + 2));
    if (what == Event::object_start) seen[depth + 1].clear();
    if (what == Event::key && !seen[depth].insert(j.get<std::string>()).second && !out)
      out = j.get<std::string>();
    return true;
  };
  const nlohmann::json all = nlohmann::json::parse(header, look, /*allow_exceptions=*/false);
  return all.is_discarded() ? std::nullopt : out;
}

/// Throws ConfigError for an unreadable path, with a fix instead of a system error.
const fs::path& readable(const fs::path& path) {
  const InputFile can_be(path);
  return path;
}

/// A non-negative integer, which the format requires without point or exponent.
int64_t whole(const nlohmann::json& j) {
  if (!j.is_number_unsigned() ||
      j.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    throw nlohmann::json::other_error::create(0, "no whole number", &j);
  return j.get<int64_t>();
}

/// Parses an entry of the header. `wrong` makes the error for a broken rule.
template <class Extent, class Wrong>
StoredTensor tensor_in(const nlohmann::json& entry, Extent& at, const Wrong& wrong) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets"))
    throw wrong("has not dtype, shape and data_offsets");
  const nlohmann::json &dtype = entry["dtype"], &offsets = entry["data_offsets"], &shape = entry["shape"];
  StoredTensor t;
  t.type = dtype.is_string() ? stored_type(dtype.get<std::string>()) : nullptr;
  if (!t.type) throw wrong("is of dtype " + dtype.dump() + ", which the format does not have");
  if (!shape.is_array()) throw wrong("has shape " + shape.dump() + ", which is no list");
  if (!offsets.is_array() || offsets.size() != 2) throw wrong("has data_offsets that are no pair");
  try {
    for (const auto& e : shape) {
      const int64_t extent = t.shape.emplace_back(whole(e));
      if (extent > 0 && t.count > std::numeric_limits<int64_t>::max() / 64 / extent)
        throw wrong("has a shape that no file can hold");
      t.count *= extent;
    }
    at.begin = whole(offsets[0]), at.end = whole(offsets[1]);
  } catch (const nlohmann::json::exception&) {  // replaces the library's message
    throw wrong("has a shape or data_offsets that are no whole numbers");
  }
  const int64_t bits = t.count * t.type->bits;
  if (bits % 8 != 0) throw wrong("is " + shape_text(t) + ", which ends within a byte");
  if (at.begin > at.end || at.end - at.begin != bits / 8)
    throw wrong("is " + shape_text(t) + " of " + std::to_string(bits / 8) +
                " bytes, and its data_offsets are " + std::to_string(at.begin) + " and " +
                std::to_string(at.end));
  return t;
}

}  // namespace

OpenFile::OpenFile(fs::path path, int flags)
    : path_(std::move(path)), fd_(::open(path_.c_str(), flags | O_CLOEXEC, 0644)) {
  if (fd_ < 0) fail("cannot open", path_);
}

OpenFile::~OpenFile() {
  ::close(fd_);
}

void OpenFile::write_at(int64_t offset, const void* data, int64_t bytes) const {
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::pwrite(fd_, p, static_cast<size_t>(bytes), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot write", path_);
    p += n, offset += n, bytes -= n;
  }
}

void OpenFile::read_at(int64_t offset, void* data, int64_t bytes) const {
  char* p = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::pread(fd_, p, static_cast<size_t>(bytes), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot read", path_);
    if (n == 0) throw torn(path_, "it became shorter while it was read");
    p += n, offset += n, bytes -= n;
  }
}

void OpenFile::resize(int64_t bytes) const {
  if (::ftruncate(fd_, bytes) != 0) fail("cannot resize", path_);
}

int64_t OpenFile::size() const {
  struct stat s {};
  if (::fstat(fd_, &s) != 0) fail("cannot read", path_);
  return s.st_size;
}

void OpenFile::sync() const {
  if (::fsync(fd_) != 0) fail("cannot sync", path_);
}

void create_safetensors(const fs::path& path, const std::vector<plan::Tensor>& tensors,
                        const Metadata& metadata, DType type) {
  const std::string header = header_of(tensors, metadata, type);
  auto bytes = static_cast<int64_t>(header.size());
  for (const plan::Tensor& t : tensors) bytes += elements(t.shape) * size_of(type);
  make_anew(path);
  const OpenFile file(path, O_WRONLY);
  file.write_at(0, header.data(), static_cast<int64_t>(header.size()));
  file.resize(bytes);
  file.sync();
}

SafetensorsWriter::SafetensorsWriter(const fs::path& path, const std::vector<plan::Tensor>& tensors,
                                     const Metadata& metadata, DType type)
    : type_(type), file_(path, O_WRONLY) {
  auto offset = static_cast<int64_t>(header_of(tensors, metadata, type).size());
  for (const plan::Tensor& t : tensors) {
    const int64_t n = elements(t.shape);
    if (!places_.try_emplace(t.name, Place{offset, n}).second)
      throw std::logic_error("two tensors are called " + t.name);
    offset += n * size_of(type);
  }
}

void SafetensorsWriter::write(const std::string& name, int64_t first, int64_t count,
                              const float* values) const {
  const auto at = places_.find(name);
  if (at == places_.end() || first < 0 || count < 0 || first + count > at->second.count)
    throw std::logic_error("elements outside of the file's tensors are written: " + name);
  const int64_t width = size_of(type_), offset = at->second.offset + first * width;
  if (type_ == DType::f32) return file_.write_at(offset, values, count * width);
  std::vector<bf16> rounded(static_cast<size_t>(count));
  std::transform(values, values + count, rounded.begin(), to_bf16);
  file_.write_at(offset, rounded.data(), count * width);
}

SafetensorsReader::SafetensorsReader(const fs::path& path) : file_(readable(path), O_RDONLY) {
  uint64_t length = 0;
  const int64_t prefix = sizeof length, size = file_.size();
  if (size < prefix) throw torn(path, "it ends before the 8 bytes of its header's length");
  file_.read_at(0, &length, prefix);
  if (length > kLongestHeader)
    throw torn(path,
               "its header should be of " + std::to_string(length) + " bytes, more than the format's 100 MB");
  if (length > static_cast<uint64_t>(size - prefix))
    throw torn(path, "the header is cut off: it should be of " + std::to_string(length) + " bytes, and " +
                         std::to_string(size - prefix) + " follow");
  std::string header(length, '\0');
  const int64_t base = prefix + static_cast<int64_t>(length);
  file_.read_at(prefix, header.data(), base - prefix);
  parse(header, base, size - base);
}

void SafetensorsReader::parse(std::string_view text, int64_t base, int64_t room) {
  if (const std::string excess = json_excess(text); !excess.empty())
    throw torn(path(), "the header " + excess);
  const nlohmann::json header = parse_json(text);
  if (header.is_discarded()) throw torn(path(), "the header " + json_fault(text));
  if (!header.is_object()) throw torn(path(), "the header is no JSON object");
  if (const auto twice = doubled_key(text)) throw torn(path(), "the header has '" + *twice + "' twice");
  std::vector<Extent> extents;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      take_metadata(entry);
      continue;
    }
    const auto wrong = [&, &key = name](const std::string& what) {
      return torn(path(), std::string("'").append(key).append("' ").append(what));
    };
    Extent at{0, 0, name};
    StoredTensor t = tensor_in(entry, at, wrong);
    if (at.end > room)
      throw wrong("is cut off: it ends at byte " + std::to_string(at.end) + " of the data, which has " +
                  std::to_string(room));
    t.name = name;
    t.offset = base + at.begin;
    tensors_[name] = std::move(t);
    extents.push_back(std::move(at));
  }
  refuse_gaps(extents, room);
}

void SafetensorsReader::take_metadata(const nlohmann::json& entry) {
  if (entry.is_null()) return;
  if (!entry.is_object()) throw torn(path(), "__metadata__ is no object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) throw torn(path(), "__metadata__ has '" + key + "', which is no text");
    metadata_[key] = value.get<std::string>();
  }
}

/// Throws unless the tensors cover the data contiguously from the first byte to the last.
void SafetensorsReader::refuse_gaps(std::vector<Extent>& extents, int64_t room) const {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  int64_t end = 0;
  std::string last = "the data's begin";
  const auto bytes = [](int64_t from, int64_t to) {
    return "bytes " + std::to_string(from) + " to " + std::to_string(to) + " of the data";
  };
  for (const Extent& e : extents) {
    if (e.begin < end)
      throw torn(path(), "'" + e.name + "' has " + bytes(e.begin, e.end) + ", and '" + last +
                             "' has them up to " + std::to_string(end) + ": they overlap");
    if (e.begin > end)
      throw torn(path(), bytes(end, e.begin) + ", before '" + e.name + "', are of no tensor");
    end = e.end, last = e.name;
  }
  if (end != room) throw torn(path(), bytes(end, room) + ", behind the last tensor, are of none");
}

template <class T>
void SafetensorsReader::read_any(const StoredTensor& t, int64_t first, int64_t count, T* values) const {
  if (first < 0 || count < 0 || first + count > t.count)
    throw std::logic_error("elements outside of a tensor are read");
  if (!t.floating())
    throw ConfigError(path().string(), t.name,
                      "is of type " + std::string(t.type->name) + ", and weights are floating-point numbers",
                      "write it as BF16, F16 or F32");
  read_converted(file_, t, first, count, values);
}

void SafetensorsReader::read(const StoredTensor& t, int64_t first, int64_t count, float* values) const {
  read_any(t, first, count, values);
}

void SafetensorsReader::read(const StoredTensor& t, int64_t first, int64_t count, double* values) const {
  read_any(t, first, count, values);
}

void SafetensorsReader::read_whole(const StoredTensor& t, std::vector<double>& values) const {
  if (t.type->kind == StoredType::Kind::other) return;
  values.resize(static_cast<size_t>(t.count));
  read_converted(file_, t, 0, t.count, values.data());
}

void refuse_nonfinite(const std::string& file, const std::string& tensor, int64_t first, int64_t of,
                      std::span<const float> values) {
  const auto wrong = std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
  if (wrong == values.end()) return;
  throw ConfigError(file, tensor,
                    std::string("holds ") + (std::isnan(*wrong) ? "NaN" : "infinity") + " (element " +
                        std::to_string(first + (wrong - values.begin())) + " of " + std::to_string(of) + ")",
                    "take weights of a training that did not diverge");
}

TensorFile read_safetensors(const fs::path& path) {
  const SafetensorsReader file(path);
  TensorFile out{{}, file.metadata()};
  for (const auto& [name, t] : file.tensors()) {
    TensorFile::Values& to = out.tensors[name];
    to.shape = t.shape;
    file.read_whole(t, to.values);
  }
  return out;
}

}  // namespace isobar::inference
