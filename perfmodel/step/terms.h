// What one optimizer step of one rank consists of, counted from its plan: nothing here is a time.
//
//   Plan plan = build_plan(spec, 0, {});
//   StepTerms t = count_terms(spec, plan, link(plan, plan.train), where, cache_share);
//   t.total[index_of(Coef::gemm_f32)]          // matrix FLOPs of the step in f32
//
// Ranks that differ by their data, tensor or context coordinate are alike, so the first of them speaks for
// all; parts of a cut graph and stages of a pipeline are not, and are brought together in pipeline.h.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/base/spec.h"
#include "model/plan/link.h"
#include "model/plan/plan.h"
#include "perfmodel/step/op_terms.h"

namespace isobar {

struct Collective {
  Lane lane;  // in order with the others of its lane only
  Counts counts{};
  std::vector<int> after{};  // collectives of other lanes that it waits for
};

/// Compute ops between two points where lanes meet.
struct Chunk {
  std::vector<int> join{};                // the chunk begins when these collectives have ended
  Counts compute{};                       // one after the other
  std::vector<Collective> collectives{};  // launched when the chunk is over
};

struct Growth;

struct StepTerms {
  Conditions where;
  std::vector<Chunk> chunks;
  std::shared_ptr<const Growth> growth{};  // instead of the chunks of a very long step
  Counts total{};                          // of all chunks, their collectives, transfers and the step itself
  Counts micro{};           // of the total, what every micro-batch repeats and the next stage waits for
  Counts transfers{};       // of the total, sends and receives on lanes of their own: in no chunk
  Counts bubble{};          // what the other stages of the pipeline do while this one has nothing to do
  Counts read{};            // data loading of a step, whoever does it
  int64_t workers = 0;      // loader threads; 0: the compute thread reads
  double landed = 0;        // bytes that the host copies to its accelerator
  bool reads_ahead = true;  // beside an accelerator, for the next step; a replay buffer waits for this step
  double flops_f32 = 0, flops_bf16 = 0;  // for the ceiling
  int64_t samples = 0;                   // global batch
};

/// Of two steps of which the longer has a round more of what repeats itself (parts, micro-batches): a step of
/// so many rounds more than the shorter one, which grows by the same each time.
struct Growth {
  StepTerms few, more;
  double rounds = 0;
};
StepTerms grown(StepTerms few, StepTerms more, double rounds);

StepTerms count_terms(const RunSpec& spec, const Plan& plan, const Program& program, const Conditions& where,
                      double cache_share);

/// Bytes of `samples` samples as a rank computes with them: f32, inputs and targets.
double read_bytes(const RunSpec& spec, int64_t samples);
/// Counts of reading `samples` samples of this run's data. Their format is what the name of data.train says,
/// and a Zarr's chunks are taken as compressed.
Counts count_read(const RunSpec& spec, int64_t samples);

/// The kind of benchmark that times it (fitting/calibrate.h), of a run that reads fields: read_hdf5 …
std::string read_kind(const RunSpec& spec);

/// What benchmarks of a run's own data are named behind their kind and type.
constexpr const char* kOwnData = "own";

}  // namespace isobar
