#include "model/data/tables/table_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "model/base/error.h"
#include "model/base/system/child.h"
#include "model/base/system/files.h"
#include "model/base/system/lock.h"
#include "model/base/system/temporary.h"
#include "model/base/text/hash.h"
#include "model/base/text/json.h"
#include "model/data/choice/kept.h"
#include "model/data/statistics/cache_directory.h"

namespace isobar::data {
namespace {

struct DamagedTable : std::runtime_error {
  using runtime_error::runtime_error;
};

namespace fs = std::filesystem;

constexpr int kVersion = 3;        // of the rules for rows and of the file format
constexpr double kLongest = 3600;  // s to wait for another process that gathers
constexpr size_t kHeader = 4096;   // bytes before places and values: one page
constexpr double kPatience = 3.5;  // s to wait for files that have just changed
constexpr int kLooks = 3;          // attempts when files change while being read

struct CacheHeader {
  char magic[16];
  int64_t rows, columns, missing, masked, thinned;
  char digest[64];  // of the members above, the places and the values
};
constexpr const char* kKept = ".kept-";  // between a table's name and the entry's
constexpr char kMagic[16] = "isobar table 3\n";

[[noreturn]] void fail(const std::string& doing, const fs::path& file) {
  throw std::system_error(errno, std::generic_category(), "cannot " + doing + " " + file.string());
}

std::string name_of_table(const std::string& path, const std::string& key,
                          const std::vector<std::string>& columns, const RowChoice& c) {
  nlohmann::json what = {{"version", kVersion},   {"columns", columns},     {"ice", c.ice},
                         {"least", c.least_ice},  {"with_ice", c.with_ice}, {"thin", c.thin_fraction},
                         {"most", c.max_patterns}};
  for (const std::string& one : files_of_table(path)) {
    const InputFile file(one, key);
    struct stat s {};
    if (::fstat(file.fd(), &s) != 0) fail("look at", one);
    what["files"].push_back(identity_of(one, s));
  }
  return sha256_hex(json_text(what)).substr(0, 32);
}

std::string digest_of_table(const CacheHeader& h, const int64_t* places, const float* values) {
  const std::string_view before(reinterpret_cast<const char*>(&h), offsetof(CacheHeader, digest));
  const auto rows = static_cast<size_t>(h.rows), columns = static_cast<size_t>(h.columns);
  return sha256_hex(std::string(before) + digest_of_blocks(places, rows * sizeof(int64_t)) +
                    digest_of_blocks(values, rows * columns * sizeof(float)));
}

/// Waits until a later change must get a different time; until then two states of a file could share a key.
void wait_until_settled(const std::string& path, const std::string& key) {
  const auto begun = std::chrono::steady_clock::now();
  for (const std::string& one : files_of_table(path)) {
    const InputFile file(one, key);
    struct stat s {};
    while (::fstat(file.fd(), &s) == 0 && !settled(s) &&
           std::chrono::steady_clock::now() - begun < std::chrono::duration<double>(kPatience))
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// Maps the file before renaming it, so that no other process can evict it in between.
std::shared_ptr<const MappedTable> write_table(const fs::path& file, const SampleTable& t, int64_t columns) {
  CacheHeader h{};
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  h.rows = t.rows, h.columns = columns;
  h.missing = t.left_out.missing, h.masked = t.left_out.masked, h.thinned = t.left_out.thinned;
  std::memcpy(h.digest, digest_of_table(h, t.places.data(), t.values.data()).data(), sizeof h.digest);
  std::string head(kHeader, '\0');
  std::memcpy(head.data(), &h, sizeof h);
  // The temporary name is fixed: the next holder of the lock overwrites what a killed process leaves.
  const fs::path half = file.string() + ".half";
  make_anew(half);
  std::ofstream out(half, std::ios::binary | std::ios::trunc);
  out.write(head.data(), kHeader);
  out.write(reinterpret_cast<const char*>(t.places.data()),
            static_cast<std::streamsize>(t.places.size() * sizeof(int64_t)));
  out.write(reinterpret_cast<const char*>(t.values.data()),
            static_cast<std::streamsize>(t.values.size() * sizeof(float)));
  out.close();
  if (!out) fail("write", half);
  auto table = std::make_shared<MappedTable>(half);
  rename_synced(half, file);
  return table;
}

/// Null when the table is absent or damaged; `says`: report damage on stderr.
std::shared_ptr<const MappedTable> if_there(const fs::path& file, int64_t columns, bool says) {
  std::error_code unknown;
  if (!fs::exists(file, unknown)) return nullptr;
  try {
    auto table = std::make_shared<MappedTable>(file, columns);
    return table->removed() ? nullptr : table;
  } catch (const ConfigError&) {
    if (fs::exists(file, unknown)) throw;
    return nullptr;  // another process has just evicted it
  } catch (const DamagedTable& e) {
    if (says) say_made_again(file, e.what(), "gathered");
    return nullptr;
  }
}

// ---- eviction ----

constexpr double kUsualLimit = 32;  // GB

double limit_in_bytes() {
  const char* said = std::getenv("ISOBAR_CACHE_GB");
  if (!said) return kUsualLimit * 1e9;
  char* end = nullptr;
  const double gb = std::strtod(said, &end);
  if (end == said || *end != '\0' || !(gb >= 0) || !std::isfinite(gb))
    throw ConfigError("environment", "ISOBAR_CACHE_GB", "is '" + std::string(said) + "', which is no size",
                      "give GB that gathered tables may take, e.g. 32");
  return gb * 1e9;
}

struct CachedTable {
  fs::path file;
  double bytes;
  fs::file_time_type used;
};

// Removes the table unless a process on any host has it open; returns whether it did.
bool remove_unless_mapped(const fs::path& file) {
  const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;  // no permission, or already removed
  const bool free = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  std::error_code failed;
  const bool removed = free && fs::remove(file, failed);
  ::close(fd);
  if (!removed) return false;
  std::vector<fs::path> kept;
  for (const auto& entry : fs::directory_iterator(file.parent_path()))
    if (entry.path().stem() == file.stem() && entry.path().extension().string().starts_with(kKept))
      kept.push_back(entry.path());
  for (const fs::path& one : kept) fs::remove(one, failed);
  return true;
}

// Holds the directory's lock, because two processes evicting at once would remove twice as much.
void make_room(const fs::path& dir, const fs::path& newest) {
  const double limit = limit_in_bytes();
  const FileLock lock(dir / "room.lock", 60);
  if (!lock.held()) return;  // another process is evicting
  std::vector<CachedTable> tables;
  double held = 0, freed = 0;
  for (const auto& entry : fs::directory_iterator(dir)) {
    std::error_code gone;  // set if the file was deleted meanwhile
    if (entry.path().extension() != ".table") continue;
    const auto bytes = static_cast<double>(entry.file_size(gone));
    const auto used = gone ? fs::file_time_type() : entry.last_write_time(gone);
    if (gone) continue;
    held += bytes;
    if (entry.path() != newest) tables.push_back({entry.path(), bytes, used});
  }
  std::sort(tables.begin(), tables.end(), [](const auto& a, const auto& b) { return a.used < b.used; });
  int64_t count = 0;
  for (const CachedTable& t : tables) {
    if (held - freed <= limit) break;
    if (remove_unless_mapped(t.file)) freed += t.bytes, ++count;
  }
  if (count > 0)
    std::fprintf(
        stderr,
        "isobar: removed %ld gathered tables, %.3g GB, from %s, which held %.3g GB (ISOBAR_CACHE_GB: %.3g)\n",
        static_cast<long>(count), freed * 1e-9, dir.c_str(), held * 1e-9, limit * 1e-9);
}

}  // namespace

MappedTable::MappedTable(const std::string& file, int64_t columns) : path_(file) {
  if (const fs::path half(file); half.extension() == ".half") path_ = half.parent_path() / half.stem();
  const InputFile in(file);
  bytes_ = static_cast<size_t>(in.size());
  CacheHeader h{};
  const bool read = ::pread(in.fd(), &h, sizeof h, 0) == static_cast<ssize_t>(sizeof h);
  // Files are renamed when complete, so a wrong length means later damage.
  constexpr int64_t kMost = int64_t{1} << 40;
  if (!read || std::memcmp(h.magic, kMagic, sizeof kMagic) != 0 || h.rows < 1 || h.rows > kMost ||
      h.columns < 1 || h.columns > (1 << 20) ||
      bytes_ != kHeader + static_cast<size_t>(h.rows) *
                              (sizeof(int64_t) + static_cast<size_t>(h.columns) * sizeof(float)))
    throw DamagedTable("it was cut off, or is no table");
  if (columns > 0 && h.columns != columns) throw DamagedTable("it has other columns");
  file_ = ::fcntl(in.fd(), F_DUPFD_CLOEXEC, 0);
  if (file_ < 0) fail("open", file);
  while (::flock(file_, LOCK_SH) != 0)
    if (errno != EINTR) fail("lock", file);
  map_ = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file_, 0);
  if (map_ == MAP_FAILED) {
    ::close(file_);
    fail("map", file);
  }
  const auto* const places = reinterpret_cast<const int64_t*>(static_cast<const char*>(map_) + kHeader);
  const auto* const values = reinterpret_cast<const float*>(places + h.rows);
  if (digest_of_table(h, places, values) != std::string_view(h.digest, sizeof h.digest)) {
    ::munmap(map_, bytes_);
    ::close(file_);
    throw DamagedTable("its digest is not the one that it was written with");
  }
  // Marks the table as used; without permission to do so its age stays.
  (void)::futimens(file_, nullptr);
  rows_ = h.rows, columns_ = h.columns;
  left_out_ = {h.missing, h.masked, h.thinned};
  places_ = places, values_ = values;
}

MappedTable::~MappedTable() {
  ::munmap(map_, bytes_);
  ::close(file_);
}

bool MappedTable::removed() const {
  struct stat s {};
  return ::fstat(file_, &s) == 0 && s.st_nlink == 0;
}

std::shared_ptr<const MappedTable> mapped_table(const std::string& path, const std::string& key,
                                                const std::vector<std::string>& columns,
                                                const RowChoice& choice, const std::function<void()>& alive) {
  const fs::path dir = cache_directory();
  const auto count = static_cast<int64_t>(columns.size());
  for (int look = 1; look <= kLooks; ++look) try {
      std::string name = name_of_table(path, key, columns, choice);
      if (auto table = if_there(dir / (name + ".table"), count, false)) return table;
      wait_until_settled(path, key);
      name = name_of_table(path, key, columns, choice);
      const fs::path file = dir / (name + ".table");
      fs::create_directories(dir);
      const FileLock lock(dir / (name + ".lock"), kLongest);
      if (!lock.held())
        throw ConfigError(file, key, "another process has been gathering this table for an hour",
                          "end it, or set ISOBAR_CACHE_DIR to another directory");
      if (auto table = if_there(file, count, true)) return table;  // gathered while this process waited
      const SampleTable t = read_table(path, key, columns, choice, alive);
      if (name != name_of_table(path, key, columns, choice)) continue;
      const auto made = write_table(file, t, count);
      append_line(
          dir / "tables.jsonl",
          json_text(nlohmann::json{{"table", file.filename().string()}, {"of", path}, {"rows", t.rows}}));
      make_room(dir, file);
      return made;
    } catch (const std::system_error& e) {
      throw ConfigError(dir, key, std::string("a gathered table cannot be kept there: ") + e.what(),
                        "make room, or set ISOBAR_CACHE_DIR to a directory that can be written to");
    }
  throw ConfigError(path, key, "changes while it is read", "wait until it is written");
}

nlohmann::json kept_with(const MappedTable& table, const std::string& name,
                         const std::function<nlohmann::json()>& make) {
  const fs::path file = fs::path(table.file()).replace_extension(kKept + name);
  if (auto j = read_kept(file, "")) return *j;
  try {
    const FileLock lock(fs::path(table.file()).replace_extension(".lock"), kLongest);
    if (auto j = read_kept(file, "computed")) return *j;  // computed while this process waited
    nlohmann::json j = make();
    if (lock.held() && !table.removed()) write_kept(file, j);
    return j;
  } catch (const std::system_error&) {
    return make();  // no permission, or disk full
  }
}

void require_table(const std::string& path, const std::string& key, const std::vector<std::string>& columns,
                   const RowChoice& choice) {
  ChildLimits limits;
  for (const std::string& file : files_of_table(path)) {
    const int64_t bytes = InputFile(file, key).size();
    limits.memory_bytes += 40 * bytes;
    limits.cpu_s += bytes / 1'000'000;  // parsing of columns reports no progress within a step
  }
  try {
    in_child(limits, [&](const ChildProgress& done) {
      int64_t steps = 0;
      mapped_table(path, key, columns, choice, [&] { done(++steps); });
      return std::string();
    });
  } catch (const ChildDied& e) {
    throw ConfigError(path, key, e.what(), kHarmful);
  } catch (const ChildFailed& e) {
    throw ConfigError(path, key, std::string("cannot be read: ") + e.what(), kHarmful);
  }
}

}  // namespace isobar::data
