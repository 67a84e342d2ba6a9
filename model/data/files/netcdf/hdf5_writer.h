// Writes one file in the NERSC layout, step by step, under a temporary name until it is complete.
//
//   FieldsWriter out("train/2015.h5", 1460, {20, 360, 720}, names, units, /*deflate=*/0);
//   out.append(fields);   …   out.finish();
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/data/dataset.h"

namespace isobar::data {

class FieldsWriter {
 public:
  FieldsWriter(std::string path, int64_t steps, FieldShape shape, const std::vector<std::string>& names,
               const std::vector<std::string>& units, int deflate);
  ~FieldsWriter();  // without finish(): removes the unfinished file
  FieldsWriter(const FieldsWriter&) = delete;
  FieldsWriter& operator=(const FieldsWriter&) = delete;

  void append(const float* fields);  // [C,H,W]
  void finish();                     // flushes to disk and renames

 private:
  [[noreturn]] void fail(const std::string& doing);
  void put_texts(const std::string& attribute, const std::vector<std::string>& texts);
  std::string path_, part_;
  FieldShape shape_;
  int64_t steps_, written_ = 0;
  int64_t file_ = -1, set_ = -1;  // HDF5 handles
};

}  // namespace isobar::data
