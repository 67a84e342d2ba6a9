#include "model/data/files/npz.h"

#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/system/temporary.h"

namespace isobar::data {
namespace {

const char* const kNpzMend =
    "write it with numpy.savez or numpy.savez_compressed: numpy.savez(path, sst=sst, tair=tair)";
constexpr std::string_view kSuffix = ".npy";
constexpr int64_t kLongestArray = int64_t{1} << 30;  // bytes, unpacked

std::string said_of(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

}  // namespace

NpzFile::NpzFile(std::string path, std::string key) : path_(std::move(path)), key_(std::move(key)) {
  const InputFile file(path_, key_);
  const int own = ::dup(file.fd());  // zip_fdopen takes ownership
  if (own < 0) throw ConfigError(path_, key_, std::string("cannot be opened: ") + std::strerror(errno), "");
  int code = 0;
  zip_ = zip_fdopen(own, 0, &code);
  if (zip_) return;
  ::close(own);
  throw ConfigError(path_, key_, "is no .npz file: " + said_of(code), kNpzMend);
}

NpzFile::~NpzFile() {
  zip_discard(zip_);
}

std::vector<std::string> NpzFile::names() const {
  std::vector<std::string> names;
  const zip_int64_t entries = zip_get_num_entries(zip_, 0);
  for (zip_int64_t i = 0; i < entries; ++i) {
    const char* name = zip_get_name(zip_, static_cast<zip_uint64_t>(i), 0);
    if (!name || !std::string_view(name).ends_with(kSuffix)) continue;
    const std::string array(name, std::strlen(name) - kSuffix.size());
    if (std::find(names.begin(), names.end(), array) == names.end()) names.push_back(array);
  }
  return names;
}

// Searched from the end: NumPy reads the last entry of a name that occurs twice.
int64_t NpzFile::entry_of(const std::string& name) const {
  for (zip_int64_t i = zip_get_num_entries(zip_, 0); i-- > 0;) {
    const char* member = zip_get_name(zip_, static_cast<zip_uint64_t>(i), 0);
    if (member && name + std::string(kSuffix) == member) return i;
  }
  return -1;
}

bool NpzFile::has(const std::string& name) const {
  return entry_of(name) >= 0;
}

NpyArray NpzFile::read(const std::string& name) const {
  const std::string member = name + std::string(kSuffix);
  const auto refuse = [&](const std::string& what) {
    throw ConfigError(path_ + ": " + member, key_, what, kNpzMend);
  };
  const int64_t entry = entry_of(name);
  if (entry < 0) refuse("is not there");
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(
      zip_fopen_index(zip_, static_cast<zip_uint64_t>(entry), 0), zip_fclose);
  if (!file) refuse(std::string("cannot be read: ") + zip_strerror(zip_));
  // Reads in pieces, because the length in a damaged file may be too large to allocate.
  std::string bytes, piece(size_t{1} << 20, '\0');
  for (;;) {
    const zip_int64_t got = zip_fread(file.get(), piece.data(), piece.size());
    if (got < 0) refuse(std::string("cannot be read: ") + zip_file_strerror(file.get()));
    if (got == 0) break;
    bytes.append(piece.data(), static_cast<size_t>(got));
    if (static_cast<int64_t>(bytes.size()) > kLongestArray)
      refuse("holds more than " + std::to_string(kLongestArray >> 20) + " MB");
  }
  return parse_npy(bytes, path_ + ": " + member, key_, kNpzMend);
}

NpzOutput::NpzOutput(std::string path) : path_(std::move(path)), part_(path_ + ".part") {
  try {
    make_anew(part_);  // fails before hours of work, not after them
  } catch (const std::system_error& e) {
    fail(e.code().message());
  }
}

NpzOutput::~NpzOutput() {
  std::error_code gone;
  std::filesystem::remove(part_, gone);
}

void NpzOutput::fail(const std::string& why) const {
  throw ConfigError(path_, "", "cannot be written: " + why,
                    "give a folder that exists, can be written and has room");
}

void NpzOutput::add(const std::string& name, std::string npy) {
  members_.emplace_back(name + std::string(kSuffix), std::move(npy));
}

void NpzOutput::finish() {
  int code = 0;
  zip_t* const zip = zip_open(part_.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  if (!zip) fail(said_of(code));
  std::unique_ptr<zip_t, void (*)(zip_t*)> open(zip, zip_discard);
  for (const auto& [name, bytes] : members_) {
    zip_source_t* const source = zip_source_buffer(zip, bytes.data(), bytes.size(), 0);
    const zip_int64_t i = source ? zip_file_add(zip, name.c_str(), source, ZIP_FL_ENC_UTF_8) : -1;
    if (i < 0) {
      if (source) zip_source_free(source);
      fail(zip_strerror(zip));
    }
    if (zip_set_file_compression(zip, static_cast<zip_uint64_t>(i), ZIP_CM_STORE, 0) != 0)
      fail(zip_strerror(zip));
  }
  if (zip_close(zip) != 0) fail(zip_strerror(zip));
  (void)open.release();  // zip_close has freed it
  rename_synced(part_, path_);
}

}  // namespace isobar::data
