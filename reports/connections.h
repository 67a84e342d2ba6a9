// The connections of a server: one thread reads heads and sends answers, a few others make them.
//
//   serve_connections(listener, allowed, {.status = 403}, answer, stop);
//
// Until a request has been allowed, its connection has a limit of bytes and of seconds and is one of a
// limited number: a new one takes the place of the oldest. So whatever comes without the token holds nothing
// up.
#pragma once
#include <functional>

#include "reports/live/http.h"

namespace isobar::report {

/// `listener`: a socket that listens, and does not block. Serves until `stop` returns true.
void serve_connections(int listener, std::function<bool(const HttpRequest&)> allowed,
                       const HttpAnswer& refusal, std::function<HttpAnswer(const HttpRequest&)> answer,
                       const std::function<bool()>& stop);

}  // namespace isobar::report
