// A variable of a classic netCDF file (CDF-1, CDF-2 "64-bit offset", CDF-5), read by many threads at once.
//
// The netCDF library serves one thread at a time, and reads zeros beyond the end of a truncated file. So this
// class parses the header (netCDF User's Guide, appendix "File Format Specifications") for the variable's
// offset, and reads the data with pread(2).
//
//   ClassicArray t2m("era5.nc", "t2m");        // throws ArrayError: no such variable, truncated
//   t2m.read({t, 0, 0}, {1, H, W}, out);
#pragma once
#include <string>

#include "model/base/system/files.h"
#include "model/data/files/raw_array.h"

namespace isobar::data {

class ClassicArray : public RawArray {
 public:
  ClassicArray(const std::string& file, const std::string& name);

  const Index& dims() const override { return dims_; }
  Element element() const override { return element_; }
  StorageLayout layout() const override;
  void read(const Index& start, const Index& count, void* out) const override;
  void read_in_pieces(const Index& start, const Index& count, void* out,
                      const Arrived& arrived) const override;

 private:
  void parse(const std::string& name);
  InputFile file_;
  Index dims_;
  Element element_ = Element::f32;
  int64_t begin_ = 0;         // file position of the first element
  bool record_ = false;       // the first axis is unlimited: records of all variables are interleaved
  int64_t record_bytes_ = 0;  // from one record to the next
};

}  // namespace isobar::data
