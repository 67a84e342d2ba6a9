#include "model/inference/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <type_traits>

#include "model/base/error.h"
#include "model/base/files.h"
#include "model/base/json.h"

namespace isobar {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLongestHeader = 100'000'000;  // as the format's own library has it

[[noreturn]] void fail(const char* doing, const fs::path& path) {
  throw std::system_error(errno, std::generic_category(), std::string(doing) + " " + path.string());
}

ConfigError torn(const fs::path& path, const std::string& what) {
  return {path.string(), "", "is not a whole safetensors file: " + what, "take another checkpoint"};
}

int64_t elements(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  return n;
}

/// Length and JSON, padded to a multiple of 8 bytes.
std::string header_of(const std::vector<Tensor>& tensors, const Metadata& metadata) {
  nlohmann::ordered_json header;
  header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const Tensor& t : tensors) {
    const int64_t end = offset + elements(t.shape) * static_cast<int64_t>(sizeof(float));
    header[t.name] = {{"dtype", "F32"}, {"shape", t.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out + text;
}

template <class Stored, class T>
void read_as(const OpenFile& file, int64_t offset, int64_t count, T* values) {
  if constexpr (std::is_same_v<Stored, T>) {
    file.read_at(offset, values, count * static_cast<int64_t>(sizeof(T)));
  } else {
    std::array<Stored, 4096> block;
    for (int64_t done = 0; done < count;) {
      const int64_t n = std::min<int64_t>(count - done, block.size());
      file.read_at(offset + done * static_cast<int64_t>(sizeof(Stored)), block.data(),
                   n * static_cast<int64_t>(sizeof(Stored)));
      std::transform(block.begin(), block.begin() + n, values + done,
                     [](Stored x) { return static_cast<T>(x); });
      done += n;
    }
  }
}

template <class T>
void read_any(const OpenFile& file, const StoredTensor& t, int64_t first, int64_t count, T* values) {
  if (first < 0 || count < 0 || first + count > t.count)
    throw std::logic_error("elements outside of a tensor are read");
  const int64_t offset = t.offset + first * t.width;
  if (t.width == sizeof(float))
    read_as<float>(file, offset, count, values);
  else
    read_as<double>(file, offset, count, values);
}

/// A path that cannot be read is the user's to mend, not the system's to explain.
const fs::path& readable(const fs::path& path) {
  const InputFile can_be(path);
  return path;
}

int64_t integer(const nlohmann::json& j) {
  if (!j.is_number_integer()) throw nlohmann::json::other_error::create(0, "no whole number", &j);
  return j.get<int64_t>();
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

void create_safetensors(const fs::path& path, const std::vector<Tensor>& tensors, const Metadata& metadata) {
  const std::string header = header_of(tensors, metadata);
  auto bytes = static_cast<int64_t>(header.size());
  for (const Tensor& t : tensors) bytes += elements(t.shape) * static_cast<int64_t>(sizeof(float));
  const OpenFile file(path, O_WRONLY | O_CREAT | O_TRUNC);
  file.write_at(0, header.data(), static_cast<int64_t>(header.size()));
  file.resize(bytes);
  file.sync();
}

SafetensorsWriter::SafetensorsWriter(const fs::path& path, const std::vector<Tensor>& tensors,
                                     const Metadata& metadata)
    : file_(path, O_WRONLY) {
  auto offset = static_cast<int64_t>(header_of(tensors, metadata).size());
  for (const Tensor& t : tensors) {
    const int64_t n = elements(t.shape);
    if (!places_.try_emplace(t.name, Place{offset, n}).second)
      throw std::logic_error("two tensors are called " + t.name);
    offset += n * static_cast<int64_t>(sizeof(float));
  }
}

void SafetensorsWriter::write(const std::string& name, int64_t first, int64_t count,
                              const float* values) const {
  const auto at = places_.find(name);
  if (at == places_.end() || first < 0 || count < 0 || first + count > at->second.count)
    throw std::logic_error("elements outside of the file's tensors are written: " + name);
  const auto width = static_cast<int64_t>(sizeof(float));
  file_.write_at(at->second.offset + first * width, values, count * width);
}

SafetensorsReader::SafetensorsReader(const fs::path& path) : file_(readable(path), O_RDONLY) {
  uint64_t length = 0;
  const int64_t prefix = sizeof length, size = file_.size();
  if (size < prefix) throw torn(path, "no header");
  file_.read_at(0, &length, prefix);
  if (length > static_cast<uint64_t>(size - prefix)) throw torn(path, "the header is cut off");
  if (length > kLongestHeader)
    throw torn(path,
               "its header should be of " + std::to_string(length) + " bytes, more than the format's 100 MB");
  std::string header(length, '\0');
  const int64_t base = prefix + static_cast<int64_t>(length);
  file_.read_at(prefix, header.data(), base - prefix);
  parse(header, base, size - base);
}

void SafetensorsReader::parse(std::string_view text, int64_t base, int64_t room) {
  const nlohmann::json header = parse_json(text);
  if (!header.is_object()) throw torn(path(), "the header is not a JSON object of bounded size");
  try {
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        metadata_ = entry.get<Metadata>();
        continue;
      }
      const auto bad = [&, &key = name](const std::string& what) {
        return torn(path(), std::string("'").append(key).append("' ").append(what));
      };
      const std::string dtype = entry.at("dtype");
      if (dtype != "F32" && dtype != "F64")
        throw bad(std::string("is ").append(dtype).append(", not F32 or F64"));
      const int width = dtype == "F32" ? 4 : 8;
      const int64_t begin = integer(entry.at("data_offsets").at(0)),
                    end = integer(entry.at("data_offsets").at(1));
      StoredTensor t{{}, 1, 0, width};
      for (const auto& e : entry.at("shape")) {
        const int64_t extent = t.shape.emplace_back(integer(e));
        if (extent < 0 || (extent > 0 && t.count > std::numeric_limits<int64_t>::max() / 8 / extent))
          throw bad("has a shape that no file can hold");
        t.count *= extent;
      }
      if (begin < 0 || begin > end || end > room || end - begin != t.count * width) throw bad("is cut off");
      t.offset = base + begin;
      tensors_[name] = std::move(t);
    }
  } catch (const nlohmann::json::exception&) {  // its texts are for programmers
    throw torn(path(), "the header lists something else than tensors with dtype, shape and data_offsets");
  }
}

void SafetensorsReader::read(const StoredTensor& t, int64_t first, int64_t count, float* values) const {
  read_any(file_, t, first, count, values);
}

void SafetensorsReader::read(const StoredTensor& t, int64_t first, int64_t count, double* values) const {
  read_any(file_, t, first, count, values);
}

TensorFile read_safetensors(const fs::path& path) {
  const SafetensorsReader file(path);
  TensorFile out{{}, file.metadata()};
  for (const auto& [name, t] : file.tensors()) {
    TensorFile::Values& to = out.tensors[name];
    to.shape = t.shape;
    to.values.resize(static_cast<size_t>(t.count));
    file.read(t, 0, t.count, to.values.data());
  }
  return out;
}

}  // namespace isobar
