#include "reports/live/http.h"

#include <algorithm>
#include <cctype>

#include "model/base/text/printed.h"

namespace isobar::report {
namespace {

std::optional<std::string> percent_decoded(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const char low = static_cast<char>(c | 0x20);
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = digit(text[i + 1]), low = digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low), i += 2;
    }
    if (c == '\0') return std::nullopt;
    out += c;
  }
  return out;
}

// Takes what stands before `mark` from the front of `text`, and the mark with it.
std::string_view take_until(std::string_view& text, std::string_view mark) {
  const size_t end = text.find(mark);
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + mark.size());
  return taken;
}

std::string_view without_blanks(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Internal Server Error";
  }
}

}  // namespace

std::optional<HttpRequest> parse_head(std::string_view head) {
  std::string_view line = take_until(head, "\r\n");
  HttpRequest r;
  r.method = take_until(line, " ");
  std::string_view target = take_until(line, " ");
  if (r.method.empty() || !target.starts_with('/') || !line.starts_with("HTTP/1.")) return std::nullopt;
  const std::optional<std::string> path = percent_decoded(take_until(target, "?"));
  if (!path) return std::nullopt;
  r.path = *path;
  while (!target.empty()) {
    std::string_view value = take_until(target, "&");
    const std::string_view name = take_until(value, "=");
    r.query.emplace(name, value);
  }
  for (line = take_until(head, "\r\n"); !line.empty(); line = take_until(head, "\r\n")) {
    std::string name(take_until(line, ":"));
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    if (!r.headers.emplace(name, without_blanks(line)).second && name == "host") return std::nullopt;
  }
  return r;
}

std::string head_of(const HttpAnswer& a) {
  std::string out = "HTTP/1.1 " + std::to_string(a.status) + " " + reason_of(a.status) + "\r\n";
  const auto header = [&out](const char* name, const std::string& value) {
    if (!value.empty()) out += std::string(name) + ": " + value + "\r\n";
  };
  header("Content-Type", a.type);
  header("Content-Length", std::to_string(a.body.size()));
  header("Connection", "close");
  header("Cache-Control", "no-store");
  header("Referrer-Policy", "no-referrer");
  header("X-Content-Type-Options", "nosniff");
  header("X-Frame-Options", "DENY");
  header("Cross-Origin-Resource-Policy", "same-origin");
  header("Content-Security-Policy", a.policy);
  return out + "\r\n";
}

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain =
        byte < 0x80 && (std::isalnum(byte) || std::string_view("-._~").find(c) != std::string_view::npos);
    out += plain ? std::string(1, c) : printed("%%%02X", byte);
  }
  return out;
}

}  // namespace isobar::report
