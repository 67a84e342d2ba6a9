// The counts of one optimizer step of one rank, from its plan, without times.
//
//   Plan plan = build_plan(spec, 0, {});
//   StepTerms t = count_terms(spec, plan, link(plan, plan.train), where, cache_share);
//   t.total[index_of(Coef::gemm_f32)]          // matrix FLOPs of the step in f32
//
// Ranks that differ only in data, tensor or context coordinate are equal, so the first stands for all; parts
// of a cut graph and pipeline stages are combined in pipeline.h.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/base/spec.h"
#include "model/plan/link.h"
#include "model/plan/plan.h"
#include "perfmodel/step/op_terms.h"

namespace isobar {

struct Collective {
  Lane lane;  // ordered only with others of its lane
  Counts counts{};
  std::vector<int> after{};  // collectives of other lanes that it waits for
};

/// Compute ops between two synchronisations of lanes.
struct Chunk {
  std::vector<int> join{};                // the chunk begins when these collectives have ended
  Counts compute{};                       // in sequence
  std::vector<Collective> collectives{};  // launched when the chunk ends
};

struct StepTerms {
  Conditions where;
  std::vector<Chunk> chunks;
  Counts total{};           // of all chunks, their collectives, transfers and the step itself
  Counts micro{};           // of the total: repeated in every micro-batch, and awaited by the next stage
  Counts transfers{};       // of the total: sends and receives on lanes of their own, in no chunk
  Counts bubble{};          // work of the pipeline's other stages while this one is idle
  Counts read{};            // data loading of a step, by any thread
  int64_t workers = 0;      // loader threads; 0: the compute thread reads
  double landed = 0;        // bytes that the host copies to its accelerator
  bool reads_ahead = true;  // an accelerator's host reads for the next step; a replay buffer forbids it
  double flops_f32 = 0, flops_bf16 = 0;  // for the ceiling
  int64_t samples = 0;                   // global batch
};

StepTerms count_terms(const RunSpec& spec, const Plan& plan, const Program& program, const Conditions& where,
                      double cache_share);

/// Bytes of `samples` samples as a rank computes with them: f32, inputs and targets.
double read_bytes(const RunSpec& spec, int64_t samples);
/// Counts of reading `samples` samples of this run's data. The format follows from data.train's name; Zarr is
/// assumed to be compressed.
Counts count_read(const RunSpec& spec, int64_t samples);

/// The kind of benchmark that times reading of a run's fields (fitting/calibrate.h): read_hdf5 …
std::string read_kind(const RunSpec& spec);

/// The suffix of benchmarks of a run's own data, after kind and type.
constexpr const char* kOwnData = "own";

}  // namespace isobar
