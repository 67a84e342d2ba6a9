// A line that a user describes in run.reads, in one of two ways:
//
//   epoch * step {step} loss {loss} * {ms} ms                   text, numbers by name, and * for anything
//   step +(?<step>[0-9]+) .*loss=(?<loss>[-+0-9.e]+)            an extended regular expression with named
//   groups
//
// Names are those of quantity_words().
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "bench/logs/quantities.h"

namespace isobar::logs {

using LineReader = std::function<std::optional<Quantities>(std::string_view)>;

bool describes_a_line(const std::string& text);
/// Throws ConfigError(file, "run.reads", …) for a name that is none, or an expression that cannot be read.
LineReader own_line(const std::string& text, const std::string& file);

}  // namespace isobar::logs
