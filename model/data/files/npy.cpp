#include "model/data/files/npy.h"

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/data/cf/calendar.h"
#include "model/data/files/element.h"

namespace isobar::data {
namespace {

const char* const kNpyMend =
    "write it with numpy.save(path, x.astype('float32')), or make it: isobar data stats";

/// The text after `'key':` in the header dictionary, up to and including `end`.
std::string value_of(const std::string& header, const std::string& key, char end) {
  size_t at = header.find("'" + key + "'");
  if (at == std::string::npos || (at = header.find(':', at)) == std::string::npos) return "";
  const size_t stop = header.find(end, at + 1);
  return stop == std::string::npos ? "" : header.substr(at + 1, stop - at);
}

/// Parses 'descr'; false for an unsupported type.
bool type_of(const std::string& descr, NpyHeader& h) {
  const size_t at = descr.find('\'');
  const std::string name =
      at == std::string::npos ? "" : descr.substr(at + 1, descr.find('\'', at + 1) - at - 1);
  if (name.size() < 3 || std::string("<>|=").find(name[0]) == std::string::npos) return false;
  h.big_endian = name[0] == '>';
  const std::string kind = name.substr(1);
  if (kind.starts_with("M8[") && kind.back() == ']') {
    h.datetime = kind.substr(3, kind.size() - 4), h.element = Element::i64;
    return true;
  }
  const std::pair<const char*, Element> types[] = {
      {"f2", Element::f16}, {"f4", Element::f32}, {"f8", Element::f64}, {"i1", Element::i8},
      {"i2", Element::i16}, {"i4", Element::i32}, {"i8", Element::i64}, {"u1", Element::u8},
      {"u2", Element::u16}, {"u4", Element::u32}, {"u8", Element::u64}, {"b1", Element::u8}};
  for (const auto& [known, element] : types)
    if (kind == known) {
      h.element = element;
      return true;
    }
  return false;
}

std::vector<double> in_c_order(const NpyArray& fortran) {
  const std::vector<int64_t>& shape = fortran.shape;
  std::vector<int64_t> step(shape.size(), 1), at(shape.size(), 0);
  for (size_t k = 1; k < shape.size(); ++k) step[k] = step[k - 1] * shape[k - 1];
  std::vector<double> out;
  out.reserve(fortran.values.size());
  for (int64_t from = 0; out.size() < fortran.values.size();) {
    out.push_back(fortran.values[static_cast<size_t>(from)]);
    for (size_t k = shape.size(); k-- > 0;) {  // next index, last axis first
      from += step[k];
      if (++at[k] < shape[k]) break;
      from -= at[k] * step[k];
      at[k] = 0;
    }
  }
  return out;
}

}  // namespace

NpyArray read_npy(const std::string& path, const std::string& key) {
  std::error_code unknown;
  if (std::filesystem::status(path, unknown).type() == std::filesystem::file_type::not_found)
    throw ConfigError(path, key, "no such file", "make it: isobar data stats DATA -o DIR");
  return parse_npy(read_file(path, most::npy, key), path, key, kNpyMend);
}

NpyHeader parse_npy_header(const std::string& bytes, const std::string& path, const std::string& key,
                           const std::string& mend) {
  const auto refuse = [&](const std::string& what) { throw ConfigError(path, key, what, mend); };
  if (bytes.size() < 12 || bytes.compare(0, 6, "\x93NUMPY", 6) != 0) refuse("is not a .npy file");
  const bool long_header = bytes[6] >= 2;  // version 1.0 has a 2-byte length, 2.0 and 3.0 a 4-byte one
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, long_header ? 4 : 2);
  NpyHeader h;
  h.data_at = (long_header ? 12 : 10) + static_cast<int64_t>(length);
  if (h.data_at > static_cast<int64_t>(bytes.size())) refuse("is truncated");
  const std::string header = bytes.substr(long_header ? 12 : 10, length);

  const std::string descr = value_of(header, "descr", ','), order = value_of(header, "fortran_order", ','),
                    shape = value_of(header, "shape", ')');
  if (!type_of(descr, h))
    refuse("holds " + (descr.empty() ? "an unknown type" : descr) + " and no numbers of 8 to 64 bits");
  for (size_t i = 0; i < shape.size();) {
    if (!std::isdigit(static_cast<unsigned char>(shape[i]))) {
      ++i;
      continue;
    }
    int64_t d = 0;
    for (; i < shape.size() && std::isdigit(static_cast<unsigned char>(shape[i])) && d < (int64_t{1} << 40);
         ++i)
      d = d * 10 + (shape[i] - '0');
    h.shape.push_back(d);
    h.count = d != 0 && h.count > (int64_t{1} << 48) / d ? int64_t{1} << 48
                                                         : h.count * d;  // no overflow by a damaged header
  }
  int64_t longest = 0;
  for (int64_t d : h.shape) longest = std::max(longest, d);
  const bool of_columns = order.find("True") != std::string::npos;
  if (!of_columns && order.find("False") == std::string::npos) refuse("does not say its order");
  h.fortran = of_columns && longest != h.count;
  return h;
}

NpyArray parse_npy(const std::string& bytes, const std::string& path, const std::string& key,
                   const std::string& mend) {
  const auto refuse = [&](const std::string& what) { throw ConfigError(path, key, what, mend); };
  const NpyHeader h = parse_npy_header(bytes, path, key, mend);
  if (!h.datetime.empty()) refuse("holds times (datetime64) and no numbers");
  const int64_t size = size_of(h.element);
  const auto held = static_cast<int64_t>(bytes.size()) - h.data_at;
  if (held != h.count * size)
    refuse("holds " + std::to_string(held) + " bytes of data where its shape needs " +
           std::to_string(h.count * size));
  std::string swapped;
  const char* data = bytes.data() + h.data_at;
  if (h.big_endian) {
    swapped = bytes.substr(static_cast<size_t>(h.data_at));
    swap_bytes(swapped.data(), h.count, size);
    data = swapped.data();
  }
  NpyArray out{h.shape, {}};
  out.values.reserve(static_cast<size_t>(h.count));
  for (int64_t i = 0; i < h.count; ++i) {
    alignas(8) char one[8];  // values in `bytes` may be unaligned
    std::memcpy(one, data + i * size, static_cast<size_t>(size));
    out.values.push_back(as_double(one, h.element));
  }
  if (h.fortran) out.values = in_c_order(out);
  return out;
}

std::string npy_bytes(const std::string& descr, const std::vector<int64_t>& shape, const std::string& data) {
  std::string dims;
  for (int64_t d : shape) dims += std::to_string(d) + (shape.size() == 1 ? "," : ", ");
  if (shape.size() > 1) dims.resize(dims.size() - 2);
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + dims + "), }";
  header.append(64 - (10 + header.size() + 1) % 64, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  const auto length = static_cast<uint16_t>(header.size());
  bytes.append(reinterpret_cast<const char*>(&length), 2);
  return bytes + header + data;
}

void write_npy(const std::string& path, const std::vector<int64_t>& shape, const std::vector<float>& values) {
  write_atomically(
      path,
      npy_bytes("<f4", shape, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}));
}

namespace {

struct Unit {
  const char *numpy, *cf;
  double scale;
  int64_t months;
};
constexpr Unit kUnits[] = {{"Y", "days", 1, 12},       {"M", "days", 1, 1},        {"W", "days", 7, 0},
                           {"D", "days", 1, 0},        {"h", "hours", 1, 0},       {"m", "minutes", 1, 0},
                           {"s", "seconds", 1, 0},     {"ms", "seconds", 1e-3, 0}, {"us", "seconds", 1e-6, 0},
                           {"ns", "seconds", 1e-9, 0}, {"ps", "seconds", 1e-12, 0}};

}  // namespace

std::optional<NumpyTime> numpy_time(const std::string& unit) {
  const size_t digits = std::min(unit.find_first_not_of("0123456789"), unit.size());
  if (digits > 9) return std::nullopt;
  const int64_t many = digits > 0 ? std::strtoll(unit.c_str(), nullptr, 10) : 1;
  for (const Unit& u : kUnits)
    if (unit.substr(digits) == u.numpy && many > 0)
      return NumpyTime{std::string(u.cf) + " since 1970-01-01 00:00:00", u.scale * static_cast<double>(many),
                       u.months * many};
  return std::nullopt;
}

double NumpyTime::value(int64_t stored) const {
  if (stored == std::numeric_limits<int64_t>::min()) return std::nan("");
  if (months == 0) {
    const double per = std::round(1 / scale);  // divide, because 1e9 is exact as a double and 1e-9 is not
    return scale < 1 && per * scale == 1 ? static_cast<double>(stored) / per
                                         : static_cast<double>(stored) * scale;
  }
  constexpr int64_t kFarthest = 12 * 100'000;  // months, beyond any date
  if (std::abs(stored) > kFarthest / months) return std::nan("");
  const int64_t all = stored * months, year = 1970 + (all >= 0 ? all : all - 11) / 12;
  return static_cast<double>(
      *day_number(Calendar::proleptic_gregorian, {year, static_cast<int>(all - (year - 1970) * 12) + 1, 1}));
}

}  // namespace isobar::data
