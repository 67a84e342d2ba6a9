// As much of HTTP/1.1 as a page on this machine needs: the head of a request, and an answer to it.
//
//   const std::optional<HttpRequest> r = parse_head("GET /a%20b?token=1 HTTP/1.1\r\nHost:
//   localhost\r\n\r\n"); send(head_of(answer) + answer.body);
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace isobar::report {

struct HttpRequest {
  std::string method, path;                           // decoded: "/a b"
  std::map<std::string, std::string> query, headers;  // names of headers in lower case
};

/// A head up to its empty line; nothing for what is no head, and for a path that holds a NUL.
std::optional<HttpRequest> parse_head(std::string_view head);

struct HttpAnswer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8", body = {};
  std::string policy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
};

/// Status line and headers. Every answer closes its connection, is not cached, and is not shown within other
/// pages.
std::string head_of(const HttpAnswer& answer);

/// For one part of a path: "a b" becomes "a%20b".
std::string percent_encoded(std::string_view text);

}  // namespace isobar::report
