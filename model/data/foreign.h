// Field files that somebody else made, read in a process that may die of it (model/base/child.h): the HDF5
// and netCDF libraries end in a signal, a loop or all of the memory on some damaged files. Inspection and
// statistics are done there altogether, a run's own statistics too (model/data/dataset.h). A run opens its
// files there before it begins, once a host and before MPI, threads or devices are, and computes the
// statistics that it lacks there (begin_statistics); then every rank opens what was proven harmless.
//
//   require_fields("era5.nc", "data.train", {});                        // ConfigError, whatever the file
//   does read_foreign(path, "", {}, [](const FieldFiles& files, const ChildProgress& done) { return ...; });
#pragma once
#include <optional>

#include "model/base/child.h"
#include "model/data/field_file.h"

namespace isobar {

/// What `work` makes of the files, opened as open_fields does, in a child that begins at once.
class ForeignRead {
 public:
  /// Throws ConfigError where there is no file.
  ForeignRead(std::string path, std::string key, const FieldChoice& choice,
              const std::function<std::string(const FieldFiles&, const ChildProgress&)>& work);
  /// Waits for what `work` returns. A child that dies, takes more than 10 s of processor time without calling
  /// its progress, or more memory than 2 GiB and four times the files, is one ConfigError. `seen` gets what
  /// `work` reports (0 and above).
  std::string answer(const ChildProgress& seen = {});

 private:
  std::string path_, key_;
  std::vector<std::filesystem::path> paths_;
  std::optional<ChildWork> child_;
};

/// The answer of such a child.
std::string read_foreign(const std::string& path, const std::string& key, const FieldChoice& choice,
                         const std::function<std::string(const FieldFiles&, const ChildProgress&)>& work,
                         const ChildProgress& seen = {});

/// Opens the files and has the library do what ranks will ask of it: walk the indexes of chunks and, where it
/// reads the data itself, read them (up to 1 GiB of the files, spread over their steps). Of the others a
/// corner of the first and of the last step is read. `also` sees each file. Throws ConfigError, as `also`
/// may.
void require_fields(const std::string& path, const std::string& key, const FieldChoice& choice,
                    const std::function<void(const FieldInfo&)>& also = {});

}  // namespace isobar
