#include "model/data/files/foreign.h"

#include "model/base/error.h"
#include "model/base/system/files.h"

namespace isobar::data {

ForeignRead::ForeignRead(std::string path, std::string key, const FieldChoice& choice,
                         const std::function<std::string(const FieldFiles&, const ChildProgress&)>& work)
    : path_(std::move(path)), key_(std::move(key)), paths_(field_paths(path_, key_)) {
  ChildLimits limits;
  for (const auto& p : paths_)  // a Zarr directory needs memory for a few chunks only
    if (!std::filesystem::is_directory(p)) limits.memory_bytes += 4 * InputFile(p, key_).size();
  child_.emplace(limits, [&](const ChildProgress& report) {
    // Negative progress is a file's index; `work` reports 0 and above.
    const FieldFiles files =
        open_fields(path_, key_, choice, [&](size_t i) { report(-1 - static_cast<int64_t>(i)); });
    report(-1 - static_cast<int64_t>(paths_.size()));
    return work(files, report);
  });
}

std::string ForeignRead::answer(const ChildProgress& seen) {
  std::string at = path_;  // the file being read
  const auto follow = [&](int64_t done) {
    const auto file = static_cast<size_t>(-1 - done);
    if (done < 0)
      at = file < paths_.size() ? paths_[file].string() : path_;
    else if (seen)
      seen(done);
  };
  try {
    return child_->answer(follow);
  } catch (const ChildDied& e) {
    throw ConfigError(at, key_, e.what(), kHarmful);
  } catch (const ChildFailed& e) {
    throw ConfigError(at, key_, std::string("cannot be read: ") + e.what(), kHarmful);
  }
}

std::string read_foreign(const std::string& path, const std::string& key, const FieldChoice& choice,
                         const std::function<std::string(const FieldFiles&, const ChildProgress&)>& work,
                         const ChildProgress& seen) {
  return ForeignRead(path, key, choice, work).answer(seen);
}

namespace {

constexpr int64_t kReadByLibrary = int64_t{1} << 30;  // bytes, of all files

void look_at(const FieldFile& file, int64_t most_bytes, const std::function<void()>& alive) {
  file.try_library(most_bytes, alive);
  const FieldInfo& info = file.info();
  const FieldShape corner{info.shape.channels, 1, 1};
  std::vector<float> values(static_cast<size_t>(corner.size()));
  for (const int64_t t : {int64_t{0}, info.steps - 1}) {
    try {
      file.read(t, corner, nullptr, values.data());
    } catch (const ConfigError&) {
      // Missing values in a step that the run may never use: an error only when that step is read.
    }
  }
}

}  // namespace

void require_fields(const std::string& path, const std::string& key, const FieldChoice& choice,
                    const std::function<void(const FieldInfo&)>& also) {
  read_foreign(path, key, choice, [&](const FieldFiles& files, const ChildProgress& done) {
    for (size_t i = 0; i < files.size() && also; ++i) also(files[i]->info());
    for (size_t i = 0; i < files.size(); ++i)
      look_at(*files[i], kReadByLibrary / static_cast<int64_t>(files.size()),
              [&] { done(-1 - static_cast<int64_t>(i)); });
    return std::string();
  });
}

}  // namespace isobar::data
