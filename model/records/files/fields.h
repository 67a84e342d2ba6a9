// Lists a record's keys once, in a function `fields(visitor, record)`: a FieldWriter turns the record into an
// object, a FieldReader fills it from one.
//
//   void fields(auto& f, Is<PartRecord> auto& r) { f("kind", r.kind); f("path", r.path); }
#pragma once
#include <cmath>
#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "model/base/error.h"
#include "model/records/records.h"

namespace isobar::records {

template <class T, class R>
concept Is = std::same_as<std::remove_const_t<T>, R>;  // R or const R: one list serves writing and reading

template <class T>
constexpr bool is_plain =
    std::is_arithmetic_v<T> || std::same_as<T, std::string> || std::same_as<T, nlohmann::json> ||
    std::same_as<T, std::vector<double>> || std::same_as<T, std::map<std::string, int64_t>> ||
    std::same_as<T, std::map<std::string, double>>;

class FieldWriter {
 public:
  explicit FieldWriter(nlohmann::json& out) : out_(out) {}

  template <class T>
  void operator()(const char* key, const T& value) {
    out_[key] = written(value);
  }
  template <class T>
  void operator()(const char* key, const std::optional<T>& value) {
    if (value) out_[key] = written(*value);
  }
  void operator()(const char* key, const std::vector<double>& values) {  // empty: absent
    if (!values.empty()) out_[key] = values;
  }

 private:
  template <class T>
  static nlohmann::json written(const T& value) {
    if constexpr (is_plain<T>) {
      return value;
    } else {
      nlohmann::json object = nlohmann::json::object();
      FieldWriter f(object);
      fields(f, value);
      return object;
    }
  }
  template <class T>
  requires(!is_plain<std::vector<T>>) static nlohmann::json written(const std::vector<T>& list) {
    nlohmann::json out = nlohmann::json::array();
    for (const T& item : list) out.push_back(written(item));
    return out;
  }

  nlohmann::json& out_;
};

class FieldReader {
 public:
  FieldReader(const nlohmann::json& in, const Place& place, std::string prefix = "")
      : in_(in), place_(place), prefix_(std::move(prefix)) {}

  template <class T>
  void operator()(const char* key, T& value) {
    if (const auto it = in_.find(key); it != in_.end() && !it->is_null()) read(*it, prefix_ + key, value);
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& value) {
    const auto it = in_.find(key);
    if (it == in_.end() || it->is_null()) return;
    if (T taken{}; read(*it, prefix_ + key, taken)) value = std::move(taken);
  }

 private:
  // Returns whether the value has the expected type.
  bool read(const nlohmann::json& j, const std::string& key, bool& out) const {
    if (!j.is_boolean()) return wrong(j, key, "true or false");
    out = j.get<bool>();
    return true;
  }
  bool read(const nlohmann::json& j, const std::string& key, int64_t& out) const {
    constexpr double kLargest = 9.2e18;
    const double d = j.is_number() ? j.get<double>() : kLargest;
    if (std::abs(d) >= kLargest || d != std::floor(d)) return wrong(j, key, "a whole number");
    out = j.is_number_float() ? static_cast<int64_t>(d) : j.get<int64_t>();
    return true;
  }
  bool read(const nlohmann::json& j, const std::string& key, double& out) const {
    if (!j.is_number()) return wrong(j, key, "a number");
    out = j.get<double>();
    return true;
  }
  bool read(const nlohmann::json& j, const std::string& key, std::string& out) const {
    if (!j.is_string()) return wrong(j, key, "a text");
    out = j.get<std::string>();
    return true;
  }
  bool read(const nlohmann::json& j, const std::string& key, nlohmann::json& out) const {
    if (!j.is_object()) return wrong(j, key, "an object");
    out = j;
    return true;
  }
  bool read(const nlohmann::json& j, const std::string& key, std::vector<double>& out) const {
    if (!j.is_array()) return wrong(j, key, "a list of numbers");
    for (const nlohmann::json& item : j) {
      out.push_back(or_nan({}));
      if (!item.is_null()) read(item, key, out.back());
    }
    return true;
  }
  template <class N>
  bool read(const nlohmann::json& j, const std::string& key, std::map<std::string, N>& out) const {
    if (!j.is_object()) return wrong(j, key, "an object");
    for (const auto& [name, value] : j.items())
      if (N number = 0; read(value, key + "." + name, number)) out[name] = number;
    return true;
  }
  template <class T>
  requires(!is_plain<std::vector<T>>) bool read(const nlohmann::json& j, const std::string& key,
                                                std::vector<T>& out) const {
    if (!j.is_array()) return wrong(j, key, "a list of objects");
    for (size_t i = 0; i < j.size(); ++i)
      if (T item{}; read(j[i], key + "[" + std::to_string(i) + "]", item)) out.push_back(std::move(item));
    return true;
  }
  template <class T>
  bool read(const nlohmann::json& j, const std::string& key, T& out) const {
    if (!j.is_object()) return wrong(j, key, "an object");
    FieldReader f(j, place_, key + ".");
    fields(f, out);
    return true;
  }

  bool wrong(const nlohmann::json& j, const std::string& key, const char* must) const {
    const std::string is = j.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 60);
    const ConfigError e(place_.file + ":" + std::to_string(place_.line), key,
                        "is " + is + ", not " + std::string(must), "correct the line, or take it out");
    if (!place_.problems) throw ConfigError(e);
    place_.problems->push_back(e.what());
    return false;
  }

  const nlohmann::json& in_;
  const Place& place_;
  std::string prefix_;
};

}  // namespace isobar::records
