// Files kept of data for the next run: whatever became of them, that has the numbers of the data.
// Half of the inputs get the digest that fits them, which only those who mean it write: no number is promised
// then, but an end in order is.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>
#include <thread>

#include "model/base/system/files.h"
#include "model/base/text/hash.h"
#include "model/base/text/json.h"
#include "model/data/choice/kept.h"
#include "model/data/statistics/cache_directory.h"
#include "model/data/statistics/stats.h"
#include "model/data/tables/table_cache.h"
#include "model/data/tables/table_dataset.h"
#include "tests/data/files.h"
#include "tests/fuzz/fuzz.h"

namespace isobar::fuzz {
namespace {

namespace fs = std::filesystem;

class Silence {  // else a line for each input that is made again
 public:
  Silence() : before_(::dup(2)) {
    const int none = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    ::dup2(none, 2);
    ::close(none);
  }
  ~Silence() {
    ::dup2(before_, 2);
    ::close(before_);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  int before_;
};

bool with_digest(const std::string& bytes) {
  return std::hash<std::string>{}(bytes) % 2 == 0;
}

/// The file in the cache that is not in `before` and whose name ends with `end`.
fs::path made_beside(const std::string& end, const std::vector<fs::path>& before) {
  for (const auto& entry : fs::directory_iterator(data::cache_directory()))
    if (entry.path().string().ends_with(end) &&
        std::find(before.begin(), before.end(), entry.path()) == before.end())
      return entry.path();
  throw std::logic_error("nothing was kept that ends in " + end);
}

std::vector<fs::path> cached() {
  std::vector<fs::path> all;
  fs::create_directories(data::cache_directory());
  for (const auto& entry : fs::directory_iterator(data::cache_directory())) all.push_back(entry.path());
  return all;
}

void settle(const fs::path& file) {
  fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::minutes(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
}

void same(bool yes) {
  if (!yes) throw std::runtime_error("other numbers than the data have");
}

/// Updates a text's own digest, if it has one.
void give_digest(const std::string& file, const std::string& bytes) {
  const nlohmann::json j = parse_json(bytes);
  if (j.is_object() && j.contains("value")) data::write_kept(file, j["value"]);
}

std::string source(const fs::path& folder, const std::string& name) {
  const std::string at = folder / name;
  put(at, "a,b\n1,2\n3,4.5\n-6,7\n8,9\n");
  return at;
}

// The layout of table_cache.cpp: 16 + 40 bytes, 64 digits, and values from byte 4096.
void give_table_digest(const std::string& file, std::string bytes) {
  if (bytes.size() <= 4096) return;
  const std::string digest =
      sha256_hex(bytes.substr(0, 56) + data::digest_of_blocks(bytes.data() + 4096, bytes.size() - 4096));
  std::memcpy(bytes.data() + 56, digest.data(), 64);
  put(file, bytes);
}

Target table_target(const fs::path& folder) {
  const std::string csv = source(folder, "cached.csv");
  const std::vector<fs::path> before = cached();
  const std::vector<std::string> columns = {"a", "b"};
  data::mapped_table(csv, "data.train", columns);
  const fs::path table = made_beside(".table", before);
  return {"cached table",
          table.lexically_relative(folder),
          {read_file(table)},
          false,
          [=](const std::string& file) {
            const Silence silence;
            const std::string bytes = read_file(file);
            const bool fits = with_digest(bytes);
            if (fits) give_table_digest(file, bytes);
            const auto t = data::mapped_table(csv, "data.train", columns);
            float sum = 0;
            for (int64_t r = 0; r < t->rows(); ++r) sum += t->row(r)[0] + t->row(r)[1];
            if (!fits) same(t->rows() == 4 && sum == 28.5f);
          }};
}

Target kept_target(const fs::path& folder) {
  const std::string csv = source(folder, "kept.csv");
  const std::vector<fs::path> before = cached();
  DataSpec data;
  data.train = csv;
  data.inputs = {"a"}, data.targets = {"b"};
  const auto open = [=] {
    return data::open_table(data, csv, data::Split::train, {{1, 1, 1}, {1, 1, 1}}, nullptr)
        ->input_statistics();
  };
  const data::Statistics right = open();
  for (const auto& entry : fs::directory_iterator(data::cache_directory()))
    if (entry.path().extension().string().starts_with(".kept-statistics") &&
        std::find(before.begin(), before.end(), entry.path()) == before.end())
      return {"kept with",
              entry.path().lexically_relative(folder),
              {read_file(entry.path())},
              true,
              [=](const std::string& file) {
                const Silence silence;
                const std::string bytes = read_file(file);
                const bool fits = with_digest(bytes);
                if (fits) give_digest(file, bytes);
                const data::Statistics s = open();
                if (!fits) same(s.mean == right.mean && s.std == right.std);
              }};
  throw std::logic_error("no statistics were kept with a table");
}

Target statistics_target(const fs::path& folder) {
  const std::string nc = folder / "kept.nc";
  const test::NetcdfOptions o{.order = "tyx"};
  test::write_netcdf(nc, o, {test::random_packed(o)});
  settle(nc);
  const std::vector<fs::path> before = cached();
  const data::FileStatistics right = data::compute_statistics(nc);
  const fs::path kept = made_beside(".statistics.json", before);
  return {
      "statistics", kept.lexically_relative(folder), {read_file(kept)}, true, [=](const std::string& file) {
        const Silence silence;
        const std::string bytes = read_file(file);
        const bool fits = with_digest(bytes);
        if (fits) give_digest(file, bytes);
        const data::FileStatistics s = data::compute_statistics(nc);
        if (!fits) same(s.mean == right.mean && s.std == right.std && s.channels == right.channels);
      }};
}

}  // namespace

std::vector<Target> cache_targets(const fs::path& folder) {
  return {table_target(folder), kept_target(folder), statistics_target(folder)};
}

}  // namespace isobar::fuzz
