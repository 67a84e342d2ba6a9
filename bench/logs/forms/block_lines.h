// Blocks of lines, a step's name and then a number a line, as OLMo and Composer (llm-foundry) write them.
//
//   [step=2/739328,epoch=0]                            [batch=2/4800]:
//       train/CrossEntropyLoss=11.28                   	 Train loss/train/total: 11.6812
//       throughput/device/batches_per_second=0.1497    	 Train throughput/batches_per_sec: 0.2500
#pragma once
#include <optional>
#include <string_view>

#include "bench/logs/quantities.h"

namespace isobar::logs {

class BlockReader {
 public:
  /// The numbers of a line, with the step of its block.
  std::optional<Quantities> operator()(std::string_view line);

 private:
  std::optional<Quantities> begin(std::string_view line);
  std::optional<double> step_;
};

}  // namespace isobar::logs
