#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "bench/import/import.h"
#include "model/base/error.h"
#include "model/base/net_specs/traced.h"
#include "model/base/spec/traced_net.h"
#include "model/base/system/files.h"
#include "model/base/system/program.h"
#include "model/nets/traced/traced.h"

namespace isobar::foreign {
namespace {

bool is_python_name(const std::string& text, bool dots) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) return false;
  for (const char c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && !(dots && c == '.')) return false;
  return true;
}

std::string recording_python(const std::string& given) {
  const char* const named = std::getenv("ISOBAR_PYTHON");
  const std::string name = !given.empty() ? given : named && *named ? named : "python3";
  const std::filesystem::path python = program_in_path(name);
  if (python.empty())
    throw ConfigError(name, "", "is no program",
                      "name a Python that has PyTorch, by --python or ISOBAR_PYTHON");
  return python.string();
}

// The last line that it said, which names what was wrong.
std::string last_line(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

bool is_torch_target(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || !is_python_name(text.substr(colon + 1), false)) return false;
  const std::string module = text.substr(0, colon);
  return module.ends_with(".py") || is_python_name(module, true);
}

std::string import_torch_net(const std::string& target, const std::vector<std::string>& inputs,
                             const std::string& loss, const std::string& python, const std::string& out) {
  const std::filesystem::path script = file_of_program("bench/import/torch_graph.py");
  if (script.empty())
    throw ConfigError("bench/import/torch_graph.py", "", "is not beside the program", "install isobar whole");
  const std::string part = out + ".part";
  std::vector<std::string> words{recording_python(python), script.string(), target, "-o", part};
  if (!loss.empty()) words.insert(words.end(), {"--loss", loss});
  words.emplace_back("--inputs");
  words.insert(words.end(), inputs.begin(), inputs.end());
  const ProgramRun run = run_program(words);
  if (run.code != 0) {
    std::filesystem::remove(part);
    throw ConfigError(target, "", "was not recorded: " + last_line(run.err.empty() ? run.out : run.err),
                      "mend that, or name another Python by --python");
  }
  try {
    TracedSpec spec;
    spec.file = part;
    nets::check_priced(spec);
    const auto net = spec.net();
    rename_synced(part, out);
    return std::to_string(net->parameter_count()) + " parameters, PyTorch " + net->torch + "\n" + run.out;
  } catch (const ConfigError&) {
    std::filesystem::remove(part);
    throw;
  }
}

}  // namespace isobar::foreign
