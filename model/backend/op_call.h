// A launch of an op of a known kind, as functions of back ends take it, and their tables from kind to
// function. Operands have the names of the kind's row (op_kind.h); a wrong one does not compile.
//
//   void run_residual_add(const CpuCall<OpKind::residual_add>& c) {
//     residual_add(c.a.rows * c.a.cols, c.type_in("y"), c.in("residual"), c.in("y"), c.out("x"));
//   }
//   std::span<const CpuRow> norm_ops() {
//     static constexpr CpuRow kRows[] = {row<run_residual_add>};
//     return kRows;
//   }
#pragma once
#include <array>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>

#include "model/backend/backend.h"
#include "model/plan/ops/operands.h"

namespace isobar {

/// Memory of an operand, null if absent; becomes the pointer that a kernel takes.
class Address {
 public:
  explicit Address(std::byte* at) : at_(at) {}
  template <class T>
  operator T*() const {
    return reinterpret_cast<T*>(at_);
  }
  explicit operator bool() const { return at_ != nullptr; }

 private:
  std::byte* at_;
};

/// `Launch`: what every op of a back end gets: op, slot, memory() and more.
template <plan::OpKind K, class Launch>
class OpCall : public Launch {
 public:
  explicit OpCall(const Launch& l) : Launch(l), a(this->op.template as<plan::AttrsOf<K>>()) {}
  const plan::AttrsOf<K>& a;

  const plan::View& view_in(plan::InOf<K> role) const { return plan::read_at(this->op, role.place); }
  const plan::View& view_out(plan::OutOf<K> role) const { return plan::write_at(this->op, role.place); }
  Address in(plan::InOf<K> role) const { return at(view_in(role)); }
  Address out(plan::OutOf<K> role) const { return at(view_out(role)); }
  DType type_in(plan::InOf<K> role) const { return type(view_in(role)); }
  DType type_out(plan::OutOf<K> role) const { return type(view_out(role)); }
  Address at(const plan::View& v) const { return Address(v ? this->memory().at(v, this->slot) : nullptr); }
  /// `absent`: the type of an operand that there is not.
  DType type(const plan::View& v, DType absent = DType::f32) const {
    return v ? this->memory().plan().buffers[static_cast<size_t>(v.buffer)].dtype : absent;
  }
};

template <class Launch>
struct KernelRow {
  plan::OpKind kind;
  void (*run)(const Launch&);
};

namespace detail {
template <class F>
struct RowOf;
template <plan::OpKind K, class L>
struct RowOf<void (*)(const OpCall<K, L>&)> {
  using Launch = L;
  static constexpr plan::OpKind kKind = K;
};
}  // namespace detail

/// The row of a function, which takes an OpCall of its kind.
template <auto F>
inline constexpr KernelRow<typename detail::RowOf<decltype(F)>::Launch> row = {
    detail::RowOf<decltype(F)>::kKind, [](const typename detail::RowOf<decltype(F)>::Launch& l) {
      F(OpCall<detail::RowOf<decltype(F)>::kKind, typename detail::RowOf<decltype(F)>::Launch>(l));
    }};

/// A back end's function for each kind; null: it has none.
template <class Launch>
class OpFunctions {
 public:
  /// Throws std::logic_error if two rows are of one kind.
  OpFunctions(std::initializer_list<std::span<const KernelRow<Launch>>> files) {
    for (const auto& rows : files)
      for (const KernelRow<Launch>& r : rows) {
        auto& run = run_[static_cast<size_t>(r.kind)];
        if (run) throw std::logic_error(std::string("two functions run ") + name_of(r.kind));
        run = r.run;
      }
  }
  auto operator[](plan::OpKind k) const { return run_[static_cast<size_t>(k)]; }

 private:
  std::array<void (*)(const Launch&), plan::kOpKinds> run_{};
};

}  // namespace isobar
