// The same results where people already look: TensorBoard, Google Benchmark's compare.py, MLPerf's log
// readers.
//
//   write_tensorboard(data, "out/tensorboard");           // tensorboard --logdir out/tensorboard
//   write_atomically("out/benchmark.json", benchmark_json(data).dump());      // compare.py benchmarks A.json
//   B.json write_mlperf(data, "out/mlperf");
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "reports/data.h"

namespace isobar {

/// A folder for each run with steps, named by its id, with one event file: loss, rmse, lr, grad_norm, step
/// time and throughput by step, and what was validated. Returns the number of runs.
size_t write_tensorboard(const ReportData& d, const std::filesystem::path& folder);
/// Step times as Google Benchmark writes them: an entry a run, runs of one specification as its repetitions.
nlohmann::json benchmark_json(const ReportData& d);
/// MLPerf's ":::MLLOG" lines (mlperf_logging's keys), a file a run with an end.
size_t write_mlperf(const ReportData& d, const std::filesystem::path& folder);

}  // namespace isobar
