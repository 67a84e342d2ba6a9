// Lines of no known program, whose words name their numbers: "step 12 loss 0.53 took 33.1 ms",
// "[iter 40/1000] loss=0.2 lr=1e-4 128.5 samples/s".
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

#include "bench/logs/quantities.h"

namespace isobar::logs {

/// The numbers, if there are a step and a loss, a time or a rate.
std::optional<Quantities> free_line(std::string_view line);
/// The place of the first word such as "step" in a line; npos: none.
size_t step_word_in(std::string_view line);
/// True for a line with a word such as "step" and a number: what a reader may have missed.
bool looks_like_a_step(std::string_view line);

}  // namespace isobar::logs
