// Runs a case on a back end: in a placed plan of this one op, with the back end's scratch.
//
//   const OpInPlan op(c, cpu_workspace(2));
//   std::vector<std::byte> arena(…); CpuBackend backend(op.plan(), arena);
//   op.run(backend);
#pragma once
#include <gtest/gtest.h>

#include <cstring>

#include "model/backend/backend.h"
#include "model/plan/builder.h"
#include "model/plan/ops/op_table.h"
#include "tests/backend/op_case.h"

namespace isobar::testing {

class OpInPlan {
 public:
  OpInPlan(const OpCase& c, const plan::Workspace& workspace) : case_(c) {
    plan::Builder b(0, 1, workspace);
    const auto hold = [&](const Operand& o) {
      if (!o) return plan::View{};
      // Guard numbers follow, which must not change.
      return b.io("operand", o.type, o.count() + kBeside).slice(0, o.count());
    };
    for (const Operand& o : c.reads) reads_.push_back(hold(o));
    for (const Operand& o : c.writes)
      writes_.push_back(o.shares >= 0 ? reads_[static_cast<size_t>(o.shares)] : hold(o));
    const int routine = b.begin("op", plan::Pass::forward);
    if (c.kind == plan::OpKind::attention || c.kind == plan::OpKind::attention_backward)
      b.emit_with_workspace(c.kind, "op", c.attrs, reads_, writes_);
    else
      b.emit(c.kind, "op", c.attrs, reads_, writes_);
    b.end();
    b.plan.train.push_back({routine, 0, 0});
    plan_ = std::move(b.plan);
    plan::place(plan_);
    plan::check_operands(plan_.ops[0]);
  }

  const plan::Plan& plan() const { return plan_; }

  /// Runs the op, and compares its results.
  void run(Backend& backend) const {
    for (size_t i = 0; i < reads_.size(); ++i) put(backend, reads_[i], case_.reads[i]);
    for (size_t i = 0; i < writes_.size(); ++i)
      if (case_.writes[i].shares < 0) put(backend, writes_[i], case_.writes[i]);
    backend.upload(whole());
    backend.launch(plan_.ops[0], 0, 0);
    backend.sync();
    backend.download(whole());
    for (size_t i = 0; i < writes_.size(); ++i)
      if (writes_[i]) judge(backend, writes_[i], case_.writes[i], i);
    for (const plan::View& v : whole()) {
      const std::byte* const beside = backend.host(v) + (v.count - kBeside) * size_of(type_of(v));
      for (int64_t j = 0; j < kBeside * size_of(type_of(v)); ++j)
        ASSERT_EQ(beside[j], kPattern)
            << "behind an operand of " << plan::name_of(case_.kind) << " " << case_.what;
    }
  }

 private:
  static constexpr int64_t kBeside = 16;
  static constexpr std::byte kPattern{0xa5};

  DType type_of(const plan::View& v) const { return plan_.buffers[static_cast<size_t>(v.buffer)].dtype; }
  std::vector<plan::View> whole() const {
    std::vector<plan::View> all;
    for (const auto* views : {&reads_, &writes_})
      for (const plan::View& v : *views)
        if (v) all.push_back({v.buffer, 0, plan_.buffers[static_cast<size_t>(v.buffer)].count});
    return all;
  }

  void put(Backend& backend, const plan::View& v, const Operand& o) const {
    if (!v) return;
    std::byte* const to = backend.host({v.buffer, 0, v.count + kBeside});
    for (int64_t i = 0; i < o.count(); ++i) write(to, o.type, i, o.before[static_cast<size_t>(i)]);
    std::fill_n(to + v.count * size_of(o.type), kBeside * size_of(o.type), kPattern);
  }

  void judge(Backend& backend, const plan::View& v, const Operand& o, size_t index) const {
    const std::byte* const from = backend.host({v.buffer, 0, v.count + kBeside});
    double off = 0, size = 0;
    for (size_t i = 0; i < o.want.size(); ++i) {
      const double got = read(from, o.type, static_cast<int64_t>(i));
      off += (got - o.want[i]) * (got - o.want[i]);
      size += o.want[i] * o.want[i];
    }
    const double distance = std::sqrt(size > 0 ? off / size : off);
    EXPECT_TRUE(distance <= o.allowed)
        << plan::name_of(case_.kind) << " " << case_.what << ", " << plan::writes_of(case_.kind)[index].name
        << ": |got - want| / |want| = " << distance << ", allowed " << o.allowed;
  }

  template <class T>
  static void write_as(std::byte* to, int64_t i, T x) {
    std::memcpy(to + i * static_cast<int64_t>(sizeof(T)), &x, sizeof(T));
  }
  static void write(std::byte* to, DType t, int64_t i, double x) {
    switch (t) {
      case DType::bf16:
        return write_as(to, i, to_bf16(static_cast<float>(x)));
      case DType::f16:
        return write_as(to, i, to_f16(static_cast<float>(x)));
      case DType::i32:
        return write_as(to, i, static_cast<int32_t>(x));
      default:
        return write_as(to, i, static_cast<float>(x));
    }
  }
  template <class T>
  static T read_as(const std::byte* from, int64_t i) {
    T x;
    std::memcpy(&x, from + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return x;
  }
  static double read(const std::byte* from, DType t, int64_t i) {
    switch (t) {
      case DType::bf16:
        return to_float(read_as<bf16>(from, i));
      case DType::f16:
        return to_float(read_as<f16>(from, i));
      case DType::i32:
        return read_as<int32_t>(from, i);
      default:
        return read_as<float>(from, i);
    }
  }

  const OpCase& case_;
  std::vector<plan::View> reads_, writes_;
  plan::Plan plan_;
};

/// The kinds that a back end claims in the op table, except transfers (tests/comm) and fetch.
inline std::vector<plan::OpKind> kinds_of(plan::Backends backend) {
  std::vector<plan::OpKind> all;
  for (int k = 0; k < plan::kOpKinds; ++k) {
    const plan::OpInfo& row = plan::info_of(static_cast<plan::OpKind>(k));
    if ((row.backends & backend) && row.price != plan::PriceClass::transfer &&
        row.kind != plan::OpKind::fetch)
      all.push_back(row.kind);
  }
  return all;
}

}  // namespace isobar::testing
