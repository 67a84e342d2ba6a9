// safetensors files: 8 bytes of header length (little-endian), a JSON header {name: {dtype, shape,
// data_offsets}}, then raw little-endian data. Reads floating-point types of 8 to 64 bits and writes F32 or
// BF16; accepts a file exactly when the format's own library does. Many processes may write one file, and
// each reads only the elements that it needs.
//
//   if (rank == 0) create_safetensors(path, {{"head.weight", {1280, 384}}}, {{"step", "100"}});
//   barrier();
//   SafetensorsWriter w(path, {{"head.weight", {1280, 384}}}, {{"step", "100"}});
//   w.write("head.weight", first, count, data);   w.sync();
//
//   SafetensorsReader r(path);   r.read(r.tensors().at("head.weight"), first, count, data);
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/inference/weights/stored_type.h"
#include "model/plan/plan.h"

namespace isobar::inference {

using Metadata = std::map<std::string, std::string>;

class OpenFile {  // closes itself; throws std::system_error
 public:
  OpenFile(std::filesystem::path path, int flags);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  const std::filesystem::path& path() const { return path_; }
  void write_at(int64_t offset, const void* data, int64_t bytes) const;
  void read_at(int64_t offset, void* data, int64_t bytes) const;  // throws on a short read
  void resize(int64_t bytes) const;
  int64_t size() const;
  void sync() const;

 private:
  std::filesystem::path path_;
  int fd_;
};

/// Creates the file with its header and full size, all values zero, and fsyncs it. Offsets depend only on the
/// arguments, so that other processes can write into the file.
void create_safetensors(const std::filesystem::path& path, const std::vector<plan::Tensor>& tensors,
                        const Metadata& metadata, DType type = DType::f32);

/// Writes values into a created file; the arguments must equal those of create_safetensors.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<plan::Tensor>& tensors,
                    const Metadata& metadata, DType type = DType::f32);
  /// Writes elements [first, first + count) of the tensor, row-major; rounded if the file's type is.
  void write(const std::string& name, int64_t first, int64_t count, const float* values) const;
  void sync() const { file_.sync(); }

 private:
  struct Place {
    int64_t offset, count;  // bytes from the file's start; elements
  };
  std::map<std::string, Place> places_;
  const DType type_;
  OpenFile file_;
};

struct StoredTensor {
  std::string name;
  std::vector<int64_t> shape;
  int64_t count = 1;   // elements
  int64_t offset = 0;  // bytes from the file's start
  const StoredType* type = nullptr;
  bool floating() const { return type->kind == StoredType::Kind::floating; }
};

/// Throws ConfigError for a file that is missing, truncated or malformed, including overlaps, gaps or bytes
/// after the last tensor.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::filesystem::path& path);
  const std::filesystem::path& path() const { return file_.path(); }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }
  /// Reads elements [first, first + count), row-major, converted. Throws ConfigError for other types than
  /// floating point.
  void read(const StoredTensor& t, int64_t first, int64_t count, float* values) const;
  void read(const StoredTensor& t, int64_t first, int64_t count, double* values) const;
  /// Reads a whole tensor of any type; packed and complex types give no values.
  void read_whole(const StoredTensor& t, std::vector<double>& values) const;

 private:
  struct Extent {  // byte range of a tensor within the data
    int64_t begin, end;
    std::string name;
  };
  void parse(std::string_view header, int64_t base, int64_t room);
  void take_metadata(const nlohmann::json& entry);
  void refuse_gaps(std::vector<Extent>& extents, int64_t room) const;
  template <class T>
  void read_any(const StoredTensor& t, int64_t first, int64_t count, T* values) const;
  OpenFile file_;
  std::map<std::string, StoredTensor> tensors_;
  Metadata metadata_;
};

/// Throws ConfigError when one of these elements (of `of` in the tensor) is NaN or infinity, since another
/// program's training may have diverged.
void refuse_nonfinite(const std::string& file, const std::string& tensor, int64_t first, int64_t of,
                      std::span<const float> values);

struct TensorFile {  // a small file, read whole
  struct Values {
    std::vector<int64_t> shape;
    std::vector<double> values;  // widened from any type; none for packed and complex types
  };
  std::map<std::string, Values> tensors;
  Metadata metadata;
};
TensorFile read_safetensors(const std::filesystem::path& path);

}  // namespace isobar::inference
