#include "bench/logs/log_text.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <map>

#include "bench/logs/quantities.h"
#include "model/base/error.h"
#include "model/base/system/files.h"

namespace isobar::logs {
namespace {

constexpr size_t kLongestNumber = 64;        // bytes
constexpr int kGzipWindow = 16 + MAX_WBITS;  // zlib's setting for gzip headers

bool digit(char c) {
  return c >= '0' && c <= '9';
}
bool letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

struct Inflater {
  z_stream z{};
  Inflater() { ok = inflateInit2(&z, kGzipWindow) == Z_OK; }
  ~Inflater() { inflateEnd(&z); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  bool ok;
};

/// A file that was appended to has several gzip members.
std::string gunzip(const std::string& file, std::string& bytes) {
  Inflater in;
  std::string out;
  in.z.next_in = reinterpret_cast<Bytef*>(bytes.data());
  in.z.avail_in = static_cast<uInt>(bytes.size());
  std::array<char, 1 << 16> block;
  in.z.avail_out = 0;  // enter the loop: there may be more output
  for (int rc = in.ok ? Z_OK : Z_MEM_ERROR; in.z.avail_in > 0 || in.z.avail_out == 0;) {
    in.z.next_out = reinterpret_cast<Bytef*>(block.data());
    in.z.avail_out = block.size();
    if (rc == Z_STREAM_END) rc = inflateReset(&in.z);
    if (rc == Z_OK) rc = inflate(&in.z, Z_NO_FLUSH);
    if (rc != Z_OK && rc != Z_STREAM_END)
      throw ConfigError(file, "byte " + std::to_string(bytes.size() - in.z.avail_in),
                        "does not inflate: the gzip file is damaged", "copy it again, or try gunzip");
    out.append(block.data(), block.size() - in.z.avail_out);
    if (rc == Z_STREAM_END && in.z.avail_in == 0) break;
    if (static_cast<int64_t>(out.size()) > most::lines)
      throw ConfigError(
          file, "", "inflates to more than the " + std::to_string(most::lines >> 20) + " MiB that are read",
          "shorten it");
    if (in.z.avail_in == 0 && in.z.avail_out > 0 && rc != Z_STREAM_END)
      throw ConfigError(file, "byte " + std::to_string(bytes.size()), "ends in the middle of its gzip data",
                        "copy it again");
  }
  return out;
}

// ---- labels: each function returns the length of a label at the begin of the line, or 0
size_t blank_behind(std::string_view s, size_t at) {
  return at < s.size() && s[at] == ' ' ? at + 1 : at;
}

size_t digits_at(std::string_view s, size_t at) {
  size_t end = at;
  while (end < s.size() && digit(s[end])) ++end;
  return end;
}

/// "  3: "
size_t slurm_label(std::string_view s) {
  const size_t begin = std::min(s.find_first_not_of(' '), s.size()), end = digits_at(s, begin);
  if (end == begin || end - begin > 7 || end >= s.size() || s[end] != ':') return 0;
  return end + 1 == s.size() || s[end + 1] == ' ' ? blank_behind(s, end + 1) : 0;
}

bool rank_name(std::string_view name) {  // "rank0", "default3", "trainer0|12"
  const size_t bar = name.find('|');
  const std::string_view first = name.substr(0, bar);
  const size_t number = first.find_first_of("0123456789");
  const auto all = [](std::string_view s, auto&& is) { return std::all_of(s.begin(), s.end(), is); };
  return number != std::string_view::npos && all(first.substr(number), digit) &&
         all(first.substr(0, number), [](char c) { return letter(c) || c == '_' || c == '-'; }) &&
         (bar == std::string_view::npos || all(name.substr(bar + 1), digit));
}

/// "[1,0]<stdout>:", "[rank0]:", "[0] ", "[pod/name/container] "
size_t bracket_label(std::string_view s) {
  if (s.empty() || s[0] != '[') return 0;
  const size_t close = s.find(']');
  if (close == std::string_view::npos || close < 2) return 0;
  const std::string_view name = s.substr(1, close - 1), rest = s.substr(close + 1);
  for (const std::string_view stream : {"<stdout>:", "<stderr>:", "<stdout>", "<stderr>"})
    if (rest.starts_with(stream)) return blank_behind(s, close + 1 + stream.size());
  if (rest.starts_with(":") && rank_name(name)) return blank_behind(s, close + 2);
  const bool number = std::all_of(name.begin(), name.end(), digit);
  return (number || name.starts_with("pod/")) && rest.starts_with(" ") ? close + 2 : 0;
}

/// "(TrainWorker pid=12, ip=10.0.0.1) "
size_t ray_label(std::string_view s) {
  if (s.empty() || s[0] != '(') return 0;
  const size_t close = s.find(") ");
  return close != std::string_view::npos && s.substr(0, close).find("pid=") != std::string_view::npos
             ? close + 2
             : 0;
}

/// "node01: " or "x1000c0s0b0n0 3: ": the name, and the position of the text after it.
std::pair<std::string, size_t> host_before(std::string_view s) {
  size_t name = 0;
  while (name < s.size() && (letter(s[name]) || digit(s[name]) || s[name] == '-' || s[name] == '.')) ++name;
  size_t end = name;
  if (end == 0 || !letter(s[0])) return {"", 0};
  if (end < s.size() && s[end] == ' ') end = digits_at(s, end + 1);
  if (end >= s.size() || s[end] != ':' || s[end - 1] == ' ') return {"", 0};
  if (end + 1 < s.size() && s[end + 1] != ' ') return {"", 0};
  return {std::string(s.substr(0, name)), blank_behind(s, end + 1)};
}

/// "trainer-1  | ", but not "val | " of a program's own
size_t compose_label(std::string_view s) {
  size_t end = 0;
  while (end < s.size() && (letter(s[end]) || digit(s[end]) || s[end] == '-' || s[end] == '_')) ++end;
  const size_t bar = s.find_first_not_of(' ', end);
  return end > 0 && !is_validation(s.substr(0, end)) && bar != std::string_view::npos && bar > end &&
                 s.substr(bar).starts_with("| ")
             ? bar + 2
             : 0;
}

/// True when `s` matches `form` at `at`: 0 stands for a digit, a for a letter.
bool has_form(std::string_view s, size_t at, std::string_view form) {
  if (at + form.size() > s.size()) return false;
  for (size_t i = 0; i < form.size(); ++i) {
    const char c = s[at + i];
    if (form[i] == '0' ? !digit(c) : form[i] == 'a' ? !letter(c) : c != form[i]) return false;
  }
  return true;
}

/// "2024-01-01T10:00:00.123Z ", "[2024-01-01 10:00:00] ", "Nov 26 04:11:24 ", "Thu Nov 26 04:11:24 2026",
/// "00:00:05 "
size_t time_label(std::string_view s) {
  size_t at = !s.empty() && s[0] == '[' ? 1 : 0;
  const bool bracket = at == 1;
  if (has_form(s, at, "0000-00-00T00:00:00") || has_form(s, at, "0000-00-00 00:00:00"))
    at += 19;
  else if (has_form(s, at, "aaa aaa 00 00:00:00 0000") || has_form(s, at, "aaa aaa  0 00:00:00 0000"))
    at += 24;
  else if (has_form(s, at, "aaa 00 00:00:00") || has_form(s, at, "aaa  0 00:00:00"))
    at += 15;
  else if (has_form(s, at, "00:00:00"))
    at += 8;
  else
    return 0;
  if (at < s.size() && (s[at] == '.' || s[at] == ',')) at = digits_at(s, at + 1);
  if (at < s.size() && s[at] == 'Z')
    ++at;
  else if (has_form(s, at, "+00:00") || has_form(s, at, "-00:00"))
    at += 6;
  if (bracket && (at >= s.size() || s[at] != ']')) return 0;
  at += bracket;
  for (const std::string_view stream : {"<stdout>:", "<stderr>:"})
    if (s.substr(at).starts_with(stream)) return blank_behind(s, at + stream.size());
  return at == s.size() || s[at] == ' ' || s[at] == '[' ? blank_behind(s, at) : 0;
}

/// Host names before a colon. A name with a number must occur in several lines, one without in most, because
/// such a word may be the log's own ("step: 10").
std::set<std::string> hosts_in(const std::vector<std::string>& lines) {
  constexpr size_t kFewest = 3, kFewestUnnumbered = 8;
  std::map<std::string, size_t> seen;
  size_t filled = 0;
  for (const std::string& line : lines) {
    filled += !line.empty();
    if (auto [name, rest] = host_before(without_labels(line, Times::taken_off)); rest > 0)
      ++seen[std::move(name)];
  }
  std::set<std::string> out;
  for (const auto& [name, n] : seen) {
    const bool numbered = name.find_first_of("0123456789") != std::string::npos || name == "localhost";
    if (numbered ? n >= kFewest : n >= kFewestUnnumbered && 2 * n > filled) out.insert(name);
  }
  return out;
}

}  // namespace

std::string log_text(const std::string& file) {
  std::string bytes = read_file(file);
  if (bytes.starts_with("\x1f\x8b")) return gunzip(file, bytes);
  const std::pair<std::string_view, const char*> others[] = {{"\x28\xb5\x2f\xfd", "unzstd"},
                                                             {"BZh", "bunzip2"},
                                                             {"\xfd"
                                                              "7zXZ",
                                                              "unxz"}};
  for (const auto& [begin, program] : others)
    if (bytes.starts_with(begin))
      throw ConfigError(file, "", std::string("is compressed, as ") + program + " undoes it",
                        std::string(program) + " it first");
  if (bytes.starts_with("\xff\xfe") || bytes.starts_with("\xfe\xff"))
    throw ConfigError(file, "", "is in UTF-16, as PowerShell writes it", "iconv -f UTF-16 -t UTF-8 it first");
  return bytes;
}

std::string_view without_labels(std::string_view line, Times times, const std::set<std::string>& hosts) {
  for (;;) {
    size_t n = 0;
    for (const auto label : {slurm_label, bracket_label, ray_label, compose_label})
      if (n == 0) n = label(line);
    if (n == 0 && !hosts.empty())
      if (const auto [name, rest] = host_before(line); hosts.contains(name)) n = rest;
    if (n == 0 && times == Times::taken_off) n = time_label(line);
    if (n == 0) return line;
    line.remove_prefix(n);
  }
}

std::string without_colours(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const auto is_within = [&](size_t i, char first, char last) {
    return i < text.size() && text[i] >= first && text[i] <= last;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b') {
      out += text[i];
    } else if (const char kind = i + 1 < text.size() ? text[++i] : '\0'; kind == '[') {  // colours, movements
      while (++i < text.size() && !is_within(i, '@', '~')) {
      }
    } else if (kind == ']') {  // links and titles, which end with a bell or another escape's backslash
      while (++i < text.size() && text[i] != '\a' && text[i] != '\\') {
      }
    } else if (is_within(i, ' ', '/')) {  // "\x1b(B" of tput: character sets
      while (is_within(i, ' ', '/')) ++i;
    }
  }
  return out;
}

std::string plain_line(std::string_view line) {
  const std::string text = without_colours(line);
  return std::string(without_labels(text, Times::taken_off));
}

std::vector<std::string> log_lines(const std::string& text, Times times) {
  std::vector<std::string> out(1);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n' || (c == '\r' && (i + 1 == text.size() || text[i + 1] != '\n'))) {
      if (c == '\n' || !out.back().empty()) out.emplace_back();
    } else if (c == '\r') {  // before a line's end
    } else if (out.back().size() < kLongestLogLine) {
      out.back() += c;
    }
  }
  for (std::string& line : out)
    if (line.find('\x1b') != std::string::npos) line = without_colours(line);
  const std::set<std::string> hosts = hosts_in(out);
  for (std::string& line : out) line.erase(0, line.size() - without_labels(line, times, hosts).size());
  return out;
}

std::optional<std::string_view> text_after(std::string_view line, std::string_view words) {
  size_t at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  at = line.find_first_not_of(" \t", at + words.size());
  return at == std::string_view::npos ? std::string_view() : line.substr(at);
}

std::optional<double> number_at(std::string_view text, std::string_view* rest) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return std::nullopt;
  text.remove_prefix(begin);
  std::string digits;  // without the commas of thousands
  std::vector<size_t> from;
  for (size_t i = 0; i < text.size() && digits.size() < kLongestNumber; ++i) {
    const char c = text[i];
    const bool separates = (c == ',' || c == '_') && i > 0 && digit(text[i - 1]);
    const size_t group = separates ? digits_at(text, i + 1) - i - 1 : 0;
    const bool whole = group > 0 && digits.find_first_not_of("+-0123456789") == std::string::npos;
    if (group == 3 && digits != "0" && digits != "-0") continue;
    // "0,25" and "2,5123": a decimal comma, unless it is one of a list
    if (c == ',' && whole && text.substr(i + 1 + group, 1) != ",") {
      digits += '.';
      from.push_back(i);
      continue;
    }
    if (!digit(c) && !letter(c) && c != '.' && c != '-' && c != '+') break;
    digits += c;
    from.push_back(i);
  }
  const size_t sign = std::min(digits.find_first_not_of("+-"), digits.size());
  if (digits.substr(sign, 2) == "0x" || digits.substr(sign, 2) == "0X") digits.resize(sign + 1);
  char* stop = nullptr;
  const double value = std::strtod(digits.c_str(), &stop);
  const auto read = static_cast<size_t>(stop - digits.c_str());
  if (read == 0) return std::nullopt;
  // "nano" and "INFO" are no numbers
  if (!std::isfinite(value) && letter(digits[sign]) && read < digits.size() && letter(digits[read]))
    return std::nullopt;
  if (rest) *rest = text.substr(from[read - 1] + 1);
  return value;
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::optional<double> number_without_unit(std::string_view text) {
  std::string_view rest;
  const auto v = number_at(text, &rest);
  const size_t next = std::min(rest.find_first_not_of(" \t"), rest.size());
  return next == rest.size() || std::string_view(",])}").find(rest[next]) != std::string_view::npos
             ? v
             : std::nullopt;
}

std::optional<double> number_after(std::string_view line, std::string_view words) {
  const std::optional<std::string_view> rest = text_after(line, words);
  const std::optional<double> v = rest ? number_at(*rest) : std::nullopt;
  return v && std::isfinite(*v) ? v : std::nullopt;
}

std::optional<double> clock_in(const std::string& line) {
  for (size_t at = line.find("20"); at != std::string::npos; at = line.find("20", at + 1)) {
    if (!has_form(line, at, "0000-00-00 00:00:00") && !has_form(line, at, "0000-00-00T00:00:00")) continue;
    const auto two = [&](size_t i) { return std::atof(line.substr(at + i, 2).c_str()); };
    // Howard Hinnant's days_from_civil, whose years begin in March.
    const int64_t month = std::llround(two(5)), year = std::llround(100 * two(0) + two(2)) - (month <= 2);
    const int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + std::llround(two(8)) - 1;
    const int64_t days = 365 * year + year / 4 - year / 100 + year / 400 + of_year - 719468;
    double part = 0;
    if (at + 19 < line.size() && (line[at + 19] == '.' || line[at + 19] == ','))
      part = std::atof(("0." + line.substr(at + 20, 9)).c_str());
    return 86400.0 * static_cast<double>(days) + 3600 * two(11) + 60 * two(14) + two(17) + part;
  }
  return std::nullopt;
}

}  // namespace isobar::logs
