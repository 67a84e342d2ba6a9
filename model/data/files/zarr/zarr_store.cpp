#include "model/data/files/zarr/zarr_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>
#include <unordered_map>

#include "model/base/error.h"
#include "model/base/system/files.h"

namespace isobar::data {

namespace {

namespace fs = std::filesystem;

constexpr const char* kGroupMetadata[] = {"zarr.json", ".zgroup", ".zmetadata"};
constexpr const char* kTornMend = "copy or download the store again";
constexpr int64_t kMostOfOne = int64_t{1} << 30;  // bytes of a key: chunks and metadata are far smaller

/// Offset and length of a part in an object of `size` bytes.
ZarrStore::Part within(const std::string& key, ZarrStore::Part part, int64_t size) {
  if (part.bytes < 0 && part.offset == 0) part.bytes = size;
  if (part.offset < 0) part.offset += size;
  if (part.offset < 0 || part.bytes < 0 || part.offset > size || part.bytes > size - part.offset)
    throw ArrayError("'" + key + "' has " + std::to_string(size) + " bytes, fewer than its index says (torn)",
                     kTornMend);
  if (part.bytes > kMostOfOne)
    throw ArrayError(
        "'" + key + "' has " + std::to_string(part.bytes) + " bytes; up to 1 GiB are read at once",
        "cut the array into smaller chunks");
  return part;
}

void require_bytes(int64_t has, int64_t wanted) {
  if (has != wanted)
    throw ArrayError(
        "a chunk has " + std::to_string(has) + " bytes, and " + std::to_string(wanted) + " are wanted",
        kTornMend);
}

class ZarrDirectory : public ZarrStore {
 public:
  explicit ZarrDirectory(const fs::path& root) : root_(root.string() + "/") {}

  bool read(const std::string& key, Part part, std::vector<std::byte>& out) const override {
    const auto place = [&](int64_t bytes) {
      out.resize(static_cast<size_t>(bytes));
      return out.data();
    };
    return read_as(key, part, place, {});
  }

  bool read_to(const std::string& key, Part part, std::byte* out, int64_t bytes,
               const BytesArrived& arrived) const override {
    const auto place = [&](int64_t has) {
      require_bytes(has, bytes);
      return out;
    };
    return read_as(key, part, place, arrived);
  }

  bool has_parts(const std::string&) const override { return true; }

  std::vector<std::string> children(const std::string& group) const override {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(root_ + group, error))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  /// `place`(bytes) returns the destination
  template <class Place>
  bool read_as(const std::string& key, Part part, const Place& place, const BytesArrived& arrived) const {
    const std::string path = root_ + key;
    const ChunkFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // no wait for a pipe
    if (file.fd < 0 && (errno == ENOENT || errno == ENOTDIR)) return false;
    struct stat about {};
    if (file.fd < 0 || ::fstat(file.fd, &about) != 0 || !S_ISREG(about.st_mode))
      throw ArrayError("'" + key + "' cannot be opened as a file", "check its permissions");
    part = within(key, part, about.st_size);
    read_exactly(file.fd, place(part.bytes), part.bytes, part.offset, arrived);
    return true;
  }

  struct ChunkFile {
    explicit ChunkFile(int of) : fd(of) {}
    ~ChunkFile() {
      if (fd >= 0) ::close(fd);
    }
    ChunkFile(const ChunkFile&) = delete;
    ChunkFile& operator=(const ChunkFile&) = delete;
    const int fd;
  };

  std::string root_;  // with a trailing slash
};

/// A libzip handle serves one thread, so each read takes an idle handle or opens another. A key written twice
/// has two entries, of which the last counts, as in Python's zipfile and zarr.
class ZarrZip : public ZarrStore {
 public:
  explicit ZarrZip(std::string path) : path_(std::move(path)) {
    const Lent zip(*this);
    const zip_int64_t n = zip_get_num_entries(zip.handle, 0);
    for (zip_int64_t i = 0; i < n; ++i) {
      const auto entry = static_cast<zip_uint64_t>(i);
      if (const char* name = zip_get_name(zip.handle, entry, 0)) entries_.insert_or_assign(name, entry);
    }
  }
  ~ZarrZip() override {
    for (zip_t* zip : idle_) zip_discard(zip);
  }

  bool read(const std::string& key, Part part, std::vector<std::byte>& out) const override {
    const auto entry = entries_.find(key);
    if (entry == entries_.end()) return false;
    const Lent zip(*this);
    zip_stat_t about;
    if (zip_stat_index(zip.handle, entry->second, 0, &about) != 0) fail(key, zip_strerror(zip.handle));
    if (!(about.valid & ZIP_STAT_SIZE) || about.size > INT64_MAX) fail(key, "its size is not told");
    const auto size = static_cast<int64_t>(about.size);
    part = within(key, part, size);
    const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(
        zip_fopen_index(zip.handle, entry->second, 0), zip_fclose);
    if (!file) fail(key, zip_strerror(zip.handle));
    if (part.offset > 0 && about.comp_method == ZIP_CM_STORE) {
      if (zip_fseek(file.get(), part.offset, SEEK_SET) != 0) fail(key, zip_file_strerror(file.get()));
      part.offset = 0;
    }
    out.resize(static_cast<size_t>(part.offset + part.bytes));  // a deflated member is read from its start
    for (int64_t at = 0; at < part.offset + part.bytes;) {
      const zip_int64_t n =
          zip_fread(file.get(), out.data() + at, static_cast<zip_uint64_t>(part.offset + part.bytes - at));
      if (n <= 0) fail(key, n < 0 ? zip_file_strerror(file.get()) : "it ends before its data do");
      at += n;
    }
    // libzip checks the checksum when it reads the end.
    std::byte beyond;
    if (part.bytes == size && zip_fread(file.get(), &beyond, 1) < 0) fail(key, zip_file_strerror(file.get()));
    out.erase(out.begin(), out.begin() + part.offset);
    return true;
  }

  bool has_parts(const std::string& key) const override {
    const auto entry = entries_.find(key);
    if (entry == entries_.end()) return false;
    const Lent zip(*this);
    zip_stat_t about;
    return zip_stat_index(zip.handle, entry->second, 0, &about) == 0 && about.comp_method == ZIP_CM_STORE;
  }

  std::vector<std::string> children(const std::string& group) const override {
    std::set<std::string> names;
    const std::string below = group.empty() ? "" : group + "/";
    for (const auto& [key, entry] : entries_) {
      if (!key.starts_with(below)) continue;
      const std::string name = key.substr(below.size(), key.find('/', below.size()) - below.size());
      if (!name.empty()) names.insert(name);
    }
    return {names.begin(), names.end()};
  }

 private:
  struct Lent {
    explicit Lent(const ZarrZip& from) : store(from), handle(from.take()) {}
    ~Lent() { store.give_back(handle); }
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    const ZarrZip& store;
    zip_t* handle;
  };

  zip_t* take() const {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        zip_t* zip = idle_.back();
        idle_.pop_back();
        return zip;
      }
    }
    const InputFile file(path_);
    const int own = ::dup(file.fd());  // zip_fdopen takes ownership
    if (own < 0) throw ArrayError(std::string("cannot be opened: ") + std::strerror(errno), "");
    int code = 0;
    zip_t* zip = zip_fdopen(own, 0, &code);
    if (zip) return zip;
    ::close(own);
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string said = zip_error_strerror(&error);
    zip_error_fini(&error);
    throw ArrayError("is no zip that can be read: " + said, kTornMend);
  }
  void give_back(zip_t* zip) const {
    const std::lock_guard lock(mutex_);
    idle_.push_back(zip);
  }
  [[noreturn]] static void fail(const std::string& key, const std::string& why) {
    throw ArrayError("'" + key + "' cannot be read: " + why, kTornMend);
  }

  std::string path_;
  std::unordered_map<std::string, zip_uint64_t> entries_;  // last entry of each key
  mutable std::mutex mutex_;
  mutable std::vector<zip_t*> idle_;
};

bool zip_holds_group(const fs::path& path) {
  try {
    const ZarrZip zip(path);
    std::vector<std::byte> bytes;
    return std::any_of(std::begin(kGroupMetadata), std::end(kGroupMetadata), [&](const char* name) {
      return zip.read(name, {0, 0}, bytes);
    });
  } catch (const ArrayError&) {  // not a zip, or one of something else, which its own reader judges
    return false;
  }
}

}  // namespace

bool ZarrStore::read_to(const std::string& key, Part part, std::byte* out, int64_t bytes,
                        const BytesArrived& arrived) const {
  thread_local std::vector<std::byte> held;
  if (!read(key, part, held)) return false;
  require_bytes(static_cast<int64_t>(held.size()), bytes);
  std::memcpy(out, held.data(), held.size());
  if (arrived) arrived(out, bytes);
  return true;
}

bool is_zarr(const fs::path& path) {
  std::error_code unknown;
  if (fs::is_directory(path, unknown))
    return std::any_of(std::begin(kGroupMetadata), std::end(kGroupMetadata),
                       [&](const char* name) { return fs::exists(path / name, unknown); });
  char magic[4] = "";
  const InputFile file(path);
  if (::pread(file.fd(), magic, sizeof magic, 0) != sizeof magic || std::memcmp(magic, "PK", 2) != 0)
    return false;
  return zip_holds_group(path);
}

std::unique_ptr<ZarrStore> open_zarr_store(const std::string& path) {
  if (fs::is_directory(path)) return std::make_unique<ZarrDirectory>(path);
  return std::make_unique<ZarrZip>(path);
}

}  // namespace isobar::data
