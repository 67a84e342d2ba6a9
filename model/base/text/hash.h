// SHA-256 of a byte string, as 64 hex digits (OpenSSL). Runs and plans are named by it.
#pragma once
#include <string>
#include <string_view>

namespace isobar {
std::string sha256_hex(std::string_view bytes);
}
