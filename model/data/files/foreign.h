// Reads field files in a child process (model/base/system/child.h), because the HDF5 and netCDF libraries may
// crash, loop or exhaust memory on damaged files. Inspection and statistics (begin_statistics too) run there
// entirely. A run first opens its files there, once a host and before MPI, threads or devices start; then
// every rank opens the files that proved harmless.
//
//   require_fields("era5.nc", "data.train", {});                        // ConfigError if damaged
//   does read_foreign(path, "", {}, [](const FieldFiles& files, const ChildProgress& done) { return ...; });
#pragma once
#include <optional>

#include "model/base/system/child.h"
#include "model/data/fields/field_file.h"

namespace isobar::data {

/// Runs `work` on the files, opened like open_fields, in a child process that starts at once.
class ForeignRead {
 public:
  /// Throws ConfigError when there is no file.
  ForeignRead(std::string path, std::string key, const FieldChoice& choice,
              const std::function<std::string(const FieldFiles&, const ChildProgress&)>& work);
  /// Waits for the result of `work`; `seen` gets its progress (0 and above). Throws ConfigError for a child
  /// that dies, uses more than 10 s of processor time between reports of progress, or more memory than 2 GiB
  /// plus four times the files.
  std::string answer(const ChildProgress& seen = {});

 private:
  std::string path_, key_;
  std::vector<std::filesystem::path> paths_;
  std::optional<ChildWork> child_;
};

/// ForeignRead and answer() in one call.
std::string read_foreign(const std::string& path, const std::string& key, const FieldChoice& choice,
                         const std::function<std::string(const FieldFiles&, const ChildProgress&)>& work,
                         const ChildProgress& seen = {});

/// Opens the files in a child and calls `also` for each; both may throw ConfigError. Has the library do what
/// ranks will need: walk chunk indexes, read up to 1 GiB of data that only it decodes, and a corner of the
/// first and last step.
void require_fields(const std::string& path, const std::string& key, const FieldChoice& choice,
                    const std::function<void(const FieldInfo&)>& also = {});

}  // namespace isobar::data
