#include "model/base/spec/traced_net.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "model/base/error.h"
#include "model/base/text/json.h"

namespace isobar {
namespace {

using Json = nlohmann::json;

constexpr const char *kTracedFormat = "isobar traced net", *kTracedMend = "write it again with isobar import";
constexpr int64_t kTracedVersion = 1, kMostTracedBytes = int64_t{1} << 46;

/// Reads one file; whatever is wrong with it is one error.
class TracedReader {
 public:
  explicit TracedReader(const std::string& file) : file_(file) {}

  TracedNet read() {
    const Json j = read_json(file_);
    require(j.is_object() && text_in(j, "format") == kTracedFormat, "", "is no net that isobar import wrote");
    require(j.value("version", Json()) == Json(kTracedVersion), "version",
            "is " + json_text(j.value("version", Json())) + ", and this program reads version 1");
    try {
      return net_of(j);
    } catch (const Json::exception& e) {
      throw ConfigError(file_, "", std::string("is not whole: ") + e.what(), kTracedMend);
    }
  }

 private:
  void require(bool ok, const char* key, const std::string& what) const {
    if (!ok) throw ConfigError(file_, key, what, kTracedMend);
  }
  static bool sized(int64_t n) { return n >= 0 && n <= kMostTracedBytes; }

  TracedSize size_of_json(const Json& j) const {
    TracedSize s;
    if (j.is_array())
      s = {j.at(0).get<int64_t>(), j.at(1).get<int64_t>()};
    else
      s.fixed = j.get<int64_t>();
    require(s.each >= 0 && sized(s.each) && sized(s.at(1)), "nets", "holds a size that is out of range");
    return s;
  }

  TracedType type_of(const std::string& name) const {
    static const std::map<std::string, TracedType> kTypes = {
        {"float32", {DType::f32, 4}}, {"bfloat16", {DType::bf16, 2}}, {"float16", {DType::f16, 2}},
        {"float64", {DType::f32, 8}}, {"complex64", {DType::f32, 8}}, {"int64", {DType::i32, 8}},
        {"int32", {DType::i32, 4}},   {"int16", {DType::i32, 2}},     {"int8", {DType::i32, 1}},
        {"uint8", {DType::i32, 1}},   {"bool", {DType::i32, 1}}};
    const auto found = kTypes.find(name);
    require(found != kTypes.end(), "nets", "has values of type " + name + ", which has no price");
    return found->second;
  }

  std::vector<int32_t> indices(const Json& j, size_t most, bool or_none = false) const {
    auto out = j.get<std::vector<int32_t>>();
    for (const int32_t i : out) check_index(i, most, or_none);
    return out;
  }
  void check_index(int32_t i, size_t most, bool or_none = false) const {
    require((or_none && i == -1) || (i >= 0 && static_cast<size_t>(i) < most), "nets",
            "names a value or part that it does not have");
  }

  std::vector<TracedOperand> operands(const Json& j, size_t values) const {
    std::vector<TracedOperand> out;
    for (const Json& o : j) {
      TracedOperand operand{.value = o.at(0).get<int32_t>(), .shape = {}, .type = type_of(o.at(2))};
      check_index(operand.value, values);
      double elements = 1;
      for (const Json& dim : o.at(1)) {
        operand.shape.push_back(size_of_json(dim));
        elements *= static_cast<double>(std::max<int64_t>(1, operand.shape.back().at(1)));
      }
      require(elements <= static_cast<double>(kMostTracedBytes), "nets",
              "holds a shape that is out of range");
      out.push_back(std::move(operand));
    }
    return out;
  }

  std::vector<TracedOp> ops(const Json& j, size_t values) const {
    std::vector<TracedOp> out;
    for (const Json& o : j) {
      TracedOp op{.op = o.at("op"),
                  .module = o.at("module"),
                  .line = o.at("line"),
                  .in = operands(o.at("in"), values),
                  .out = operands(o.at("out"), values)};
      if (o.contains("flops")) op.flops = size_of_json(o["flops"]);
      op.pointwise = o.value("pointwise", false);
      op.outside = o.value("outside", false);
      const Json args = object_in(o, "args");
      op.causal = args.value("is_causal", false);
      op.transposed = args.value("transposed", false);
      op.groups = args.value("groups", int64_t{1});
      require(op.groups >= 1 && op.groups <= (1 << 20), "nets", "holds a convolution of impossible groups");
      if (args.contains("output_mask")) op.wanted = args["output_mask"].get<std::array<bool, 3>>();
      out.push_back(std::move(op));
    }
    return out;
  }

  TracedDefinition definition(const Json& j) const {
    TracedDefinition d;
    for (const Json& v : j.at("values")) d.values.push_back({size_of_json(v.at(0)), type_of(v.at(1))});
    const size_t n = d.values.size();
    d.takes = j.at("takes").get<int32_t>();
    require(d.takes >= 0 && static_cast<size_t>(d.takes) <= n, "nets", "takes more values than it has");
    d.gives = indices(j.at("gives"), n);
    d.gradients_in = indices(j.at("gradients_in"), n, true);
    d.gradients_out = indices(j.at("gradients_out"), n, true);
    require(d.gradients_in.size() == d.gives.size() && d.gradients_out.size() == static_cast<size_t>(d.takes),
            "nets", "has gradients that do not match its operands");
    d.carried_in = indices(j.at("carried_in"), n);
    d.carried_out = indices(j.at("carried_out"), n);
    d.saved = indices(j.at("saved"), n);
    for (const Json& p : j.at("parameters")) {
      d.parameters.push_back({p.at(0), p.at(1), p.at(2)});
      check_index(d.parameters.back().value, n);
      check_index(d.parameters.back().gradient, n, true);
    }
    d.states = indices(j.at("states"), n);
    d.batch = indices(j.at("batch"), n);
    d.forward = ops(j.at("forward"), n);
    d.backward = ops(j.at("backward"), n);
    return d;
  }

  TracedGraph graph(const Json& j) const {
    TracedGraph g;
    for (const Json& d : j.at("definitions")) g.definitions.push_back(definition(d));
    for (const Json& p : j.at("parts")) {
      g.parts.push_back({p.at("kind"), p.at("path"), p.at("definition"), p.at("parameters"), p.at("states"),
                         p.at("batch")});
      const TracedPart& part = g.parts.back();
      check_index(part.definition, g.definitions.size());
      const TracedDefinition& d = g.definitions[static_cast<size_t>(part.definition)];
      require(part.parameters.size() == d.parameters.size() && part.states.size() == d.states.size() &&
                  part.batch.size() == d.batch.size(),
              "nets", "has a part whose names do not match its definition");
    }
    require(g.parts.size() >= 2, "nets", "has fewer than two parts");
    const auto of = [&](const TracedLink& l, bool end) -> const TracedDefinition& {
      const int32_t part = end ? l.to : l.from;
      check_index(part, g.parts.size());
      return g.of(part);
    };
    for (const Json& l : j.at("links")) {
      g.links.push_back({l.at(0), l.at(1), l.at(2), l.at(3), l.at(4)});
      check_index(g.links.back().out, of(g.links.back(), false).results());
      check_index(g.links.back().in, static_cast<size_t>(of(g.links.back(), true).takes));
      require(g.links.back().from < g.links.back().to, "nets", "has a link that goes back");
    }
    for (const Json& l : j.at("carried")) {
      g.carried.push_back({l.at(0), l.at(1), l.at(2), l.at(3)});
      check_index(g.carried.back().out, of(g.carried.back(), false).carried_out.size());
      check_index(g.carried.back().in, of(g.carried.back(), true).carried_in.size());
    }
    std::sort(g.links.begin(), g.links.end(), [](const TracedLink& a, const TracedLink& b) {
      return std::tie(a.to, a.in) < std::tie(b.to, b.in);
    });
    const Json& flops = j.at("flops");
    g.forward_flops = size_of_json(flops.at("forward"));
    g.backward_flops = size_of_json(flops.at("backward"));
    g.saved_bytes = size_of_json(j.at("saved_bytes"));
    return g;
  }

  TracedNet net_of(const Json& j) const {
    TracedNet net;
    net.torch = j.at("torch"), net.loss = j.at("loss");
    for (const Json& p : j.at("parameters")) {
      net.parameters.push_back({p.at("name"), p.at("shape"), p.at("trained")});
      double count = 1;
      for (const int64_t n : net.parameters.back().shape) {
        require(n >= 0, "parameters", "has a negative size");
        count *= static_cast<double>(n);
      }
      require(count <= static_cast<double>(kMostTracedBytes), "parameters", "has a size out of range");
    }
    net.fp32 = graph(j.at("nets").at("fp32"));
    net.bf16 = graph(j.at("nets").at("bf16"));
    require(net.fp32.parts.size() == net.bf16.parts.size(), "nets", "has other parts in bf16 than in fp32");
    std::set<std::string> names;
    for (const TracedNet::Parameter& p : net.parameters)
      require(names.insert(p.name).second, "parameters", "names " + p.name + " twice");
    for (const TracedGraph* g : {&net.fp32, &net.bf16})
      for (const TracedPart& part : g->parts)
        for (const std::string& name : part.parameters)
          require(names.contains(name), "nets", "reads " + name + ", which is no parameter");
    return net;
  }

  const std::string file_;
};

}  // namespace

int64_t TracedNet::parameter_count() const {
  int64_t n = 0;
  for (const Parameter& p : parameters) n += p.count();
  return n;
}

int64_t TracedNet::sample_numbers() const {
  int64_t n = 0;
  for (size_t part = 0; part < fp32.parts.size(); ++part)
    for (const int32_t value : fp32.of(static_cast<int32_t>(part)).batch)
      n += fp32.of(static_cast<int32_t>(part)).values[static_cast<size_t>(value)].count(1);
  return n;
}

std::vector<int32_t> TracedNet::same_as() const {
  std::map<std::pair<int32_t, int32_t>, int32_t> first;
  std::vector<int32_t> out;
  for (size_t i = 0; i < fp32.parts.size(); ++i)
    out.push_back(first.try_emplace({fp32.parts[i].definition, bf16.parts[i].definition}, i).first->second);
  return out;
}

std::map<std::string, std::vector<int32_t>> TracedNet::shared_parameters() const {
  std::map<std::string, std::vector<int32_t>> readers;
  for (size_t i = 0; i < fp32.parts.size(); ++i)
    for (const std::string& name : fp32.parts[i].parameters) {
      std::vector<int32_t>& all = readers[name];
      if (all.empty() || all.back() != static_cast<int32_t>(i)) all.push_back(static_cast<int32_t>(i));
    }
  std::erase_if(readers, [](const auto& r) { return r.second.size() < 2; });
  return readers;
}

std::string TracedNet::why_whole() const {
  const auto last = static_cast<int32_t>(fp32.parts.size()) - 1;
  bool tied = false;
  for (const auto& [name, readers] : shared_parameters()) {
    if (readers != std::vector<int32_t>{0, last})
      return "would cut between modules that share " + name + ", which are not its first and last";
    tied = true;
  }
  for (const TracedGraph* g : {&fp32, &bf16})
    for (const TracedLink& l : g->carried)
      if (!tied || l.from != last || l.to != 0)
        return "would cut gradients that go back another way than the values came";
  return "";
}

bool is_traced_net(const std::string& file) {
  const std::string begins = std::string("{\"format\":\"") + kTracedFormat + "\"";
  std::string head(begins.size(), 0);
  std::error_code none;
  if (!std::filesystem::is_regular_file(file, none))
    return false;  // opening a pipe would wait for its writer
  std::ifstream in(file, std::ios::binary);
  return in.read(head.data(), static_cast<std::streamsize>(head.size())) && head == begins;
}

std::shared_ptr<const TracedNet> traced_net(const std::string& file) {
  static std::mutex mutex;
  static std::map<std::string, std::pair<std::filesystem::file_time_type, std::shared_ptr<const TracedNet>>>
      known;
  std::error_code none;
  const auto time = std::filesystem::last_write_time(file, none);
  const std::lock_guard lock(mutex);
  auto& [then, net] = known[file];
  if (!net || then != time) {
    net = std::make_shared<const TracedNet>(TracedReader(file).read());
    then = time;
  }
  return net;
}

}  // namespace isobar
