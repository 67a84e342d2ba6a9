#include "model/base/text/json_fault.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace isobar {
namespace {

constexpr size_t kShown = 24;  // bytes before the fault and behind it

/// A SAX handler that keeps only the place of the first error.
struct FaultPlace : nlohmann::json_sax<nlohmann::json> {
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    byte = position;
    return false;
  }
  size_t byte = 0;  // counted from 1
};

}  // namespace

std::string json_fault(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return "is empty, and no JSON";
  FaultPlace place;
  if (nlohmann::json::sax_parse(text, &place)) {  // which takes a NUL for the end
    const size_t nul = text.find('\0');
    return nul == std::string_view::npos ? ""
                                         : "is no JSON at byte " + std::to_string(nul + 1) + ", which is NUL";
  }
  const size_t at = std::min(place.byte > 0 ? place.byte - 1 : 0, text.size());
  const std::string where = "is no JSON at byte " + std::to_string(at + 1) + ", where ";
  const std::string behind(text.substr(at - std::min(at, kShown), std::min(at, kShown)));
  if (at >= text.size()) return where + "it ends behind `" + behind + "`";
  return where + "`" + std::string(text.substr(at, kShown)) + "` stands behind `" + behind + "`";
}

}  // namespace isobar
