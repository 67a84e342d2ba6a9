// Blocks of lines, a step's name and then a number a line, as OLMo and Composer (llm-foundry) write them.
//
//   [step=2/739328,epoch=0]                            [batch=2/4800]:
//       train/CrossEntropyLoss=11.28                   	 Train loss/train/total: 11.6812
//       throughput/device/batches_per_second=0.1497    	 Train throughput/batches_per_sec: 0.2500
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "bench/logs/forms/forms.h"
#include "bench/logs/log_text.h"
#include "bench/logs/quantities.h"

namespace isobar::logs {
namespace {

std::optional<QuantityIn> quantity_of_block(std::string_view key) {
  using enum LogQuantity;
  static const std::map<std::string, QuantityIn, std::less<>> kKeys = {
      {"train/CrossEntropyLoss", {loss}},
      {"train/CE loss", {loss}},
      {"throughput/device/batches_per_second", {steps_per_s}},
      {"throughput/device/BPS", {steps_per_s}},
      {"throughput/device/tokens_per_second", {tokens_per_gpu_s}},
      {"throughput/device/TPS", {tokens_per_gpu_s}},
      {"optim/learning_rate_group0", {lr}},
      {"optim/LR (group 0)", {lr}},
      {"optim/total_grad_norm", {grad_norm}},
      {"optim/total grad norm", {grad_norm}},
      {"System/Peak GPU Memory (MB)", {memory_bytes, kMiB}},
      {"Train loss/train/total", {loss}},
      {"Train throughput/batches_per_sec", {steps_per_s}},
      {"Train throughput/samples_per_sec", {samples_per_s}},
      {"Train throughput/tokens_per_sec", {tokens_per_s}},
      {"Train throughput/device/tokens_per_sec", {tokens_per_gpu_s}},
      {"Train l2_norm/grad/global", {grad_norm}},
      {"Train memory/peak_reserved_mem", {memory_bytes, 1e9}},
      {"Eval metrics/eval/LanguageCrossEntropy", {valid_loss}}};
  const auto at = kKeys.find(key);
  if (at != kKeys.end()) return at->second;
  return key.starts_with("Train lr-") && key.ends_with("/group0") ? std::optional(QuantityIn{lr})
                                                                  : std::nullopt;
}

/// "    key=value" or "\t Train key: value"
std::optional<std::pair<std::string_view, std::string_view>> entry_in(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string_view::npos || begin < 2) return std::nullopt;
  line.remove_prefix(begin);
  const bool composer = line.starts_with("Train ") || line.starts_with("Eval ");
  const size_t end = composer ? line.rfind(": ") : line.find('=');
  if (end == std::string_view::npos) return std::nullopt;
  return std::pair(line.substr(0, end), line.substr(end + 1));
}

class BlockReader {
 public:
  /// The numbers of a line, with the step of its block.
  std::optional<Quantities> operator()(std::string_view line) {
    if (line.ends_with("]") || line.ends_with("]:"))
      if (const auto header = begin(line)) return header;
    const auto entry = step_ ? entry_in(line) : std::nullopt;
    if (!entry) {
      step_.reset();
      return std::nullopt;
    }
    Quantities out;
    const auto quantity = quantity_of_block(entry->first);
    const auto value = quantity ? number_at(entry->second) : std::nullopt;
    if (!value) return out;
    out[quantity->quantity] = quantity->factor * *value;
    out.drop_impossible();
    if (quantity->quantity != LogQuantity::valid_loss) out[LogQuantity::step] = step_;
    return out;
  }

 private:
  std::optional<Quantities> begin(std::string_view line) {
    using enum LogQuantity;
    for (const std::string_view words : {"[step=", "[batch="}) {
      const size_t at = line.rfind(words);
      if (at == std::string_view::npos) continue;
      const auto number = number_at(line.substr(at + words.size()));
      if (!number || line.substr(at).find('/') == std::string_view::npos) continue;
      Quantities out;
      out[step] = step_ = *number;
      out[epoch] = number_after(line, "epoch=");
      return out;
    }
    return std::nullopt;
  }
  std::optional<double> step_;
};

}  // namespace

LineReader block_lines() {
  return BlockReader();
}

}  // namespace isobar::logs
