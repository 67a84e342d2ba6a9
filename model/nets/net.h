// What a net is to those who plan a step: parts that emit themselves, and the streams between them.
//
// A part is written as forward and backward side by side over the builder. It knows its own streams only;
// stages, receives and sends, gathers of parameters, recomputation and buckets are the step's (step.h).
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/nets/layers.h"
#include "model/plan/parameters.h"

namespace isobar {

class Declare;

enum class Keep : uint8_t { all, input, nothing };  // from a part's forward until its backward

/// How a part is to emit its forward.
struct Forward {
  Keep keep = Keep::all;
  bool again = false;  // a recomputation: what others keep is there already
  bool result = true;  // false: nobody reads what it gives (backward of the last of a recomputed group)
  /// Where the i-th stream that it gives lies best; a part need not heed it.
  std::function<View(size_t)> lies;
  const char* pass() const { return again ? "/recompute" : "/forward"; }
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
  /// Whether it computes in f32 whatever policy.amp says: then it takes and gives streams of f32.
  virtual bool in_f32() const { return false; }
  /// What it takes -> what it gives, both in the order of Plan::streams.
  virtual std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) = 0;
  /// `out`: gradients of what it gives. `in[i].dx`: where that of the i-th stream it takes is to lie, which
  /// may be there already (in_place); it fills in[i].dy if that stream came with a y.
  virtual void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) = 0;

  /// Where the i-th stream that it takes lies when it comes from another stage.
  virtual View door(size_t) { return {}; }
  /// What it takes, as Keep::input has kept it.
  virtual std::vector<Flow> kept_inputs() const { return {}; }
  /// The gradient of the i-th stream that it takes is that of this one of those it gives, added to (-1: of
  /// none).
  virtual int in_place(size_t) const { return -1; }
  /// The parameter whose gradient backward writes last; `weight`: of its products that a split backward put
  /// off. Absent: it has none.
  virtual View last_gradient(bool weight) const = 0;
  /// Parts whose parameters its backward reads.
  virtual std::vector<int> backward_reads() const { return {index()}; }

 private:
  const int index_;
  const std::string path_;
};

/// How a net reads its own prediction again.
class RollOut {
 public:
  virtual ~RollOut() = default;
  /// From the last part of a step to the first of the next: {}: it is not read again.
  virtual std::vector<Stream> feedback() const = 0;
  virtual View predicted() const = 0;  // where the last part has put it, saved
  /// What the first part reads of the step before; absent: it is the first.
  virtual void before(const View& v) = 0;
  /// Where the gradient of that is to lie, and where the last part of the step before finds it.
  virtual void gradient(const View& v) = 0;
};

class Net {
 public:
  virtual ~Net() = default;
  const std::vector<std::unique_ptr<NetPart>>& parts() const { return parts_; }
  const std::vector<Stream>& streams() const { return streams_; }
  /// In the order of the fetch op's operands.
  const std::vector<BatchTensor>& batch() const { return batch_; }
  const std::vector<Metric>& metrics() const { return metrics_; }
  /// The fetch op's sizes, and where it put what: by index into batch().
  virtual Attrs fetch() const = 0;
  virtual void fetched(size_t tensor, const View& at) = 0;
  /// nullptr: what it predicts is no input of its own.
  virtual RollOut* roll_out() { return nullptr; }
  /// Before the norm of all gradients is taken: what else has to be added up.
  virtual void before_optimizer(const Parameters&) {}

 protected:
  std::vector<std::unique_ptr<NetPart>> parts_;
  std::vector<Stream> streams_;
  std::vector<BatchTensor> batch_;
  std::vector<Metric> metrics_;
};

/// Of spec.net.kind. `at`: of its finest grid of tokens.
std::unique_ptr<Net> make_net(Emission& e, const Sharding& at);

}  // namespace isobar
