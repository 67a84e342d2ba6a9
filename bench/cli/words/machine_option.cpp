#include "bench/cli/words/machine_option.h"

#include <cstdio>

#include "perfmodel/machine/machine_file.h"

namespace isobar::cli {
namespace {

template <class Paths>
CLI::Option* add_machines(CLI::App& command, Paths& paths, const std::string& description) {
  const CLI::Validator found(
      [](std::string& named) {
        const std::string file = perf::machine_file(named);
        if (file != named) std::fprintf(stderr, "machine %s: %s\n", named.c_str(), file.c_str());
        named = file;
        return std::string();
      },
      "", "");
  return command
      .add_option("--machine", paths, description + "; or the name of a shipped one, e.g. perlmutter")
      ->transform(found);
}

}  // namespace

CLI::Option* add_machine_option(CLI::App& command, std::string& path, const std::string& description) {
  return add_machines(command, path, description);
}

CLI::Option* add_machine_option(CLI::App& command, std::vector<std::string>& paths,
                                const std::string& description) {
  return add_machines(command, paths, description + "; may be repeated: side by side")
      ->allow_extra_args(false);
}

}  // namespace isobar::cli
