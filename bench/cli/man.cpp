// isobar man: the manual page, from the commands' own tables of options.
#include <cstdio>
#include <string>

#include "bench/cli/commands.h"
#include "model/base/text/printed.h"

namespace isobar::cli {
namespace {

constexpr const char* kManHelp = R"(  isobar man | man -l -
  isobar man > ~/.local/share/man/man1/isobar.1)";

// Text for roff: backslashes and hyphens as they are, and no line that begins with a request
std::string escaped(const std::string& text) {
  std::string out;
  bool begins = true;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (const auto byte = static_cast<unsigned char>(c); byte >= 0xc0) {  // UTF-8, of two to four bytes
      const int more = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
      unsigned code = byte & (0x3fU >> more);
      for (int k = 0; k < more && i + 1 < text.size(); ++k)
        code = code << 6U | (static_cast<unsigned char>(text[++i]) & 0x3fU);
      const std::string name = printed("\\[u%04X]", code);
      out += name;
      begins = false;
      continue;
    }
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    out += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
    begins = c == '\n';
  }
  return out;
}

// "-o, --out TEXT", "CONFIG TEXT"
std::string title_of(const CLI::Option& o) {
  const std::string type = o.get_items_expected_max() > 0 ? o.get_type_name() : "";
  std::string name = "\\fB" + escaped(o.get_name(true, true)) + "\\fR";
  return name + (type.empty() ? "" : " " + escaped(type));
}

void print_options(const CLI::App& command) {
  for (const CLI::Option* o : command.get_options()) {
    if (o->get_lnames() == std::vector<std::string>{"help"}) continue;
    std::printf(".TP\n%s\n%s\n", title_of(*o).c_str(), escaped(o->get_description()).c_str());
  }
}

void print_command(const CLI::App& command, const std::string& before) {
  const std::string name = before + " " + command.get_name();
  if (!command.get_name().empty()) {
    std::printf(".SS %s\n%s\n", escaped(name).c_str(), escaped(command.get_description()).c_str());
    print_options(command);
    if (const std::string footer = command.get_footer(); !footer.empty())
      std::printf(".PP\n.nf\n%s\n.fi\n", escaped(footer).c_str());
  }
  for (const CLI::App* below : command.get_subcommands(nullptr))
    print_command(*below, command.get_name().empty() ? before : name);
}

void print_page(const CLI::App& app) {
  std::printf(".TH ISOBAR 1 \"\" \"isobar %s\" \"User Commands\"\n", ISOBAR_VERSION);
  std::printf(".SH NAME\nisobar \\- measure, model and predict distributed training\n");
  std::printf(".SH SYNOPSIS\n.B isobar\nCOMMAND [OPTIONS]\n.SH DESCRIPTION\n%s\n",
              escaped(app.get_description()).c_str());
  std::printf(".SH OPTIONS\n");
  print_options(app);
  std::printf(".SH COMMANDS\n");
  print_command(app, "isobar");
  std::printf(
      ".SH EXIT STATUS\n0 ok, 2 bad configuration or usage, 3 a loss is not a number, 4 out of memory, 128 "
      "and a "
      "signal's number where one ended it, 1 anything else.\n");
}

}  // namespace

void add_man_command(CLI::App& app) {
  CLI::App* c = app.add_subcommand("man", "Print the manual page");
  c->footer(kManHelp);
  c->callback([&app] { print_page(app); });
}

}  // namespace isobar::cli
