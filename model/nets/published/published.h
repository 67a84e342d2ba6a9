// A net's tensors in the form of the program that published it, if that differs: several of ours joined, or a
// piece of one.
//
//   for (const PublishedTensor& t : published_form(spec.net, plan.tensors).tensors)
//     for (const PublishedTensor::Piece& p : t.pieces)
//       for (int64_t i = 0; i < p.rows; ++i)   // both row-major
//         for (int64_t j = 0; j < p.run; ++j)
//           own[p.own_first + i * p.own_stride + j] -> theirs[p.first + i * p.stride + j * p.step]
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/plan/plan.h"

namespace isobar::nets {

struct PublishedTensor {
  struct Piece {
    std::string own;
    int64_t rows, run;
    int64_t own_first, own_stride, first, stride, step = 1;
  };
  std::string name;
  std::vector<int64_t> shape;
  std::vector<Piece> pieces;
};

// That program's low-rank adapters; rank 0: none.
struct PublishedAdapters {
  int64_t rank = 0;
  double alpha = 0;
  std::vector<std::string> targets;  // as train.lora_targets
};

struct PublishedForm {
  std::string program;  // the program that reads it; "": the net has only our form
  PublishedAdapters adapters;
  std::vector<PublishedTensor> tensors;           // the current form, which is written
  std::vector<PublishedTensor> earlier;           // tensors that older files have instead
  std::string prefix;                             // prefix of every name in older files
  std::set<std::string> unread = {};              // that program's constants and second names of a tensor
  std::map<std::string, std::string> again = {};  // our tensor, by its second name there
  std::string config = {};                        // contents of the config.json beside the weights; "": none
};

/// `own`: Plan::tensors of the net, without adapters or with PublishedForm::adapters.
PublishedForm published_form(const NetSpec& net, const std::vector<plan::Tensor>& own);

/// A tensor with the same form there.
PublishedTensor same_tensor(const plan::Tensor& t);
int64_t elements_of(const std::vector<int64_t>& shape);

}  // namespace isobar::nets
