// How fast fields are delivered: bytes of f32 a second by format and number of reading threads, beside the
// same bytes read raw from one file. What is read lies in the page cache: decoding is measured, no disk.
//
//   archive_benchmark [FOLDER]                 # makes 200 MB there [a folder of its own]; one line a case
//
// bench/results/archives-*.json keeps the medians. "raw": one file, a step at a time; "raw, its chunks": the
// files of the Zarr that is not compressed, opened, read and closed, as any reader of it has to.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "model/data/convert.h"
#include "model/data/field_file.h"
#include "model/data/synth.h"

namespace isobar {
namespace {

namespace fs = std::filesystem;

constexpr FieldShape kShape{8, 181, 360};
constexpr int64_t kSteps = 48;

struct Case {
  std::string name, format, compressor;
  int64_t steps_a_chunk = 1;
};

const Case kCases[] = {{"hdf5", "hdf5", ""},
                       {"netcdf3", "netcdf3", ""},
                       {"netcdf4", "netcdf4", ""},
                       {"zarr2/none", "zarr2", "none"},
                       {"zarr2/blosc", "zarr2", "blosc"},
                       {"zarr3/none", "zarr3", "none"},
                       {"zarr3/zstd", "zarr3", "zstd"},
                       {"zarr3/zstd, 8 steps a chunk", "zarr3", "zstd", 8}};

std::string ending(const std::string& format) {
  return format == "hdf5" ? ".h5" : format.starts_with("netcdf") ? ".nc" : ".zarr";
}

/// Each thread reads its own steps of the one open archive. `norm`: and normalises what it reads.
void read_archive(benchmark::State& state, const std::string& path, bool normalised) {
  static const Statistics norm{std::vector<float>(kShape.channels, 0.5f),
                               std::vector<float>(kShape.channels, 3.0f)};
  static FieldFiles files;
  if (state.thread_index() == 0) files = open_fields(path, "", {});
  std::vector<float> fields(static_cast<size_t>(kShape.size()));
  int64_t t = state.thread_index();
  for (auto _ : state) {
    files[0]->read(t % kSteps, kShape, normalised ? &norm : nullptr, fields.data());
    t += state.threads();
  }
  state.SetBytesProcessed(state.iterations() * kShape.size() * 4);
}

/// The files of a Zarr that is not compressed, and nothing but them: opened, read and closed.
void read_chunks(benchmark::State& state, const std::string& store) {
  std::vector<float> fields(static_cast<size_t>(kShape.size()));
  const size_t bytes = fields.size() * sizeof(float) / static_cast<size_t>(kShape.channels);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(store))
    if (entry.is_directory() && fs::exists(entry.path() / "0.0.0"))
      names.push_back(entry.path().string() + "/");
  std::erase_if(names, [&](const std::string& n) { return fs::file_size(n + "0.0.0") != bytes; });
  int64_t t = state.thread_index();
  for (auto _ : state) {
    size_t at = 0;
    for (const std::string& name : names) {
      const int fd = ::open((name + std::to_string(t % kSteps) + ".0.0").c_str(), O_RDONLY | O_CLOEXEC);
      if (::pread(fd, fields.data() + at++ * bytes / sizeof(float), bytes, 0) != static_cast<ssize_t>(bytes))
        state.SkipWithError("short read");
      ::close(fd);
    }
    t += state.threads();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes * names.size()));
}

void read_raw(benchmark::State& state, const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  std::vector<float> fields(static_cast<size_t>(kShape.size()));
  const size_t bytes = fields.size() * sizeof(float);
  int64_t t = state.thread_index();
  for (auto _ : state) {
    if (::pread(fd, fields.data(), bytes, static_cast<off_t>(bytes) * (t % kSteps)) !=
        static_cast<ssize_t>(bytes))
      state.SkipWithError("short read");
    t += state.threads();
  }
  ::close(fd);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}

void run(const fs::path& folder) {
  make_synthetic((folder / "made").string(), {.train_years = 1,
                                              .valid_years = 0,
                                              .test_years = 0,
                                              .samples_per_year = kSteps,
                                              .channels = kShape.channels,
                                              .height = kShape.height,
                                              .width = kShape.width});
  const std::string source = (folder / "made/train").string(), raw = (folder / "raw").string();
  std::vector<float> fields(static_cast<size_t>(kShape.size()));
  const FieldFiles made = open_fields(source, "", {});
  std::ofstream out(raw, std::ios::binary);
  for (int64_t t = 0; t < kSteps; ++t) {
    made[0]->read(t, kShape, nullptr, fields.data());
    out.write(reinterpret_cast<const char*>(fields.data()), static_cast<std::streamsize>(fields.size() * 4));
  }
  out.close();
  const auto measure = [](const std::string& name, const auto& body) {
    for (const int threads : {1, 2, 4})
      benchmark::RegisterBenchmark(name.c_str(), body)
          ->Threads(threads)
          ->UseRealTime()
          ->MinTime(0.5)
          ->Repetitions(3)
          ->ReportAggregatesOnly();
  };
  measure("raw", [raw](benchmark::State& s) { read_raw(s, raw); });
  for (const Case& c : kCases) {
    const std::string path =
        (folder / (c.format + c.compressor + std::to_string(c.steps_a_chunk) + ending(c.format))).string();
    convert(source, {}, path,
            {.format = c.format, .chunks = {.steps = c.steps_a_chunk, .compressor = c.compressor}});
    measure(c.name, [path](benchmark::State& s) { read_archive(s, path, false); });
    if (c.name != "zarr2/none") continue;
    measure("raw, its chunks", [path](benchmark::State& s) { read_chunks(s, path); });
    measure(c.name + ", normalised", [path](benchmark::State& s) { read_archive(s, path, true); });
  }
  benchmark::RunSpecifiedBenchmarks();
}

}  // namespace
}  // namespace isobar

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const bool own = argc < 2;
  const std::filesystem::path folder =
      own ? std::filesystem::temp_directory_path() / ("isobar_archives_" + std::to_string(getpid()))
          : argv[1];
  std::filesystem::create_directories(folder);
  try {
    isobar::run(folder);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "archive_benchmark: %s\n", e.what());
    return 1;
  }
  if (own) std::filesystem::remove_all(folder);
  return 0;
}
