// Readers of the lines of many programs, each in a file of its own, which says whose lines they are.
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

#include "bench/logs/forms/own_line.h"

namespace isobar::logs {

LineReader bar_lines();
LineReader block_lines();
LineReader nersc_lines();
/// The step is counted from the begin of the first epoch; nothing for lines of a validation.
std::optional<Quantities> counted_line(std::string_view line);

/// The numbers, if there are a step and a loss, a time or a rate.
std::optional<Quantities> free_line(std::string_view line);
/// The place of the first word such as "step" in a line; npos: none.
size_t step_word_in(std::string_view line);
/// True for a line with a word such as "step" and a number: what a reader may have missed.
bool looks_like_a_step(std::string_view line);

}  // namespace isobar::logs
