// Lines that engines print, described by the words before their numbers: one description for those that read
// a log as it grows (readers.h) and those that import a finished one (bench/import).
//
//   if (const auto q = read_line(megatron_line(), line)) use((*q)[LogQuantity::seconds]);
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/logs/quantities.h"

namespace isobar::logs {

struct LineField {
  LogQuantity quantity;
  std::vector<std::string> words;  // before the number; the first that are in the line count
  double factor = 1;
  bool exact = false;  // left out where the program rounded it: "1.28e+5"
};
struct LineForm {
  std::vector<std::string> marks;  // a line has one of them
  std::vector<LineField> fields;
};

/// The numbers of a line; none: it is of another form.
std::optional<Quantities> read_line(const LineForm& form, std::string_view line);

const LineForm& megatron_line();
const LineForm& nemo_line();
const LineForm& torchtitan_line();
/// True where a word is before "step:", as in torchtitan's lines of validation.
bool names_another_step(std::string_view line);

const LineForm& detectron_line();

/// Lines of Megatron-LM, DeepSpeed and Hugging Face's Trainer beside those of their steps.
const std::vector<LineForm>& megatron_lines();
const std::vector<LineForm>& deepspeed_lines();
const std::vector<LineForm>& trainer_lines();

}  // namespace isobar::logs
