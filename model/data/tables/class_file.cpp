#include "model/data/tables/class_file.h"

#include <netcdf.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "model/data/files/library_lock.h"
#include "model/data/written/forecast_file.h"

namespace isobar::data {
namespace {

std::string one_word(std::string name) {  // flag_meanings are separated by blanks
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

}  // namespace

ClassFile::ClassFile(std::string path, const std::map<std::string, std::string>& about, int64_t rows,
                     const std::string& target, const std::vector<std::string>& classes,
                     const Coordinates& at)
    : out_(std::move(path)), classes_(static_cast<int64_t>(classes.size())) {
  const LibraryLock lock;
  out_.text(NC_GLOBAL, "Conventions", "CF-1.8");
  for (const auto& [name, value] : about) out_.text(NC_GLOBAL, name, value);
  const int dims[2] = {out_.dimension("row", rows), out_.dimension("class", classes_)};
  const std::string name = variable_names({target}, {"row", "class", "time", "latitude", "longitude"})[0];
  const int index = out_.variable("class", NC_INT, {dims[1]});
  class_ = out_.variable(name, NC_INT, {dims[0]});
  probability_ = out_.variable(name + "_probability", NC_FLOAT, {dims[0], dims[1]});
  std::vector<std::string> meanings;
  for (const std::string& c : classes) meanings.push_back(one_word(c));
  out_.text(index, "long_name", "class");
  out_.text(class_, "long_name", "most probable class of " + target);
  out_.text(probability_, "long_name", "probability of each class of " + target);
  out_.text(probability_, "units", "1");
  for (const int variable : {index, class_}) out_.flags(variable, meanings);
  if (const std::string along = define_places(out_, dims[0], at); !along.empty())
    for (const int variable : {class_, probability_}) out_.text(variable, "coordinates", along);
  out_.end_header();
  std::vector<int> numbers(classes.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  out_.check(nc_put_var_int(out_.id(), index, numbers.data()), "write the numbers of classes");
}

void ClassFile::append(const float* probabilities, int64_t rows) {
  const std::vector<int32_t> classes = most_probable(probabilities, rows, classes_);
  const LibraryLock lock;
  const size_t start[2] = {static_cast<size_t>(written_), 0},
               count[2] = {static_cast<size_t>(rows), static_cast<size_t>(classes_)};
  out_.check(nc_put_vara_int(out_.id(), class_, start, count, classes.data()), "write classes");
  out_.check(nc_put_vara_float(out_.id(), probability_, start, count, probabilities), "write probabilities");
  written_ += rows;
}

std::vector<int32_t> most_probable(const float* probabilities, int64_t rows, int64_t classes) {
  std::vector<int32_t> out(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    const float* p = probabilities + r * classes;
    out[static_cast<size_t>(r)] = static_cast<int32_t>(std::max_element(p, p + classes) - p);
  }
  return out;
}

}  // namespace isobar::data
