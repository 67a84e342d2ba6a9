#include "bench/cli/words/config_option.h"

#include <cstdio>
#include <filesystem>

#include "model/base/names/named_file.h"
#include "model/comm/launcher.h"

namespace isobar::cli {

CLI::Option* add_config_option(CLI::App& command, std::string& path, const std::string& name,
                               const std::string& description, bool folders) {
  const std::string where = "isobar " + command.get_name();
  const CLI::Validator found(
      [where, folders](std::string& named) {
        std::error_code none;
        if (folders && std::filesystem::is_directory(named, none)) return std::string();
        const std::string file = run_file(named, where);
        if (file != named && comm::launched_rank(::getenv) <= 0)
          std::fprintf(stderr, "config %s: %s\n", named.c_str(), file.c_str());
        named = file;
        return std::string();
      },
      "", "");
  return command
      .add_option(
          name, path,
          description + ", Hugging Face's config.json, or a shipped model's name (isobar config models)")
      ->transform(found);
}

}  // namespace isobar::cli
