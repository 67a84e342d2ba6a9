// Results in formats that other tools read: TensorBoard, Google Benchmark's compare.py, MLPerf's log readers.
//
//   write_tensorboard(data, "out/tensorboard");           // tensorboard --logdir out/tensorboard
//   write_atomically("out/benchmark.json", benchmark_json(data).dump());      // compare.py benchmarks A.json
//   B.json write_mlperf(data, "out/mlperf");
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "reports/data.h"

namespace isobar::report {

/// One folder with an event file for each run that has steps, named by its label: the curves that a live run
/// writes (model/records/curves.h) and its hyperparameters. Returns the number of runs.
size_t write_tensorboard(const ReportData& d, const std::filesystem::path& folder);
/// Step times in Google Benchmark's format: an entry a run; runs of one specification are its repetitions.
nlohmann::json benchmark_json(const ReportData& d);
/// MLPerf's ":::MLLOG" lines (mlperf_logging's keys), a file for each run that finished.
size_t write_mlperf(const ReportData& d, const std::filesystem::path& folder);

}  // namespace isobar::report
