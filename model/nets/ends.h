// What a net's blocks stand between: its first end makes the residual stream, its last end the loss, and both
// go the same way back. A rank emits those that its stages hold.
#pragma once
#include <functional>
#include <string>

#include "model/nets/block.h"
#include "model/nets/stages.h"
#include "model/plan/parameters.h"

namespace isobar {

/// A tensor that both ends of a pipeline hold is declared by each.
enum class Held : uint8_t { once, first_of_two, second_of_two };

class Ends {
 public:
  /// `matrix`: matrix products read it (else f32 ops).
  using Declare = std::function<void(View&, bool matrix, Param, Held)>;
  struct Stream {
    View residual, y;    // its sum enters the first block; y may be absent
    int64_t period = 0;  // rows after which the residual repeats (0: never)
  };
  virtual ~Ends() = default;

  virtual void declare_first(const Declare& declare) = 0;
  virtual void declare_last(const Declare& declare, bool with_first) = 0;
  virtual int64_t metrics() const = 0;  // elements: the loss and what else is reported

  virtual void emit_fetch(const Stage& stage) = 0;
  virtual Stream emit_first(const Block& next) = 0;  // before this block
  virtual void emit_last(const View& h) = 0;         // h [rows, D]: of the final norm

  virtual View emit_backward_last(const View& h) = 0;  // returns the gradient of h
  /// dx: gradient of the stream; dy: of y, if it was there.
  virtual void emit_backward_first(const View& dx, const View& dy, bool accumulate) = 0;
  virtual void emit_tied_reduction(const Parameters&) {}  // after the last micro-batch

  /// y is the result of a linear: the first block's norm brings its bias's gradient too.
  virtual bool first_is_linear() const = 0;
  virtual View first_bias() const { return {}; }
  virtual View first_parameter() const = 0;   // whose gradient emit_backward_first writes last
  virtual bool last_reads_first() const = 0;  // a tied head, on one rank with its table
};

}  // namespace isobar
