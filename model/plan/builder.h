// Nets write plans with it: declare parameters and buffers, open a routine, emit ops.
//
//   Builder b(rank, world, workspace);
//   View w = b.param({"fc.weight", {n, k}, Init::normal, 0.02f});
//   b.begin("forward", Pass::forward);
//   const InPart here(b, 0);                            // ops emitted from here on belong to part 0
//   b.emit<OpKind::gemm>("fc/forward", {.m = rows, .n = n, .k = k, .trans_b = true}, {x, b.weight(w),
//   View{}}, {y}); b.end();
#pragma once
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "model/plan/plan.h"

namespace isobar::plan {

enum class Use : uint8_t {
  vector,
  matrix,
  gradient
};  // how a parameter is used: read in f32, read by
    // products

class Builder {
 public:
  Builder(int rank, int world, Workspace workspace);

  // ---- parts ----
  int part() const { return part_; }  // of what is declared and emitted now (-1: none)

  // ---- parameters: declared before the first routine, through Parameters (parameters.h) ----
  /// Returns a view of the flat parameters. Pieces that one op reads as a single operand (q, k and v) are
  /// declared together and adjacent; `offset` and `count` are filled in, `extent` defaults to the whole axis.
  View param(Param p) { return params_together({std::move(p)}); }
  View params_together(const std::vector<Param>& pieces);
  int64_t params_end() const { return param_end_; }  // elements declared so far, gaps included
  void pad_params(int64_t to, int64_t from = 0);     // pads to a multiple of `to`, counted from `from`
  /// Ops find the flat range that begins at `begin` there from here on.
  void home(Use use, int64_t begin, const View& at);
  void no_home(Use use, int64_t begin) { homes_[static_cast<int>(use)].erase(begin); }
  /// Freezes the flat range: its grad() is absent, and ops that would only write it are not emitted.
  void freeze(int64_t begin, int64_t count) { home(Use::gradient, begin, {-1, 0, count}); }
  bool trained(const View& param) const { return static_cast<bool>(grad(param)); }
  /// The operand of matrix products: the 16-bit copy if there is one.
  View weight(const View& param) const;
  View grad(const View& param) const { return at(Use::gradient, param); }  // absent if frozen

  // ---- buffers ----
  View persistent(const std::string& name, BufferKind kind, DType t, int64_t count) {
    return add(name, kind, t, count);
  }
  View io(const std::string& name, DType t, int64_t count) { return add(name, BufferKind::io, t, count); }
  /// Shared by all micro-batches and by several parts, so it belongs to none. `fill`: see Constant.
  View constant(const std::string& name, DType t, int64_t count, std::function<void(void*)> fill);
  View saved(const std::string& name, DType t, int64_t count);
  /// From here on, routines that save the same (part, name, occurrence in the routine) share one buffer: they
  /// are one pass over a chunk, written for different steps of a roll-out.
  void share_saved() { shares_saved_ = true; }
  View scratch(const std::string& name, DType t, int64_t count) {
    return add(name, BufferKind::scratch, t, count);
  }

  /// saved if an op after the routine reads it, else scratch
  View saved_or_scratch(const std::string& name, DType t, int64_t count, bool keep) {
    return keep ? saved(name, t, count) : scratch(name, t, count);
  }

  // ---- routines and ops ----
  int begin(const std::string& name, Pass pass, int chunk = 0);  // returns the routine's index
  void end();
  /// Emits nothing if all results are absent.
  template <OpKind K>
  Op& emit(const std::string& path, AttrsOf<K> a, std::vector<View> reads, std::vector<View> writes,
           Lane lane = Lane::compute) {
    return emit(K, path, std::move(a), std::move(reads), std::move(writes), lane);
  }
  /// Throws std::logic_error if the attributes are another kind's.
  Op& emit(OpKind kind, const std::string& path, Attrs a, std::vector<View> reads, std::vector<View> writes,
           Lane lane = Lane::compute);
  /// For attention, whose last write is its workspace or absent; other kinds have one only on request.
  template <OpKind K>
  void emit_with_workspace(const std::string& path, AttrsOf<K> a, std::vector<View> reads,
                           std::vector<View> writes) {
    emit_with_workspace(K, path, std::move(a), std::move(reads), std::move(writes));
  }
  void emit_with_workspace(OpKind kind, const std::string& path, Attrs a, std::vector<View> reads,
                           std::vector<View> writes);
  /// y = x: a copy, or a cast if their types differ.
  void convert(const std::string& path, const View& x, const View& y);
  int group(const std::string& name, std::vector<int> ranks);

  Plan plan;

 private:
  friend class InPart;
  View add(const std::string& name, BufferKind kind, DType t, int64_t count);
  View at(Use use, const View& param) const;
  int64_t workspace_of(OpKind kind, const std::string& path, const Attrs& a, const std::vector<View>& reads,
                       const std::vector<View>& writes) const;
  Workspace workspace_;
  int64_t param_end_ = 0;                              // elements declared so far, gaps included
  std::map<int64_t, View> homes_[3];                   // by use: first flat element -> its buffer
  std::set<std::pair<int32_t, int64_t>> known_homes_;  // buffer and offset of those in plan.homes
  int routine_ = -1, part_ = -1;
  Op left_out_{};
  bool shares_saved_ = false;
  using SavedKey = std::tuple<int32_t, int, std::string, int>;  // chunk, part, name, occurrence
  std::map<SavedKey, View> saved_;
  std::map<SavedKey, int> times_saved_;  // occurrences in the open routine; the key's last field is 0
};

/// While it lives, declarations and ops belong to this part.
class InPart {
 public:
  InPart(Builder& b, int part) : b_(b), before_(b.part_) { b_.part_ = part; }
  ~InPart() { b_.part_ = before_; }
  InPart(const InPart&) = delete;
  InPart& operator=(const InPart&) = delete;

 private:
  Builder& b_;
  const int before_;
};

}  // namespace isobar::plan
