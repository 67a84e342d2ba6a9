// What the nets write plans with: declare parameters and buffers, open a routine, emit ops.
//
//   Builder b(rank, world, workspace);
//   View w = b.param({"fc.weight", {n, k}, Init::normal, 0.02f});
//   b.begin("forward", Pass::forward);
//   b.gemm("fc/forward", {.m = rows, .n = n, .k = k, .trans_b = true}, x, b.weight(w), View{}, y);
//   b.end();
#pragma once
#include <string>
#include <vector>

#include "model/plan/plan.h"

namespace isobar {

class Builder {
 public:
  Builder(int rank, int world, Workspace workspace);

  // ---- parameters: all declared before the first routine ----
  /// Returns a view into params; the same range of grads, moments and params16 belongs to it. Parameters that
  /// one op reads as a single operand (q, k and v) are declared together and lie side by side. `offset` and
  /// `count` are filled in; `extent` defaults to the whole axis.
  View param(Param p) { return params_together({std::move(p)}); }
  View params_together(const std::vector<Param>& pieces);
  int64_t params_end() const { return param_end_; }  // elements declared so far, gaps included
  void end_params(bool params16);                    // creates params, grads, adam moments, params16
  View weight(const View& param) const;  // what matrix products read: params16 under AMP, else params
  View grad(const View& param) const { return {grads_, param.offset, param.count}; }

  // ---- buffers ----
  View io(const std::string& name, DType t, int64_t count) { return add(name, BufferKind::io, t, count); }
  View saved(const std::string& name, DType t, int64_t count) {
    return add(name, BufferKind::saved, t, count);
  }
  View scratch(const std::string& name, DType t, int64_t count) {
    return add(name, BufferKind::scratch, t, count);
  }

  /// saved if something after the routine reads it, else scratch
  View hold(const std::string& name, DType t, int64_t count, bool keep) {
    return keep ? saved(name, t, count) : scratch(name, t, count);
  }

  // ---- routines and ops ----
  int begin(const std::string& name, Pass pass, int chunk = 0);  // returns the routine's index
  void end();
  Op& emit(OpKind kind, const std::string& path, Attrs a, std::vector<View> reads, std::vector<View> writes,
           Lane lane = Lane::compute);
  /// Adds the scratch that the backend wants for an op, as its last write.
  void emit_with_workspace(OpKind kind, const std::string& path, Attrs a, std::vector<View> reads,
                           std::vector<View> writes);
  int group(const std::string& name, std::vector<int> ranks);

  Plan plan;

 private:
  View add(const std::string& name, BufferKind kind, DType t, int64_t count);
  Workspace workspace_;
  int64_t param_end_ = 0;  // elements declared so far, gaps included
  int params_ = -1, params16_ = -1, grads_ = -1;
  int routine_ = -1;
};

/// Emits the gradient all-reduces of one contiguous range of `grads`: buckets from its end towards its start,
/// each as soon as backward has written all of it. With overlap off they are emitted by finish() only.
class GradientBuckets {
 public:
  /// group -1: nothing to reduce
  GradientBuckets(Builder& b, int group, int64_t begin, int64_t end, int64_t bucket_bytes, bool overlap);
  void done_down_to(int64_t offset);  // every gradient at or after this element is final
  void finish(const View& last);      // the gradient that backward wrote last

 private:
  void reduce(int64_t from);
  Builder& b_;
  int group_;
  int64_t bucket_;  // elements
  bool overlap_;
  View last_;
  int64_t begin_;
  int64_t reduced_;  // elements from here on are emitted
  int64_t done_;
};

}  // namespace isobar
