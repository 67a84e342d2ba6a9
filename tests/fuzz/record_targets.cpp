// Files that runs write (safetensors, state.json, result.jsonl and others) and that other programs wrote
// (PyTorch profiler traces, nccl-tests logs, Calculon's machines and models).
#include <fstream>

#include "bench/import/import.h"
#include "bench/import/training_log.h"
#include "model/base/system/files.h"
#include "model/base/text/json.h"
#include "model/engine/liveness/resume.h"
#include "model/inference/weights/checkpoint.h"
#include "model/inference/weights/safetensors.h"
#include "model/nets/build.h"
#include "model/records/results.h"
#include "perfmodel/machine/import.h"
#include "reports/data.h"
#include "tests/fuzz/fuzz.h"

namespace isobar::fuzz {
namespace {

namespace fs = std::filesystem;

const char* const kResult =
    R"({"event":"run_start","time_utc":"2026-01-01T00:00:00Z","ranks":2,"ranks_on_host":2,"threads":1,"plan_hash":"ab","parameters":1000,"flops_forward_per_sample":1e9,"memory":{"arena":1000,"by_category":{"params":10}},"provenance":{"host":"h"},"spec":{"net":{"embed_dim":64,"depth":1},"train":{"global_batch":8}}}
{"event":"step","step":1,"epoch":0,"loss":0.5,"rmse":0.4,"lr":0.001,"grad_norm":1.0,"seconds":0.1,"samples_per_s":80,"data_wait_s":0.0,"rss_bytes":1000}
{"event":"step","step":2,"epoch":0,"loss":null,"seconds":0.1}
{"event":"valid","step":2,"loss":0.4,"seconds":0.1,"rmse":[0.1,0.2],"persistence_rmse":[0.3]}
{"event":"checkpoint","step":2,"seconds":0.01}
{"event":"run_end","status":"ok","step_s":{"median":0.1,"p10":0.1,"p90":0.1,"min":0.1},"samples_per_s":80,"peak_rss_bytes":1000,"ops":[{"path":"head/forward","kind":"gemm","lane":"compute","count":2,"seconds":0.1,"flops":1e9,"bytes":1e6}]}
)";
const char* const kTrace =
    R"({"schemaVersion":1,"deviceProperties":[{"id":0,"name":"A100"}],"traceEvents":[
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#3","pid":1,"tid":1,"ts":100.0,"dur":50.5},
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":101,"dur":20,"args":{"External id":1}},
{"ph":"X","cat":"cpu_op","name":"nccl:all_reduce","pid":1,"tid":"loop","ts":125,"dur":5},
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#4","pid":1,"tid":1,"ts":151.0,"dur":49},
{"ph":"M","name":"process_name"}],"traceName":"x"})";
const char* const kLog =
    R"(# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1
# all_reduce_perf
#  Rank  0 Group  0 Pid   1 on      node0 device  0 [0x07] NVIDIA A100
#  Rank  1 Group  0 Pid   2 on      node1 device  1 [0x0f] NVIDIA A100
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    30.12    0.00    0.00      0    29.80    0.00    0.00      0
   134217728      33554432     float     sum      -1   1500.1   89.47   89.47      0   1498.2   89.58   89.58      0
)";
const char* const kPeer =
    R"({"matrix":{"float16":{"gflops":312000,"efficiency":[[0,0.5]]}},"mem1":{"GiB":80,"GBps":2039,"efficiency":[[0,0.8]]},"networks":[{"bandwidth":300,"efficiency":0.65,"size":8,"latency":1e-5,"ops":{"p2p":[1.0,null]}}]})";
const char* const kPeerModel =
    R"({"l":24,"e":1024,"h":16,"depth":24,"hidden":1024,"feedforward":4096,"seq_size":2048,"attn_heads":16,"attn_size":64,"num_blocks":24})";
const char* const kHoldout =
    R"({"machine":"m.yaml","runs":[{"id":"a","predicted_s":0.1,"lo_s":0.05,"hi_s":0.2,"in_fit":true,"terms":{"gemm":0.1}}]})";

void read_run(const std::string& file) {
  std::vector<std::string> problems;
  records::load_run(fs::path(file).parent_path(), &problems);
}

void read_peer(const std::string& file) {
  const nlohmann::json j = read_json(file);
  if (perf::is_machine(j, file))
    perf::import_machine(j, file);
  else
    perf::import_model(j, file);
}

Target checkpoint_target(const fs::path& folder) {
  const RunSpec spec = run_spec_from_json({{"net",
                                            {{"embed_dim", 16},
                                             {"depth", 1},
                                             {"num_heads", 2},
                                             {"in_channels", 1},
                                             {"out_channels", 1},
                                             {"img_height", 8},
                                             {"img_width", 8},
                                             {"patch_size", 8}}},
                                           {"train", {{"global_batch", 1}}}},
                                          "checkpoint");
  const auto plan = std::make_shared<plan::Plan>(nets::build_plan(spec, 0, {}));
  const auto n = static_cast<size_t>(plan->params_all.count);
  const std::vector<float> zeros(2 * n + 4096);
  const inference::Meeting all;
  const fs::path saved = inference::save_checkpoint(folder / "run", *plan, zeros.data(), zeros.data(),
                                                    zeros.data(), {.train = {.step = 2}, .spec = spec}, all);
  const fs::path file = saved.lexically_relative(folder) / "state.json";
  // The older schema has no digest, so errors in it reach later checks.
  const std::string older =
      R"({"schema":1,"step":2,"seed":3,"global_batch":1,"plateau":{"bad":0,"factor":1}})";
  return {"state.json", file, {read_file(folder / file), older}, true, [plan, n, spec](const std::string& f) {
            std::vector<float> p(2 * n + 4096), m(p), v(p);
            const engine::Resume r = engine::check_resume(fs::path(f).parent_path(), spec);
            inference::load_checkpoint(r.from, *plan, p.data(), m.data(), v.data(), {});
          }};
}

}  // namespace

std::vector<Target> record_targets(const fs::path& source, const fs::path& folder) {
  const fs::path made = folder / "seed.safetensors";
  std::vector<std::string> tensors = {
      read_file(source / "tests/fixtures/vit_fixture.safetensors").substr(0, 20000)};
  inference::create_safetensors(made, {{"a", {2, 3}}, {"b.weight", {4}}}, {{"step", "3"}});
  tensors.push_back(read_file(made));
  const std::string spec = R"({"net":{"embed_dim":64,"depth":1},"train":{"global_batch":8}})";
  const std::string trial =
      R"({"schema":1,"id":"x","repetition":0,"ranks":2,"warmup":1,"axes":{"layout.dp":2},"spec":)" + spec +
      "}";
  const std::string status =
      R"({"schema":1,"class":"ok","final":true,"message":"","attempt":1,"wall_s":3.5})";
  for (const char* run : {"r1", "r2", "r3"}) {
    put(folder / run / "result.jsonl", kResult);
    put(folder / run / "spec.json", spec);
    put(folder / run / "status.json", status);
  }
  const std::string config = source / "configs/models/vit-tiny.yaml", out = folder / "imported";
  const auto cases = [&](std::initializer_list<const char*> names) {
    std::vector<std::string> texts;
    for (const char* name : names) texts.push_back(read_file(source / "tests/fixtures/cases" / name));
    return texts;
  };
  for (const std::string& more : cases({"weights_bf16.safetensors", "weights_with_a_counter.safetensors"}))
    tensors.push_back(more);
  const std::string net = folder / "net.yaml";  // as logs leave it out
  put(net,
      "net: {kind: gpt, embed_dim: 5120, depth: 40, num_heads: 40, seq_length: 2048, vocab_size: 50304}\n"
      "train: {global_batch: 64}\nlayout: {dp: 8, tp: 4}\npolicy: {amp: bf16}\n");
  std::vector<std::string> logs;
  for (const char* program : {"megatron", "nemo1", "nemo2", "torchtitan", "mlperf"})
    logs.push_back(read_file(source / "tests/fixtures/logs" / (std::string(program) + ".log")));
  for (const std::string& more : cases({"megatron_seconds.log", "mlperf_counts_in_two_units.log",
                                        "torchtitan_memory_budget.log", "torchtitan_validates.log"}))
    logs.push_back(more);
  std::vector<std::string> traces = cases({"trace_host_runs_ahead.json", "trace_last_mark_is_a_stub.json"});
  traces.emplace_back(kTrace);
  return {{"safetensors", "mutated.safetensors", tensors, false,
           [](const auto& f) { inference::read_safetensors(f); }},
          checkpoint_target(folder),
          {"result.jsonl", "r1/result.jsonl", {kResult}, true, read_run},
          {"spec.json", "r2/spec.json", {spec}, true, read_run},
          {"trial.json", "r3/trial.json", {trial}, true, read_run},
          {"status.json", "r3/status.json", {status}, true, read_run},
          {"holdout.json", "holdout.json", {kHoldout}, true, [](const auto& f) { report::read_holdout(f); }},
          {"kineto", "trace.json", traces, true,
           [config, out](const auto& f) { foreign::import_kineto({f}, config, out); }},
          {"zipped trace", "trace.json.gz", cases({"trace_zipped.json.gz"}), false,
           [config, out](const auto& f) { foreign::import_kineto({f}, config, out); }},
          {"nccl-tests",
           "mutated.log",
           {kLog, cases({"nccl_srun_label.all_reduce.log"}).front()},
           true,
           [](const auto& f) { foreign::to_csv(foreign::read_nccl_tests(f, "")); }},
          {"training logs", "training.log", logs, true,
           [](const auto& f) { foreign::table_of({foreign::read_training_log({f}, "")}); }},
          {"net elsewhere", "training.log", logs, true,
           [net](const auto& f) { foreign::table_of({foreign::read_training_log({f}, net)}); }},
          {"calculon", "peer.json", {kPeer, kPeerModel}, true, read_peer}};
}

}  // namespace isobar::fuzz
