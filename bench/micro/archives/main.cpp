// Delivery rate of fields, in bytes of f32 a second, by format and number of reading threads, beside raw
// reads of the same bytes and the decompressor alone. Files are in the page cache, so no disk is measured.
//
//   archive_benchmark [FOLDER]                 # makes 700 MB there [a folder of its own]; one line a case
//
// tests/studies/results/archives-*.json keeps the medians. Each uncompressed format has a case "…, raw" that
// reads the same bytes of the same files, one pread for each field of a step, because page-cache rates depend
// on how files were written; a Zarr's chunks are opened and closed as any reader must. "raw, a step": one
// large file, one pread a step. "alone": chunks of a compressed Zarr in memory, decompressed only.
#include <benchmark/benchmark.h>
#include <blosc.h>
#include <fcntl.h>
#include <unistd.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "model/base/system/files.h"
#include "model/data/fields/field_file.h"
#include "model/data/files/element.h"
#include "model/data/synthetic/synth.h"
#include "model/data/written/convert.h"

namespace isobar::micro {
namespace {

namespace fs = std::filesystem;

constexpr data::FieldShape kShape{8, 181, 360};
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

/// Each thread reads different steps of one shared archive. `normalised` also normalises the fields.
void read_archive(benchmark::State& state, const std::string& path, bool normalised) {
  static const data::Statistics norm{std::vector<float>(kShape.channels, 0.5f),
                                     std::vector<float>(kShape.channels, 3.0f)};
  static data::FieldFiles files;
  if (state.thread_index() == 0) files = data::open_fields(path, "", {});
  std::vector<float> fields(static_cast<size_t>(kShape.size()));
  int64_t t = state.thread_index();
  for (auto _ : state) {
    files[0]->read(t % kSteps, kShape, normalised ? &norm : nullptr, fields.data());
    t += state.threads();
  }
  state.SetBytesProcessed(state.iterations() * kShape.size() * 4);
}

/// Paths of the first chunk of each field of a Zarr
std::vector<std::string> first_chunks(const std::string& store) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(store))
    for (const char* first : {"0.0.0", "c/0/0/0"})  // Zarr version 2 and 3
      if (entry.is_directory() && fs::exists(entry.path() / first)) names.push_back(entry.path() / first);
  return names;
}

/// Only opens, reads and closes the files of an uncompressed Zarr.
void read_chunks(benchmark::State& state, const std::string& store) {
  std::vector<float> fields(static_cast<size_t>(kShape.size()));
  const size_t bytes = fields.size() * sizeof(float) / static_cast<size_t>(kShape.channels);
  std::vector<std::string> names = first_chunks(store);
  for (std::string& n : names) n.resize(n.size() - std::string("0.0.0").size());
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

/// File offset of the fields of the first step, and the distance between steps.
struct Places {
  int64_t first, next;
};

/// Found by searching for the bytes of the values, independent of the reader.
std::vector<Places> places_of(const std::string& path, const data::FieldFile& made, bool swapped) {
  const std::string bytes = read_file(path);
  const int64_t plane = kShape.size() / kShape.channels;
  const auto place = [&](int64_t t, int64_t channel) {
    std::vector<float> fields(static_cast<size_t>(kShape.size()));
    made.read(t, kShape, nullptr, fields.data());
    float* const field = fields.data() + channel * plane;
    if (swapped) data::swap_bytes(field, plane, sizeof(float));
    const size_t at = bytes.find(reinterpret_cast<const char*>(field), 0, static_cast<size_t>(plane) * 4);
    if (at == std::string::npos) throw std::runtime_error(path + " does not hold its fields as they are");
    return static_cast<int64_t>(at);
  };
  std::vector<Places> out;
  for (int64_t c = 0; c < kShape.channels; ++c) out.push_back({place(0, c), place(1, c) - place(0, c)});
  return out;
}

void read_raw(benchmark::State& state, const std::string& path, const std::vector<Places>& places) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  std::vector<float> fields(static_cast<size_t>(kShape.size()));
  const auto bytes = fields.size() * sizeof(float) / places.size();
  auto* const out = reinterpret_cast<std::byte*>(fields.data());
  int64_t t = state.thread_index();
  for (auto _ : state) {
    for (size_t p = 0; p < places.size(); ++p)
      if (::pread(fd, out + p * bytes, bytes, places[p].first + t % kSteps * places[p].next) !=
          static_cast<ssize_t>(bytes))
        state.SkipWithError("short read");
    t += state.threads();
  }
  ::close(fd);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(fields.size() * sizeof(float)));
}

/// Decompresses the chunks of one step of a Zarr from memory, without the reader.
void decompress(benchmark::State& state, const std::string& store, const std::string& compressor) {
  const size_t bytes = static_cast<size_t>(kShape.size() / kShape.channels) * sizeof(float);
  std::vector<std::string> chunks;
  for (const std::string& chunk : first_chunks(store)) chunks.push_back(read_file(chunk));
  std::vector<std::byte> out(bytes);
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> zstd(ZSTD_createDCtx(), ZSTD_freeDCtx);
  for (auto _ : state)
    for (const std::string& c : chunks) {
      const size_t n =
          compressor == "zstd"
              ? ZSTD_decompressDCtx(zstd.get(), out.data(), bytes, c.data(), c.size())
              : static_cast<size_t>(std::max(0, blosc_decompress_ctx(c.data(), out.data(), bytes, 1)));
      if (n != bytes) state.SkipWithError("does not decompress");
    }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes * chunks.size()));
}

void run(const fs::path& folder) {
  data::make_synthetic((folder / "made").string(), {.train_years = 1,
                                                    .valid_years = 0,
                                                    .test_years = 0,
                                                    .samples_per_year = kSteps,
                                                    .channels = kShape.channels,
                                                    .height = kShape.height,
                                                    .width = kShape.width});
  const std::string source = (folder / "made/train").string(), raw = (folder / "raw").string();
  std::vector<float> fields(static_cast<size_t>(kShape.size()));
  const data::FieldFiles made = data::open_fields(source, "", {});
  std::ofstream out(raw, std::ios::binary);
  for (int64_t t = 0; t < kSteps; ++t) {
    made[0]->read(t, kShape, nullptr, fields.data());
    out.write(reinterpret_cast<const char*>(fields.data()), static_cast<std::streamsize>(fields.size() * 4));
  }
  out.close();
  const auto measure = [](const std::string& name, const auto& body) {
    for (int threads = 1; threads <= static_cast<int>(std::thread::hardware_concurrency()); threads *= 2)
      benchmark::RegisterBenchmark(name.c_str(), body)
          ->Threads(threads)
          ->UseRealTime()
          ->MinTime(0.2)
          ->Repetitions(5)
          ->ReportAggregatesOnly();
  };
  const std::vector<Places> whole{{0, kShape.size() * static_cast<int64_t>(sizeof(float))}};
  measure("raw, a step", [=](benchmark::State& s) { read_raw(s, raw, whole); });
  for (const Case& c : kCases) {
    const std::string path =
        (folder / (c.format + c.compressor + std::to_string(c.steps_a_chunk) + ending(c.format))).string();
    data::convert(source, {}, path,
                  {.format = c.format, .chunks = {.steps = c.steps_a_chunk, .compressor = c.compressor}});
    measure(c.name, [path](benchmark::State& s) { read_archive(s, path, false); });
    if (!c.format.starts_with("zarr")) {
      const std::vector<Places> places = places_of(path, *made[0], c.format == "netcdf3");
      measure(c.name + ", raw", [=](benchmark::State& s) { read_raw(s, path, places); });
    }
    if (c.name == "zarr2/blosc" || c.name == "zarr3/zstd")
      measure(c.compressor + " alone", [path, c](benchmark::State& s) { decompress(s, path, c.compressor); });
    if (c.name != "zarr2/none") continue;
    measure(c.name + ", raw", [path](benchmark::State& s) { read_chunks(s, path); });
    measure(c.name + ", normalised", [path](benchmark::State& s) { read_archive(s, path, true); });
  }
  benchmark::RunSpecifiedBenchmarks();
}

}  // namespace
}  // namespace isobar::micro

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const bool own = argc < 2;
  std::string folder = own ? std::filesystem::temp_directory_path() / "isobar-archives-XXXXXX" : argv[1];
  try {
    if (!own) std::filesystem::create_directories(folder);
    if (own && !::mkdtemp(folder.data())) throw std::runtime_error("no temporary folder: " + folder);
    isobar::micro::run(folder);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "archive_benchmark: %s\n", e.what());
    return 1;
  }
  if (own) std::filesystem::remove_all(folder);
  return 0;
}
