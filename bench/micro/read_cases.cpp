// Cost of reading, decoding and normalising a sample on one loader thread, by format.
#include <benchmark/benchmark.h>

#include <numeric>
#include <utility>

#include "bench/micro/cases.h"
#include "model/data/loader.h"
#include "model/data/synthetic/synth.h"
#include "model/data/written/convert.h"
#include "perfmodel/step/reading.h"

namespace isobar::micro {
namespace {

namespace fs = std::filesystem;

benchmark::internal::Benchmark* add(const std::string& name, std::function<void(benchmark::State&)> body) {
  constexpr double kMinTime = 0.012;
  constexpr int kRepetitions = 3;
  return register_case(name, std::move(body))->MinTime(kMinTime)->Repetitions(kRepetitions)->UseRealTime();
}

void set_counters(benchmark::State& state, double bytes, int64_t samples) {
  state.counters["bytes"] = bytes;
  state.counters["samples"] = static_cast<double>(samples);
  state.counters["threads"] = 1;
  state.counters["ranks"] = 1;
}

// Reads samples in random order, as training does, into a buffer larger than the caches, as batches are
void read_samples(benchmark::State& state, const data::Dataset& set, double bytes) {
  constexpr size_t kBatches = 32 << 20;  // bytes
  const std::vector<data::SampleTensor> tensors = set.tensors();
  size_t sample = 0;
  for (const data::SampleTensor& t : tensors) sample += static_cast<size_t>(t.size);
  const size_t samples = kBatches / (sizeof(float) * sample) + 1;
  std::vector<float> memory(samples * sample);
  std::vector<std::vector<float*>> to(samples);
  float* next = memory.data();
  for (std::vector<float*>& one : to)
    for (const data::SampleTensor& t : tensors) one.push_back(std::exchange(next, next + t.size));
  int64_t far = std::max<int64_t>(1, set.size() * 2 / 5);
  while (std::gcd(far, set.size()) > 1) ++far;
  int64_t i = 0;
  size_t at = 0;
  for (auto _ : state) {
    set.read_tensors(i = (i + far) % set.size(), to[at]);
    at = (at + 1) % samples;
  }
  set_counters(state, bytes, 1);
}

void add_made(const std::string& name, const std::string& path, data::FieldShape shape) {
  add(name, [path, shape](benchmark::State& state) {
    DataSpec data;
    data.train = path;
    read_samples(state, *data::open_dataset(data, path, data::Split::train, shape),
                 2.0 * 4.0 * static_cast<double>(shape.size()));
  });
}

void add_own(const RunSpec& spec) {
  const data::SampleShape shape = data::sample_shape(spec);
  const data::Statistics known = data::needs_statistics(spec.data, shape)
                                     ? data::begin_statistics(spec.data, shape)()
                                     : data::Statistics{};
  const perf::Counts counts = perf::count_read(spec, 1);
  const double bytes = counts[perf::index_of(*perf::coef_named("read." + perf::read_kind(spec).substr(5)))];
  add(perf::read_kind(spec) + "/f32/" + perf::kOwnData, [=](benchmark::State& state) {
    const bool computed = !known.mean.empty();
    read_samples(state,
                 *data::open_dataset(spec.data, spec.data.train, data::Split::train, shape,
                                     computed ? &known : nullptr),
                 bytes);
  });
}

data::SyntheticOptions fields_of(int64_t height, int64_t width, int64_t steps) {
  data::SyntheticOptions o;
  o.channels = 4;
  o.height = height, o.width = width;
  o.samples_per_year = steps;
  o.train_years = 1, o.valid_years = 0, o.test_years = 0;
  o.show_progress = false;
  return o;
}

// Tables: an emulator reads thousands of rows a step, in batches as its loader does.
void register_row_cases() {
  add("read_table/f32", [](benchmark::State& state) {
    constexpr int64_t kInputs = 14, kOutputs = 1, kBatch = 1024;
    MlpSpec mlp;
    mlp.in_features = kInputs, mlp.out_features = kOutputs;
    RunSpec spec;
    spec.net.set_kind(MlpSpec::kKind);
    spec.net.mlp() = mlp;
    const auto set = data::open_dataset(spec.data, "", data::Split::train, data::sample_shape(spec));
    data::Loader loader(*set, {.batch = kBatch,
                               .per_step = 1,
                               .dp = 1,
                               .rank = 0,
                               .seed = 1,
                               .workers = 0,
                               .prefetch = 0,
                               .shuffle = true});
    for (auto _ : state) benchmark::DoNotOptimize(loader.next().data);
    set_counters(state, 4.0 * (kInputs + kOutputs) * kBatch, kBatch);
  });
}

}  // namespace

void register_read_cases(const fs::path& scratch, const RunSpec* own) {
  const data::FieldShape small{4, 64, 128}, large{4, 181, 360};  // to separate costs of samples and bytes
  data::make_synthetic((scratch / "small").string(), fields_of(small.height, small.width, 40));
  data::make_synthetic((scratch / "large").string(), fields_of(large.height, large.width, 12));
  const std::string source = (scratch / "large/train").string(), own_kind = own ? perf::read_kind(*own) : "";
  add_made("read_noise/f32", "", large);
  add_made("read_hdf5/f32/small", (scratch / "small/train").string(), small);
  if (own_kind != "read_hdf5") add_made("read_hdf5/f32/large", source, large);
  struct Made {
    const char *kind, *file, *format, *compressor;
  };
  for (const Made& m : {Made{"read_netcdf", "large.nc", "netcdf4", ""},
                        {"read_zarr", "none.zarr", "zarr2", "none"},
                        {"read_decode", "zstd.zarr", "zarr2", "zstd"}}) {
    if (own_kind == m.kind) continue;
    const std::string path = (scratch / m.file).string();
    data::convert(source, {}, path, {.format = m.format, .chunks = {.compressor = m.compressor}});
    add_made(std::string(m.kind) + "/f32/" + m.file, path, large);
  }
  if (own) add_own(*own);
  register_row_cases();
}

}  // namespace isobar::micro
