// A variable of a classic netCDF file (CDF-1, CDF-2 "64-bit offset", CDF-5), read by many threads at once.
//
// The netCDF library serves one thread at a time, and reads zeros beyond the end of a truncated file. So this
// class parses the header (netCDF User's Guide, appendix "File Format Specifications") for the variable's
// offset, and reads the data with pread(2).
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "model/base/system/files.h"
#include "model/data/fields/slab.h"
#include "model/data/files/raw_array.h"

namespace isobar::data {
namespace {

const char* const kClassicMend = "copy or download it again";

constexpr int64_t kLargest = int64_t{1} << 60;  // bytes

/// Reads the header front to back; all numbers are big-endian.
class Header {
 public:
  explicit Header(int fd) : fd_(fd) {}
  void set_version(int version) { version_ = version; }

  uint64_t number(int bytes) {
    const std::string s = take(bytes);
    uint64_t v = 0;
    for (unsigned char c : s) v = v << 8 | c;
    return v;
  }
  uint64_t count() { return number(version_ == 5 ? 8 : 4); }  // NON_NEG: sizes, counts, ids
  int64_t offset() { return static_cast<int64_t>(number(version_ == 1 ? 4 : 8)); }
  std::string name() {
    const uint64_t n = count();
    std::string s = take(n);
    take((4 - n % 4) % 4);
    return s;
  }
  /// Reads the tag and length that open a list; an absent list is two zeros.
  uint64_t list() {
    number(4);
    return count();
  }
  void skip_attributes() {
    for (uint64_t n = list(); n > 0; --n) {
      name();
      const auto type = static_cast<int>(number(4));
      const uint64_t values = count();
      if (values > (uint64_t{1} << 32)) throw ArrayError("its netCDF header is damaged", kClassicMend);
      const uint64_t bytes = values * static_cast<uint64_t>(size_of_type(type));
      take(bytes);
      take((4 - bytes % 4) % 4);
    }
  }
  static int64_t size_of_type(int type) {
    constexpr int64_t sizes[] = {0, 1, 1, 2, 4, 4,
                                 8, 1, 2, 4, 8, 8};  // by nc_type, NC_BYTE = 1 … NC_UINT64 = 11
    if (type < 1 || type > 11) throw ArrayError("its netCDF header is damaged", kClassicMend);
    return sizes[type];
  }

 private:
  std::string take(uint64_t n) {
    constexpr uint64_t kLongest = uint64_t{64} << 20;
    if (n > kLongest || at_ + n > kLongest) throw ArrayError("its netCDF header is damaged", kClassicMend);
    while (buffer_.size() < at_ + n) {
      char block[8192];
      const ssize_t got = ::pread(fd_, block, sizeof block, static_cast<off_t>(buffer_.size()));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) throw ArrayError("is truncated inside of its header", kClassicMend);
      buffer_.append(block, got);
    }
    at_ += n;
    return buffer_.substr(at_ - n, n);
  }
  int fd_, version_ = 1;
  std::string buffer_;
  size_t at_ = 0;
};

bool element_of_code(int type, Element& e) {
  constexpr Element elements[] = {Element::i8,  Element::i8,  Element::i8,  Element::i16,
                                  Element::i32, Element::f32, Element::f64, Element::u8,
                                  Element::u16, Element::u32, Element::i64, Element::u64};
  e = elements[type];
  return type != 2;  // NC_CHAR
}

class ClassicArray : public RawArray {
 public:
  ClassicArray(const std::string& file, const std::string& name) : file_(file) { parse(name); }

  const Index& dims() const override { return dims_; }
  Element element() const override { return element_; }
  StorageLayout layout() const override {
    return {.element = name_of(element_), .storage = record_ ? "records" : "contiguous", .big_endian = true};
  }
  void read(const Index& start, const Index& count, void* out) const override {
    const int64_t size = size_of(element_);
    read_in_pieces(start, count, out, [&](int64_t first, int64_t n, bool) {
      swap_bytes(static_cast<std::byte*>(out) + first * size, n, size);
    });
  }
  void read_in_pieces(const Index& start, const Index& count, void* out,
                      const Arrived& arrived) const override {
    const int64_t size = size_of(element_);
    auto* bytes = static_cast<std::byte*>(out);
    require_inside(dims_, start, count);
    const BytesArrived on_piece = [&](const std::byte* at, int64_t n) {
      arrived((at - bytes) / size, n / size, true);
    };
    if (!record_)
      return read_box(file_.fd(), begin_, dims_, start, count, size, bytes, strides_of(count), on_piece);
    const auto tail = [](const Index& v) { return Index(v.begin() + 1, v.end()); };
    const Index dims = tail(dims_), from = tail(start), n = tail(count);
    for (int64_t r = 0; r < count[0]; ++r)
      read_box(file_.fd(), begin_ + (start[0] + r) * record_bytes_, dims, from, n, size,
               bytes + r * product(n) * size, strides_of(n), on_piece);
  }

 private:
  void parse(const std::string& name) {
    Header header(file_.fd());
    const uint64_t magic = header.number(4);
    const auto version = static_cast<int>(magic & 0xff);
    if (magic >> 8 != 0x434446 || (version != 1 && version != 2 && version != 5))
      throw ArrayError("is not a classic netCDF file", kClassicMend);
    header.set_version(version);
    const uint64_t records = header.count(), streaming = version == 5 ? ~uint64_t{0} : 0xffffffffu;
    Index sizes;
    for (uint64_t n = header.list(); n > 0; --n) {
      header.name();
      sizes.push_back(static_cast<int64_t>(header.count()));  // 0 = the record dimension
    }
    header.skip_attributes();

    bool found = false;
    int64_t record_variables = 0, padded_records = 0, record_size = 0;
    for (uint64_t n = header.list(); n > 0; --n) {
      const std::string variable = header.name();
      Index dims;
      for (uint64_t k = header.count(); k > 0; --k) {
        const uint64_t id = header.count();
        if (id >= sizes.size()) throw ArrayError("its netCDF header is damaged", kClassicMend);
        dims.push_back(sizes[id]);
      }
      header.skip_attributes();
      const auto type = static_cast<int>(header.number(4));
      header.count();  // vsize: wrong for large variables, so computed here
      const int64_t begin = header.offset();
      const bool record = !dims.empty() && dims[0] == 0;
      if (record) {
        dims[0] = 1;
        record_size = declared_product(dims) * Header::size_of_type(type);
        padded_records += (record_size + 3) / 4 * 4;
        if (padded_records > kLargest) throw ArrayError("its netCDF header is damaged", kClassicMend);
        ++record_variables;
      }
      if (variable != name) continue;
      found = true;
      dims_ = dims;
      record_ = record;
      begin_ = begin;
      Header::size_of_type(type);
      if (!element_of_code(type, element_))
        throw ArrayError("'" + name + "' holds text", "name another variable");
    }
    if (!found) throw ArrayError("has no variable '" + name + "'", "name one of its variables");

    // A lone record variable is packed without padding.
    record_bytes_ = record_variables == 1 ? record_size : padded_records;
    const int64_t end_of_file = file_.size(), one = declared_product(dims_) * size_of(element_);
    if (begin_ < 0) throw ArrayError("its netCDF header is damaged", kClassicMend);
    if (record_) {
      dims_[0] = records == streaming && record_bytes_
                     ? std::max<int64_t>(0, end_of_file - begin_) / record_bytes_
                     : static_cast<int64_t>(records);
    }
    if (declared_product(dims_) == 0) return;
    // The declared size is at most kLargest bytes, so these sums cannot overflow.
    if (record_ && dims_[0] > kLargest / std::max<int64_t>(record_bytes_, 1))
      throw ArrayError("its netCDF header is damaged", kClassicMend);
    const int64_t end = begin_ + (record_ ? (dims_[0] - 1) * record_bytes_ : 0) + one;
    if (begin_ > end_of_file || end > end_of_file)
      throw ArrayError("is truncated: '" + name + "' should end at byte " + std::to_string(end),
                       kClassicMend);
  }
  InputFile file_;
  Index dims_;
  Element element_ = Element::f32;
  int64_t begin_ = 0;         // file position of the first element
  bool record_ = false;       // the first axis is unlimited: records of all variables are interleaved
  int64_t record_bytes_ = 0;  // from one record to the next
};

}  // namespace

std::unique_ptr<RawArray> classic_array(const std::string& file, const std::string& name) {
  return std::make_unique<ClassicArray>(file, name);
}

}  // namespace isobar::data
