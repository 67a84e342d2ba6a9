// A net as the planner of a step sees it: parts that emit themselves, and the streams between them.
//
// A part is written as forward and backward side by side over the builder. It knows only its own streams;
// stages, sends and receives, gathers of parameters, recomputation and buckets are the step's (step.h).
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/nets/layers.h"
#include "model/plan/parameters.h"

namespace isobar::nets {

class Declare;

enum class Keep : uint8_t { all, input, nothing };  // what a part saves from forward until its backward

/// How a part emits its forward.
struct Forward {
  Keep keep = Keep::all;
  bool recompute = false;  // a recomputation: kept tensors exist already
  bool result = true;      // false: the result is unused (the last part of a recomputed group)
  /// The preferred buffer of its i-th result; a part may ignore it.
  std::function<plan::View(size_t)> output_place;
  const char* pass() const { return recompute ? "/recompute" : "/forward"; }
};

class NetPart {
 public:
  NetPart(int index, std::string path) : index_(index), path_(std::move(path)) {}
  virtual ~NetPart() = default;
  NetPart(const NetPart&) = delete;
  NetPart& operator=(const NetPart&) = delete;

  int index() const { return index_; }  // into Plan::parts
  const std::string& path() const { return path_; }

  virtual void declare(Declare& d) = 0;
  /// True if it computes in f32 whatever policy.amp is: its streams are then f32.
  virtual bool in_f32() const { return false; }
  /// Inputs -> results, both in the order of Plan::streams.
  virtual std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) = 0;
  /// `out`: gradients of its results. `in[i].dx`: buffer of the i-th input's gradient, which may already have
  /// a value (shares_gradient_with); the part fills in[i].dy if that input came with a y.
  virtual void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) = 0;

  /// The buffer into which the i-th input is received from another stage.
  virtual plan::View receive_buffer(size_t) { return {}; }
  /// Its inputs, as Keep::input has saved them.
  virtual std::vector<Flow> kept_inputs() const { return {}; }
  /// The result whose gradient becomes the i-th input's by adding in place (-1: none).
  virtual int shares_gradient_with(size_t) const { return -1; }
  /// The parameter whose gradient backward writes last; `weight`: counting the products that a split backward
  /// postpones. Absent: none.
  virtual plan::View last_gradient(bool weight) const = 0;
  /// Parts whose parameters its backward reads.
  virtual std::vector<int> backward_reads() const { return {index()}; }

 private:
  const int index_;
  const std::string path_;
};

/// How a net reads its own prediction in the next step.
class RollOut {
 public:
  virtual ~RollOut() = default;
  /// The stream from a step's last part to the next step's first; {}: none.
  virtual std::vector<plan::Stream> feedback() const = 0;
  virtual plan::View predicted() const = 0;  // saved by the last part
  /// Sets what the first part reads of the previous step; absent in the first step.
  virtual void before(const plan::View& v) = 0;
  /// Sets the buffer of that gradient, which the previous step's last part reads.
  virtual void gradient(const plan::View& v) = 0;
};

class Net {
 public:
  virtual ~Net() = default;
  const std::vector<std::unique_ptr<NetPart>>& parts() const { return parts_; }
  const std::vector<plan::Stream>& streams() const { return streams_; }
  /// In the order of the fetch op's operands.
  const std::vector<plan::BatchTensor>& batch() const { return batch_; }
  const std::vector<plan::Metric>& metrics() const { return metrics_; }
  /// The fetch op's sizes; fetched() sets where it puts a tensor, by index into batch().
  virtual plan::ImageAttrs fetch() const = 0;
  virtual void fetched(size_t tensor, const plan::View& at) = 0;
  /// nullptr: the net does not read its prediction.
  virtual RollOut* roll_out() { return nullptr; }
  /// The group of ranks whose metrics are of other rows of the same samples, and are summed first; -1: none.
  virtual int metrics_group() const { return -1; }
  /// Emits further sums of gradients before the norm of all gradients.
  virtual void before_optimizer(const plan::Parameters&) {}
  /// Numbers that ops add behind the metrics, which are summed with them; and what follows from the sums.
  virtual int64_t tallies() const { return 0; }
  virtual void after_metrics() {}

 protected:
  int here() const { return static_cast<int>(parts_.size()); }  // index of the next part
  template <class Part>
  Part* add_part(std::unique_ptr<Part> part) {
    Part* const p = part.get();
    parts_.push_back(std::move(part));
    return p;
  }
  std::vector<std::unique_ptr<NetPart>> parts_;
  std::vector<plan::Stream> streams_;
  std::vector<plan::BatchTensor> batch_;
  std::vector<plan::Metric> metrics_;
};

/// Makes the net of spec.net.kind. `at`: of its finest grid of tokens.
std::unique_ptr<Net> make_net(Emission& e, const Sharding& at);

}  // namespace isobar::nets
