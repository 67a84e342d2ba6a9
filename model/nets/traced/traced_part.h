// One part of a recorded net.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "model/nets/declare.h"
#include "model/nets/net.h"
#include "model/nets/traced/kernels.h"

namespace isobar::nets {

/// Shared by the parts of one net.
struct TracedShared {
  Emission& e;
  const Sharding& at;
  std::shared_ptr<const TracedNet> net;
  const TracedGraph& graph;
  const std::map<std::string, int>& axes;  // of parameters that tensor parallelism cuts
  bool compiled;
  std::map<std::string, int> homes = {};              // of parameters: the part that declares them
  std::map<std::string, plan::View> parameters = {};  // declared by the first part that reads them
  std::map<std::pair<int32_t, int32_t>, plan::View> carried = {};  // by part and place among its carried_in
  std::map<std::string, const TracedNet::Parameter*> shapes = {};
  std::set<std::string> twice = {};  // parameters that both ends of a pipeline hold
};

class TracedNetPart : public NetPart {
 public:
  /// `own`: names of the parameters that it declares.
  TracedNetPart(int index, const TracedPart& part, TracedShared& shared, std::vector<std::string> own);

  /// Places among gives, by result; the parts and places that its carried values go to.
  void set_results(std::vector<int32_t> gives) { gives_ = std::move(gives); }
  void set_carried(std::vector<std::pair<int32_t, int32_t>> to) { carried_to_ = std::move(to); }
  /// A carried value that is the gradient of this part's own copy of a parameter.
  void set_tied(int32_t value, const std::string& parameter);
  void set_batch(size_t i, const plan::View& v) { batch_.at(i) = v; }

  void declare(Declare& d) override;
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override;
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override;
  plan::View receive_buffer(size_t i) override;
  std::vector<Flow> kept_inputs() const override { return kept_; }
  int shares_gradient_with(size_t i) const override;
  plan::View last_gradient(bool weight) const override;
  std::vector<int> backward_reads() const override;

 private:
  plan::View sized(int32_t value, bool kept, const std::string& name);
  plan::View result_of(int32_t value, const std::string& name);
  int32_t equal_to(int32_t value) const;
  plan::View own_parameter(int32_t value) const;
  void run(const std::vector<TracedOp>& ops, const std::vector<TracedKernel>& kernels, const char* pass);
  void run_fused(const std::vector<TracedOp>& ops, const TracedKernel& kernel, const std::string& path);
  std::string path_of(const TracedOp& op, const char* pass);
  void settle(const std::string& path, const TracedOp& op);
  void bind();
  int32_t last_needed() const;
  bool outside(const TracedKernel& kernel) const;

  const TracedPart& part_;
  TracedShared& s_;
  const TracedDefinition& d_;
  const std::vector<std::string> own_;
  std::vector<int32_t> gives_;
  std::vector<std::pair<int32_t, int32_t>> carried_to_;
  std::vector<plan::View> batch_, states_;
  TracedKernels forward_, backward_;
  std::vector<bool> needed_;  // by value: the backward pass reads it, or autograd keeps it
  std::vector<bool> handed_;  // by value: ops outside the module made it for a checkpoint of it to keep
  std::map<int32_t, size_t> parameter_;  // of values: place among parameters
  std::map<int32_t, size_t> gradient_;   // of values: place of the parameter whose gradient they become
  // State of the open pass
  std::vector<plan::View> views_;
  std::map<int32_t, plan::View> places_;  // of values that go to a given buffer
  std::map<int32_t, plan::View> sums_;    // of gradients that are added to those before
  std::map<std::string, int> paths_;
  std::vector<Flow> kept_;
  std::map<int32_t, plan::View> kept_outside_;
  bool keep_ = true, checkpoints_ = false;
};

}  // namespace isobar::nets
