// Weights of a published net: the Python step turns PyTorch's file into safetensors, of which ours is made.
#include <unistd.h>

#include <array>
#include <fstream>

#include "bench/import/import.h"
#include "model/base/error.h"
#include "model/base/files.h"
#include "model/base/program.h"
#include "model/base/spec.h"
#include "model/base/temporary.h"
#include "model/inference/published_weights.h"

namespace isobar {
namespace {

namespace fs = std::filesystem;

constexpr int kRefused = 2;  // exit code of torch_weights.py

std::string beginning(const fs::path& file, size_t bytes) {
  std::string begin(bytes, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(begin.data(), static_cast<std::streamsize>(bytes));
  begin.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return begin;
}

bool is_zip(const std::string& begin) {
  return begin.starts_with("PK\x03\x04");
}
bool is_pickle(const std::string& begin) {
  return begin.size() > 1 && begin[0] == '\x80' && begin[1] >= 2 && begin[1] <= 5;
}
bool is_safetensors(const std::string& begin) {  // eight bytes of length, then JSON
  return begin.size() > 8 && begin[8] == '{' && begin[7] == '\0' && begin[6] == '\0';
}

struct Passing {  // a file that goes away
  fs::path path;
  explicit Passing(fs::path p) : path(std::move(p)) { make_anew(path); }
  ~Passing() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

std::string from_torch(const fs::path& file, const fs::path& to) {
  const fs::path script = file_of_program("bench/import/torch_weights.py");
  if (script.empty())
    throw ConfigError(file.string(), "",
                      "needs bench/import/torch_weights.py, which is not beside the program",
                      "install isobar whole, or run it where it was built");
  const ProgramRun run = run_program({"python3", script.string(), file.string(), to.string()});
  std::string output = run.out + run.err;
  if (run.code == 0) return output;
  while (!output.empty() && output.back() == '\n') output.pop_back();
  if (run.code == kRefused)
    throw ConfigError(file.string(), "", output.substr(output.rfind('\n') + 1),
                      "give a file that torch.save wrote of a net's state_dict");
  throw ConfigError(file.string(), "",
                    "could not be read by python3 (code " + std::to_string(run.code) + "): " + output,
                    "install Python 3, with its zipfile module");
}

}  // namespace

bool is_weights(const fs::path& file) {
  const std::string begin = beginning(file, 16);
  return is_zip(begin) || is_pickle(begin) || is_safetensors(begin);
}

std::string import_weights(const fs::path& file, const std::string& config, const fs::path& to) {
  const RunSpec spec = load_run_spec(config);
  const std::string begin = beginning(file, 16);
  if (is_pickle(begin))
    throw ConfigError(file.string(), "", "is a pickle as PyTorch wrote them before 1.6",
                      "load and save it again with a PyTorch of today");
  const auto merged = [](int64_t weights) {
    return weights == 0 ? "" : "merged " + std::to_string(weights) + " weights with their adapters\n";
  };
  if (!is_zip(begin)) return merged(import_published_weights(spec, file, file.string(), to));
  const Passing between(to.string() + ".torch." + std::to_string(::getpid()));
  const std::string said = from_torch(file, between.path);
  return said + merged(import_published_weights(spec, between.path, file.string(), to));
}

}  // namespace isobar
