#include "model/nets/traced/aten.h"

#include <algorithm>
#include <cmath>

namespace isobar::nets {
namespace {

int64_t dim(const TracedOperand& o, size_t from_end, int64_t samples) {
  return from_end <= o.shape.size() ? o.shape[o.shape.size() - from_end].at(samples) : 1;
}

/// Emits one recorded op.
class AtenEmitter {
 public:
  AtenEmitter(plan::Builder& b, const AtenCall& call, const std::vector<plan::View>& in,
              const std::vector<plan::View>& out)
      : b_(b), c_(call), op_(call.op), in_(in), out_(out) {}

  void emit() {
    switch (aten_class(op_)) {
      case AtenClass::product:
        return product();
      case AtenClass::attention:
        return attention();
      case AtenClass::convolution:
        return op_.op == "convolution" ? convolution() : convolution_backward();
      case AtenClass::row:
        return row();
      case AtenClass::nothing:
      case AtenClass::unknown:
        return;
    }
  }

 private:
  int64_t size(const TracedOperand& o, size_t i) const { return o.shape.at(i).at(c_.samples); }
  double bytes(const TracedOperand& o, const plan::View& v) const {
    const double all = static_cast<double>(v.count * size_of(stored(v)));
    return std::min(all, static_cast<double>(o.elements(c_.samples) * o.type.bytes));
  }
  DType stored(const plan::View& v) const {
    return v.buffer >= 0 ? b_.plan.buffers[static_cast<size_t>(v.buffer)].dtype : DType::f32;
  }
  plan::View first(const plan::View& v, int64_t elements) const {
    return v ? v.slice(0, std::min(elements, v.count)) : v;
  }
  plan::View operand(const std::vector<plan::View>& views, const std::vector<TracedOperand>& of,
                     size_t i) const {
    return i < views.size() ? first(views[i], of[i].elements(c_.samples)) : plan::View{};
  }
  plan::View read(size_t i) const { return operand(in_, op_.in, i); }
  plan::View write(size_t i) const { return operand(out_, op_.out, i); }

  void gemm(const std::string& what, int64_t m, int64_t n, int64_t k, int64_t batch,
            std::vector<plan::View> reads, const plan::View& to) {
    const bool f32 = stored(to) == DType::f32;
    b_.emit<plan::OpKind::gemm>(c_.path + what,
                                {.m = m, .n = n, .k = k, .tf32 = c_.tf32 && f32, .batch = batch},
                                std::move(reads), {to});
  }

  // The two factors are its last operands, but for offsets of groups.
  void product() {
    const bool grouped = op_.op == "_grouped_mm";
    const bool added = op_.op == "addmm" || op_.op == "baddbmm" || op_.op == "addmv";
    const size_t a = added ? 1 : 0, b = a + 1;
    if (op_.in.size() <= b || op_.out.empty()) return;
    const TracedOperand &x = op_.in[a], &y = op_.in[b];
    const bool vector = y.shape.size() < 2;
    const int64_t k = dim(x, 1, c_.samples), n = vector ? 1 : dim(y, 1, c_.samples);
    const int64_t m = x.shape.size() < 2 ? 1 : dim(x, 2, c_.samples);
    const bool batched = op_.op == "bmm" || op_.op == "baddbmm";
    const bool by_rows = grouped && x.shape.size() == 2 && y.shape.size() == 2;  // one matrix for each group
    gemm("", by_rows ? dim(x, 2, c_.samples) : m, n, k, batched ? dim(x, 3, c_.samples) : 0,
         {read(a), read(b), added ? read(0) : plan::View{}}, write(0));
  }

  void attention() {
    const bool back = op_.op.find("backward") != std::string::npos;
    const size_t at = back ? 1 : 0;  // grad_out comes first
    if (op_.in.size() < at + 3) return;
    const TracedOperand &q = op_.in[at], &k = op_.in[at + 1];
    plan::AttentionAttrs a{
        .batch = dim(q, 4, c_.samples),
        .heads = dim(q, 3, c_.samples),
        .kv_heads = dim(k, 3, c_.samples),
        .tq = dim(q, 2, c_.samples),
        .tk = dim(k, 2, c_.samples),
        .d = dim(q, 1, c_.samples),
        .causal = op_.causal,
        .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim(q, 1, c_.samples))))};
    a.ld_q = a.ld_o = a.heads * a.d, a.ld_kv = a.kv_heads * a.d;
    a.tf32 = c_.tf32 && q.type.stored == DType::f32;
    const plan::View mask = op_.in.size() > at + (back ? 5 : 3) ? read(op_.in.size() - 1) : plan::View{};
    if (back)
      b_.emit_with_workspace<plan::OpKind::attention_backward>(
          c_.path, a, {read(1), read(2), read(3), read(4), read(5), read(0), mask_of(mask, 6)},
          {write(0), write(1), write(2), plan::View{}});
    else
      b_.emit_with_workspace<plan::OpKind::attention>(c_.path, a, {read(0), read(1), read(2), mask},
                                                      {write(0), write(1)});
  }
  plan::View mask_of(const plan::View& last, size_t least) const {
    return op_.in.size() > least ? last : plan::View{};
  }

  struct Convolution {  // as one product for each group
    int64_t pixels, out, in, kernel;
  };
  Convolution shape_of(const TracedOperand& x, const TracedOperand& w, const TracedOperand& y) const {
    int64_t kernel = 1, pixels = size(op_.transposed ? x : y, 0);
    for (size_t i = 2; i < w.shape.size(); ++i) kernel *= size(w, i);
    const TracedOperand& grid = op_.transposed ? x : y;
    for (size_t i = 2; i < grid.shape.size(); ++i) pixels *= size(grid, i);
    return {pixels, size(w, 0) / op_.groups, size(w, 1), kernel};
  }

  // Groups of a few channels are no matrix products: they are priced by their bytes and arithmetic. The
  // gradient of a large kernel loads both operands anew for each of its taps.
  void convolve(const std::string& what, int64_t m, int64_t n, int64_t k, const Convolution& c,
                std::vector<plan::View> reads, const plan::View& to, double moved) {
    constexpr int64_t kMatrix = 16, kSmallKernel = 9;
    constexpr double kReload = 12;  // time of a tap's product beside one of the forward pass, on a Zen 4
    if (op_.groups == 1 || (c.in >= kMatrix && c.out >= kMatrix))
      return gemm(what, m, n, k, op_.groups > 1 ? op_.groups : 0, std::move(reads), to);
    const double flops = 2.0 * static_cast<double>(op_.groups) * static_cast<double>(m) *
                         static_cast<double>(n) * static_cast<double>(k);
    std::erase_if(reads, [](const plan::View& v) { return !v; });
    b_.emit<plan::OpKind::priced>(
        c_.path + what,
        {.op = op_.op,
         .price = plan::PriceClass::norm,
         .flops = flops,
         .vector_flops = what == "/weight" && c.kernel > kSmallKernel ? kReload * flops : flops,
         .bytes_read = moved,
         .bytes_written = view_bytes(to)},
        std::move(reads), {to});
  }
  double view_bytes(const plan::View& v) const {
    return v ? static_cast<double>(v.count * size_of(stored(v))) : 0;
  }

  void convolution() {
    if (op_.in.size() < 2 || op_.out.empty()) return;
    const Convolution c = shape_of(op_.in[0], op_.in[1], op_.out[0]);
    const plan::View x = read(0), w = read(1), y = write(0),
                     bias = op_.in.size() > 2 ? read(2) : plan::View{};
    const double moved = bytes(op_.in[0], in_[0]) + bytes(op_.in[1], in_[1]);
    if (op_.transposed)  // each pixel read writes a kernel
      convolve("", c.pixels, c.in * c.kernel, c.out, c, {x, w, bias}, y, moved);
    else
      convolve("", c.pixels, c.out, c.in * c.kernel, c, {x, w, bias}, y, moved);
  }

  void convolution_backward() {
    if (op_.in.size() < 3) return;
    const TracedOperand &dy = op_.in[0], &x = op_.in[1], &w = op_.in[2];
    const Convolution c = shape_of(x, w, dy);
    size_t next = 0;
    const auto result = [&](size_t i) { return op_.wanted[i] ? write(next++) : plan::View{}; };
    const plan::View dx = result(0), dw = result(1), db = result(2);
    const double gradient = bytes(dy, in_[0]);
    const int64_t taps = c.in * c.kernel;
    if (dx)
      convolve("/input", c.pixels, op_.transposed ? c.out : taps, op_.transposed ? taps : c.out, c,
               {read(0), read(2), plan::View{}}, dx, gradient + bytes(w, in_[2]));
    if (dw)
      convolve("/weight", c.out, taps, c.pixels, c, {read(0), read(1), plan::View{}}, dw,
               gradient + bytes(x, in_[1]));
    if (db)
      b_.emit<plan::OpKind::priced>(c_.path + "/bias",
                                    {.op = "sum",
                                     .price = plan::PriceClass::reduction,
                                     .vector_flops = static_cast<double>(dy.elements(c_.samples)),
                                     .bytes_read = gradient,
                                     .bytes_written = view_bytes(db)},
                                    {read(0)}, {db});
  }

  void row() {
    const AtenRow r = aten_row(op_);
    plan::PricedAttrs a{.op = op_.op, .price = r.price};
    int64_t largest = 0;
    for (size_t i = 0; i < op_.out.size(); ++i) {
      a.bytes_written += out_[i] ? bytes(op_.out[i], out_[i]) : 0;
      largest = std::max(largest, op_.out[i].elements(c_.samples));
    }
    std::vector<plan::View> reads;
    for (size_t i = 0; i < op_.in.size(); ++i) {
      double read = bytes(op_.in[i], in_[i]);
      if (i == 0 && r.overwrites) continue;
      if (i == 0 && r.picks) read = std::min(read, a.bytes_written);
      if (!r.picks) largest = std::max(largest, op_.in[i].elements(c_.samples));
      a.bytes_read += read;
      reads.push_back(in_[i]);
    }
    a.vector_flops = r.vector_flops * static_cast<double>(largest);
    if (reads.empty())
      for (const plan::View& v : out_) b_.emit<plan::OpKind::zero>(c_.path, {.count = v.count}, {}, {v});
    else
      b_.emit<plan::OpKind::priced>(c_.path, std::move(a), std::move(reads), out_);
  }

  plan::Builder& b_;
  const AtenCall& c_;
  const TracedOp& op_;
  const std::vector<plan::View>&in_, &out_;
};

}  // namespace

void emit_aten(plan::Builder& b, const AtenCall& call, const std::vector<plan::View>& in,
               const std::vector<plan::View>& out) {
  AtenEmitter(b, call, in, out).emit();
}

double aten_bytes(const TracedOperand& o, const TracedDefinition& of, int64_t samples) {
  return static_cast<double>(std::min(of.values[static_cast<size_t>(o.value)].bytes.at(samples),
                                      o.elements(samples) * o.type.bytes));
}

}  // namespace isobar::nets
