// Files of users' own programs and nets: output, tables and event files, nets that PyTorch recorded,
// tokenizers, and indices of weights in several files.
#include <algorithm>

#include "bench/logs/output_reader.h"
#include "model/base/error.h"
#include "model/base/spec/spec.h"
#include "model/base/system/files.h"
#include "model/data/tables/tokenizer.h"
#include "model/inference/weights/sharded_safetensors.h"
#include "model/plan/ops/work.h"
#include "model/records/files/event_file.h"
#include "tests/fuzz/fuzz.h"

namespace isobar::fuzz {
namespace {

namespace fs = std::filesystem;

std::string events() {
  std::string bytes = records::event_file_head(1);
  for (int i = 0; i < 5; ++i) {
    bytes += records::event_record(1 + 0.25 * i, 10 * i, "train_loss", 1.0 / (1 + i));
    bytes += records::event_record(1 + 0.25 * i, 10 * i, "Train/Samples/lr", 0.001);
  }
  return bytes + records::event_record(3, 40, "val_loss", 0.75);
}

// A recorded net is read once for each file and time, and clocks of files are coarse.
void read_recorded(const std::string& file) {
  static int64_t n = 0;
  const fs::path one = file + "." + std::to_string(++n) + ".json";
  fs::copy_file(file, one, fs::copy_options::overwrite_existing);
  try {
    load_run_spec(one.string());
  } catch (...) {
    fs::remove(one);
    throw;
  }
  fs::remove(one);
}

void read_tokenizer(const std::string& file) {
  data::Tokenizer t(file);
  t.decode(t.encode("Ein Text, 12 words \xc3\xbc<|endoftext|>\n  and  more", "text.txt"));
}

void read_index(const std::string& file) {
  const inference::ShardedWeights weights(file);
  std::vector<float> values(64);
  for (const auto& [name, shape] : weights.shapes()) weights.read(name, values.data());
}

}  // namespace

std::vector<Target> guest_targets(const fs::path& source, const fs::path& folder) {
  const auto fixtures = [&](const char* room, std::initializer_list<const char*> names) {
    std::vector<std::string> texts;
    for (const char* name : names) texts.push_back(read_file(source / "tests/fixtures" / room / name));
    return texts;
  };
  const fs::path made = folder / "sharded" / "model.safetensors";
  fs::create_directories(made.parent_path());
  const std::vector<float> values(24, 0.5F);
  const std::vector<plan::Tensor> tensors = {{"a", {2, 3}}, {"b.weight", {4}}, {"c", {3, 4}}};
  inference::ShardedWriter out(made, tensors, DType::f32, 30);
  for (const plan::Tensor& t : tensors) out.write(t, values.data());
  out.finish();
  const fs::path index = made.string() + ".index.json";
  return {
      {"guest log", "guest.log",
       fixtures("logs", {"aurora.log", "deepspeed.log", "lightning.log", "megatron.log", "nemo1.log",
                         "nemo2.log", "torchtitan.log", "mlperf.log"}),
       true, [](const auto& f) { logs::tried_log(f, {.batch = 16, .tokens = 64}); }},
      {"metrics.csv",
       "metrics.csv",
       {"epoch,step,train_loss,val_loss\n0,4,0.5,\n0,9,0.25,\n0,14,0.2,\n1,19,,0.125\n1,19,0.1,\n"},
       true,
       [](const auto& f) { logs::tried_log(f, {}); }},
      {"tfevents",
       "events.out.tfevents.1.x",
       {events()},
       false,
       [](const auto& f) { logs::tried_log(f, {.batch = 8}); }},
      {"recorded net", "recorded.json", fixtures("traced", {"vit.json", "tied.json"}), true, read_recorded},
      {"tokenizer", "tokenizer.json", fixtures("tokenizers", {"gpt2.json", "llama3.json", "deepseek.json"}),
       true, read_tokenizer},
      {"weights index", index.lexically_relative(folder), {read_file(index)}, true, read_index}};
}

}  // namespace isobar::fuzz
