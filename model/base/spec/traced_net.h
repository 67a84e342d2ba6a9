// A net that PyTorch recorded (bench/import/torch_graph.py): parts of ATen ops, forward and backward, in
// JSON. It is read once for each file.
//
//   const TracedNet& net = traced_net("vit.json");       // throws ConfigError
//   net.graph(Amp::bf16).parts[3].path                   // "blocks.2"
//   value.bytes.at(8)                                    // of a micro-batch of 8 samples
//
// Equal parts share a definition, which numbers its values by itself. Links say which result of a part is
// which operand of a later one; the gradient goes the same way back.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/base/dtype.h"
#include "model/base/spec/settings.h"

namespace isobar {

struct TracedSize {  // fixed + each * samples
  int64_t fixed = 0, each = 0;
  int64_t at(int64_t samples) const { return fixed + each * samples; }
  bool operator==(const TracedSize&) const = default;
};

struct TracedType {
  DType stored = DType::f32;  // of the buffer that stands for it
  int64_t bytes = 4;          // of an element: 8 of int64, 1 of bool
};

struct TracedValue {  // a storage
  TracedSize bytes;
  TracedType type;
  int64_t count(int64_t samples) const {  // elements of its buffer
    const int64_t size = size_of(type.stored);
    return (bytes.at(samples) + size - 1) / size;
  }
};

struct TracedOperand {  // a tensor: a view of a storage
  int32_t value = 0;
  std::vector<TracedSize> shape;
  TracedType type;
  int64_t elements(int64_t samples) const {
    int64_t n = 1;
    for (const TracedSize& s : shape) n *= s.at(samples);
    return n;
  }
};

struct TracedOp {
  std::string op;            // ATen's name: addmm
  std::string module, line;  // for people
  std::vector<TracedOperand> in, out;
  TracedSize flops;  // by torch.utils.flop_counter
  bool pointwise = false, causal = false, transposed = false;
  bool outside = false;  // of its part's module, so that a checkpoint of that does not run it again
  bool partial = false;  // ranks of tensor parallelism sum its result
  int64_t groups = 1;
  std::array<bool, 3> wanted = {true, true, true};  // convolution_backward: gradients of x, weight and bias
};

struct TracedDefinition {
  struct Parameter {
    int32_t value = 0;
    std::vector<int64_t> shape;
    int32_t gradient = -1;  // value that becomes its gradient; -1: another part computes it
  };
  std::vector<TracedValue> values;
  int32_t takes = 0;           // the first values: results of earlier parts
  std::vector<int32_t> gives;  // values
  // By give and by take: values that are their gradients; -1: none
  std::vector<int32_t> gradients_in, gradients_out;
  std::vector<int32_t> carried_in, carried_out;  // other values that cross parts in the backward pass
  std::vector<int32_t> saved;                    // kept by autograd
  std::vector<Parameter> parameters;
  std::vector<int32_t> states, batch;  // buffers of modules; inputs and targets
  std::vector<TracedOp> forward, backward;

  // A result by its place: what the part gives, then what it takes and hands on as it is.
  size_t results() const { return gives.size() + static_cast<size_t>(takes); }
  int32_t result(int32_t place) const {
    const auto n = static_cast<int32_t>(gives.size());
    return place < n ? gives[static_cast<size_t>(place)] : place - n;
  }
  int32_t gradient_of_result(int32_t place) const {  // -1: none
    return place < static_cast<int32_t>(gives.size()) ? gradients_in[static_cast<size_t>(place)] : -1;
  }
};

struct TracedPart {
  std::string kind, path;
  int32_t definition = 0;
  std::vector<std::string> parameters, states, batch;  // names, as the definition orders them
};

struct TracedLink {
  int32_t from = 0, out = 0, to = 0, in = 0;  // parts, and places among gives and takes (or carried values)
  bool differentiable = true;
};

struct TracedGraph {
  std::vector<TracedDefinition> definitions;
  std::vector<TracedPart> parts;
  std::vector<TracedLink> links, carried;
  TracedSize forward_flops, backward_flops;  // by torch.utils.flop_counter
  TracedSize saved_bytes;                    // kept by autograd, but for parameters and inputs
  const TracedDefinition& of(int32_t part) const {
    return definitions[static_cast<size_t>(parts[static_cast<size_t>(part)].definition)];
  }
};

struct TracedNet {
  struct Parameter {
    std::string name;
    std::vector<int64_t> shape;
    bool trained = true;
    int64_t count() const {
      int64_t n = 1;
      for (const int64_t s : shape) n *= s;
      return n;
    }
  };
  std::string torch, loss;  // version; the loss in words
  std::vector<Parameter> parameters;
  TracedGraph fp32, bf16;  // bf16: under autocast
  const TracedGraph& graph(Amp amp) const { return amp == Amp::none || amp == Amp::tf32 ? fp32 : bf16; }
  int64_t parameter_count() const;
  int64_t sample_numbers() const;  // of inputs and targets
  /// The first part with equal definitions in both precisions, by part
  std::vector<int32_t> same_as() const;
  /// Parameters that several parts read, with these.
  std::map<std::string, std::vector<int32_t>> shared_parameters() const;
  /// "" if pipelines can cut between its parts: weights and gradients go from part to part, or between both
  /// ends.
  std::string why_whole() const;
};

std::shared_ptr<const TracedNet> traced_net(const std::string& file);
/// True for a file that begins as such a net does: it stands for a run of that net.
bool is_traced_net(const std::string& file);

}  // namespace isobar
