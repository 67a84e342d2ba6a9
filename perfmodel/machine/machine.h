// A machine for the predictor: what it is, its peaks, and the price of each unit of work. `isobar calibrate`
// and `isobar fit` write the same YAML that `isobar predict` reads.
//
//   Machine m = load_machine("configs/machines/local.yaml");     // ConfigError names file, key and remedy
//   m[Coef::gemm_f32].value                                      // seconds per FLOP of one thread alone
//   save_machine(m, "fitted.yaml");
//
// A file needs only `identity` (or `accelerator`) and `peaks`: missing coefficients are derived from them
// ("spec") with a wide interval. `peaks` are FLOP/s of ONE core by dtype and memory B/s of the host; with an
// `accelerator`, FLOP/s and memory B/s of one of those (configs/machines/dgx-a100.yaml).
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/base/measurement.h"
#include "perfmodel/machine/coefficient.h"

namespace isobar::perf {

struct Identity {
  std::string host, cpu, isa;
  int64_t cores = 0;
  int64_t memory_bytes = 0;
  int64_t cache_bytes = 0;  // last level, shared by the host's ranks
};

struct Peak {
  double value = 0;  // f32, tf32, bf16, fp8, fp4: FLOP/s of one core; memory: B/s of the host
  std::vector<std::string> provenance;
};

/// A level of the network between ranks: its reach and rates.
struct Tier {
  std::string name;        // host (one NVLink domain) | net (between them)
  int64_t ranks = 0;       // number it connects; 0: all
  double bandwidth = 0;    // B/s of one link, one direction
  double links = 1;        // of each rank: NVLink counts as one, NICs are counted (0.5: two ranks share one)
  double latency = 0;      // s, of one message
  bool reduction = false;  // the switch adds (NVLS, SHARP): an all-reduce sends its bytes once
  bool sockets = false;    // joins the sockets of a host, whose cards have no links: no network
  std::vector<std::string> provenance;
  double of_rank() const { return bandwidth * links; }  // B/s
};

/// The device of ranks of a GPU cluster. With it, `peaks` are those of one accelerator.
struct Accelerator {
  std::vector<std::string> called;  // its names in tables of published runs; {}: none
  std::string name;
  std::string
      vendor;  // nvidia | amd | intel | google; "": unknown. Isobar's engine runs on nvidia's (device.h)
  int64_t memory_bytes = 0;    // nominal size
  int64_t reported_bytes = 0;  // total as a process sees it; 0: the same
  int64_t processors = 0;      // SMs, compute units, Xe cores: a product's tiles run on them in waves
  double power_w = 0;          // 0: unknown
  double host_bandwidth = 0;   // B/s per direction to the host's memory; 0: unknown
  double price_per_hour = 0;   // of one, in `currency`; 0: unknown
  std::string currency = "USD";
  double mtbf_hours = 0;  // of one, between failures that end a job; 0: unknown
  Tier host, net;
  std::vector<std::string> provenance;
  /// Bytes that a process and its context can fill, whichever engine it runs.
  int64_t capacity() const { return reported_bytes > 0 ? reported_bytes : memory_bytes; }
};

/// Destination of checkpoints. 0: unknown, and the assumption is printed (step/checkpoint.h).
struct Storage {
  double host_bandwidth = 0;        // B/s that one host writes, synced; measured or fitted: write.checkpoint
  double filesystem_bandwidth = 0;  // B/s of the whole file system, all hosts together
  std::vector<std::string> provenance;
};

struct Coefficient {
  double value = 0;
  double lower = 0, upper = 0;          // 80 % interval
  std::vector<std::string> provenance;  // benchmarks and runs that set it, or "spec"
  double log_sigma() const { return std::log(upper / lower) / (2 * kNormal80); }
  bool measured() const { return !provenance.empty() && provenance.front() != "spec"; }
  static Coefficient make(double value, double log_sigma, std::vector<std::string> provenance);
};

/// Ranges of varied quantities (fit.h: quantities_of): name -> {lowest, highest}
using Ranges = std::map<std::string, std::vector<double>>;

/// The result of `isobar fit` that gives predictions their intervals.
struct FitRecord {
  std::vector<std::string> runs;     // the runs that it was fitted to
  Statistic statistic = kStatistic;  // of a run's steps: what was fitted and is predicted
  std::vector<std::string> notes;    // for readers
  double quantile = kNormal80;       // 80 % quantile of standardised leave-one-out errors
  // Log residual by kind of run (fit.h: kind_of); always has "all", and "checkpoint" if runs wrote some.
  std::map<std::string, double> spread;
  Ranges range;  // of its runs
  std::vector<std::pair<std::string, double>>
      effects;                                 // log deviations of groups of runs (fit.h: effects_of)
  std::map<std::string, double> effect_sigma;  // standard deviation of groups, by family
  std::vector<double> covariance;              // of log coefficients, then effects; square
};

/// By case (perfmodel/step/shapes.h): measured over modelled seconds of an op.
using ShapeFactors = std::map<std::string, double>;

struct Machine {
  std::string file;  // for messages
  std::string name;
  Identity identity;
  std::map<std::string, Peak> peaks;  // f32, tf32, bf16, fp8, memory
  std::optional<Accelerator> accelerator;
  Storage storage;
  std::array<Coefficient, kCoefs> coefficients;
  std::shared_ptr<const ShapeFactors> shapes;  // by isobar calibrate --for; null: none
  Ranges timed;  // of the steps in which calibration timed ops: width, length …
  std::optional<FitRecord> fit;
  std::string engine;   // whose runs it prices (engine_prices.h); "": Isobar's
  std::string cluster;  // JSON text of the section on job submission (bench/cluster/cluster.h); "" = none

  Coefficient& operator[](Coef c) { return coefficients[index_of(c)]; }
  const Coefficient& operator[](Coef c) const { return coefficients[index_of(c)]; }
  Counts values() const;
  /// Least price of a unit, seconds; 0 without a physical limit.
  double floor_of(size_t coef) const;
};

/// A machine from its spec sheet: every coefficient derived from identity and peaks.
Machine machine_from_spec(const std::string& name, const Identity& identity,
                          const std::map<std::string, Peak>& peaks,
                          const std::optional<Accelerator>& accelerator = std::nullopt);

Machine load_machine(const std::string& path);
Machine parse_machine(const std::string& yaml, const std::string& file);
std::string to_yaml(const Machine& m);
void save_machine(const Machine& m, const std::string& path);  // atomic

}  // namespace isobar::perf
