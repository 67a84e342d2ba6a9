// The arguments that Megatron-LM and its forks print at the start of a log, a line each.
//
//   MegatronArguments a(log_lines(text), file);
//   a.number("num_layers", 0); a.yes("swiglu"); a.text("recompute_granularity");
#pragma once
#include <map>
#include <string>
#include <vector>

namespace isobar::foreign {

class MegatronArguments {
 public:
  /// Throws ConfigError when they are printed twice.
  MegatronArguments(const std::vector<std::string>& lines, const std::string& file);
  bool empty() const { return values_.empty(); }
  /// "" when absent or None.
  std::string text(const std::string& name) const;
  bool yes(const std::string& name) const { return text(name) == "True"; }
  /// True when the argument has a value other than False.
  bool said(const std::string& name) const { return !text(name).empty() && text(name) != "False"; }
  double number(const std::string& name, double otherwise) const;
  /// True for GPT-NeoX, whose names are read as Megatron-LM's.
  bool neox() const { return neox_; }

 private:
  void take(const std::string& line);
  bool neox_ = false;
  std::map<std::string, std::string> values_;
};

}  // namespace isobar::foreign
