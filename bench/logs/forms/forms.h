// Readers of the lines of many programs, each in a file of its own, which says whose lines they are.
#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "bench/logs/quantities.h"

namespace isobar::logs {

using LineReader = std::function<std::optional<Quantities>(std::string_view)>;

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

/// A line that a user describes in run.reads, in one of two ways:
///
///   epoch * step {step} loss {loss} * {ms} ms            text, numbers by name, and * for anything
///   step +(?<step>[0-9]+) .*loss=(?<loss>[-+0-9.e]+)     an extended regular expression with named groups
///
/// Names are those of quantity_words().
bool describes_a_line(const std::string& text);
/// Throws ConfigError(file, "run.reads", …) for a name that is none, or an expression that cannot be read.
LineReader own_line(const std::string& text, const std::string& file);

}  // namespace isobar::logs
