#include "model/engine/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

#include "model/base/error.h"
#include "model/base/files.h"

namespace isobar {
namespace {

void write_bytes(int fd, const void* data, size_t n, const std::filesystem::path& path) {
  const char* p = static_cast<const char*>(data);
  while (n > 0) {
    const ssize_t w = ::write(fd, p, n);
    if (w < 0 && errno == EINTR) continue;
    if (w < 0) throw std::system_error(errno, std::generic_category(), "cannot write " + path.string());
    p += w;
    n -= static_cast<size_t>(w);
  }
}

struct File {
  int fd;
  ~File() { ::close(fd); }
};

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  header["__metadata__"] = metadata;
  int64_t offset = 0;
  std::vector<int64_t> bytes;
  for (const TensorView& t : tensors) {
    int64_t n = sizeof(float);
    for (int64_t extent : t.shape) n *= extent;
    header[t.name] = {{"dtype", "F32"}, {"shape", t.shape}, {"data_offsets", {offset, offset + n}}};
    offset += n;
    bytes.push_back(n);
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  File file{::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
  if (file.fd < 0) throw std::system_error(errno, std::generic_category(), "cannot write " + path.string());
  write_bytes(file.fd, &length, sizeof length, path);
  write_bytes(file.fd, text.data(), text.size(), path);
  for (size_t i = 0; i < tensors.size(); ++i) write_bytes(file.fd, tensors[i].data, bytes[i], path);
  if (::fsync(file.fd) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot sync " + path.string());
}

TensorFile read_safetensors(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  const auto bad = [&](const std::string& what) {
    return ConfigError(path.string(), "", "is not a whole safetensors file: " + what,
                       "take another checkpoint");
  };
  uint64_t length = 0;
  if (bytes.size() < sizeof length) throw bad("no header");
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > bytes.size() - sizeof length) throw bad("the header is cut off");
  const nlohmann::json header = nlohmann::json::parse(bytes.substr(sizeof length, length), nullptr, false);
  if (!header.is_object()) throw bad("the header is not JSON");
  const size_t base = sizeof length + length, room = bytes.size() - base;
  TensorFile out;
  try {
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        out.metadata = entry.get<std::map<std::string, std::string>>();
        continue;
      }
      const std::string dtype = entry.at("dtype");
      if (dtype != "F32" && dtype != "F64")
        throw bad(std::string("'").append(name).append("' is ").append(dtype).append(", not F32 or F64"));
      const size_t width = dtype == "F32" ? 4 : 8;
      const size_t begin = entry.at("data_offsets").at(0), end = entry.at("data_offsets").at(1);
      Tensor t{entry.at("shape").get<std::vector<int64_t>>(), {}};
      size_t n = 1;
      for (int64_t extent : t.shape) n *= static_cast<size_t>(extent);
      if (begin > end || end > room || (end - begin) / width != n)
        throw bad(std::string("'").append(name).append("' is cut off"));
      t.values.resize(n);
      const char* data = bytes.data() + base + begin;
      for (size_t i = 0; i < n; ++i) {
        if (width == 8) {
          std::memcpy(&t.values[i], data + 8 * i, 8);
        } else {
          float x;
          std::memcpy(&x, data + 4 * i, 4);
          t.values[i] = x;
        }
      }
      out.tensors[name] = std::move(t);
    }
  } catch (const nlohmann::json::exception& e) {
    throw bad(e.what());
  }
  return out;
}

}  // namespace isobar
