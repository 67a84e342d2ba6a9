#include "model/data/foreign.h"

#include "model/base/error.h"
#include "model/base/files.h"

namespace isobar {

std::string read_foreign(const std::string& path, const std::string& key,
                         const std::vector<std::string>& variables,
                         const std::function<std::string(const FieldFiles&, const ChildProgress&)>& work,
                         const ChildProgress& seen) {
  const std::vector<std::filesystem::path> paths = field_paths(path, key);
  ChildLimits limits;
  for (const auto& p : paths) limits.memory_bytes += 4 * InputFile(p, key).size();
  std::string at = path;  // what is read
  const auto read = [&](const ChildProgress& report) {
    // The files' numbers go below 0, apart from what `work` reports.
    const FieldFiles files =
        open_fields(path, key, variables, [&](size_t i) { report(-1 - static_cast<int64_t>(i)); });
    report(-1 - static_cast<int64_t>(paths.size()));
    return work(files, report);
  };
  const auto follow = [&](int64_t done) {
    const auto file = static_cast<size_t>(-1 - done);
    if (done < 0)
      at = file < paths.size() ? paths[file].string() : path;
    else if (seen)
      seen(done);
  };
  try {
    return in_child(limits, read, follow);
  } catch (const ChildDied& e) {
    throw ConfigError(at, key, e.what(), "the file is damaged, or made to harm: copy or download it again");
  }
}

void require_fields(const std::string& path, const std::string& key,
                    const std::vector<std::string>& variables) {
  read_foreign(path, key, variables, [](const FieldFiles& files, const ChildProgress& done) {
    for (size_t i = 0; i < files.size(); ++i) {
      done(-1 - static_cast<int64_t>(i));
      const FieldInfo& info = files[i]->info();
      const FieldShape corner{info.shape.channels, 1, 1};
      std::vector<float> values(static_cast<size_t>(corner.size()));
      for (const int64_t t : {int64_t{0}, info.steps - 1}) {
        try {
          files[i]->read(t, corner, nullptr, values.data());
        } catch (const ConfigError&) {
          // A hole in a step that the run may never use; it is told where it is read.
        }
      }
    }
    return std::string();
  });
}

}  // namespace isobar
