#include "model/nets/graph/graphcast_parts.h"

#include <string>
#include <vector>

#include "model/nets/declare.h"
#include "model/nets/feature_embed.h"
#include "model/nets/graph/message_passing.h"
#include "model/nets/net.h"

namespace isobar::nets {
namespace {

/// A part with streams in f32 and, for its products, in the type of activations.
class GlobePart : public NetPart {
 public:
  GlobePart(int index, std::string path, const GlobeNet& net, std::vector<std::string> streams,
            std::vector<int64_t> rows)
      : NetPart(index, std::move(path)),
        e_(net.e),
        b_(net.e.b),
        batch_(net.at.batch),
        D_(net.latent),
        streams_(std::move(streams)),
        rows_(std::move(rows)) {}
  // In half precision products read copies, which are kept; the stream is then scratch, unless the part is
  // recomputed from it.
  plan::View receive_buffer(size_t in) override {
    const plan::InPart here(b_, index());
    const bool keep = e_.act == DType::f32 || e_.spec.policy.recompute == Recompute::full;
    return b_.saved_or_scratch(path() + "." + streams_[in], DType::f32, batch_ * rows_[in] * D_, keep);
  }
  std::vector<Flow> kept_inputs() const override { return in_; }

 protected:
  /// The streams as products read them
  std::vector<plan::View> act(const std::vector<Flow>& in, const Forward& how) {
    if (!how.recompute) in_ = in;
    std::vector<plan::View> all;
    for (size_t i = 0; i < in.size(); ++i)
      all.push_back(as_act(e_, path() + "/" + streams_[i] + "/cast" + how.pass(),
                           path() + "." + streams_[i] + ".act", in[i].x, how.keep == Keep::all));
    return all;
  }
  /// Buffer of its i-th result; absent if unused
  plan::View goes_on(size_t i, const std::string& name, int64_t rows, const Forward& how) const {
    if (!how.result) return {};
    return how.recompute ? b_.scratch(path() + "." + name + ".out", DType::f32, batch_ * rows * D_)
                         : how.output_place(i);
  }
  /// The gradient of its i-th result as products read it
  plan::View of_result(size_t i, const plan::View& dx) const {
    const std::string n = std::to_string(i);
    return as_act(e_, path() + "/backward_cast" + n, path() + ".dout" + n, dx, false);
  }

  /// Adds to the gradient of the receiving nodes, and returns that of the sums of messages.
  plan::View receivers_backward(GraphMlp& nodes, const plan::View& dh, const plan::View& x,
                                const plan::View& dx, int64_t rows) {
    const plan::View du = nodes.backward(dh, rows), dsums = b_.scratch(path() + ".dsums", e_.act, rows * D_);
    nodes.backward_operand(0, x, du, dx, rows, true);
    nodes.backward_operand(1, sums_, du, dsums, rows, false);
    return dsums;
  }

  Emission& e_;
  plan::Builder& b_;
  const int64_t batch_, D_;
  std::vector<plan::View> act_;
  plan::View sums_;  // of each receiver's messages

 private:
  const std::vector<std::string> streams_;
  const std::vector<int64_t> rows_;
  std::vector<Flow> in_;
};

/// grid, mesh -> grid, mesh, edges
class GlobeEncode : public GlobePart {
 public:
  GlobeEncode(int index, const GlobeNet& net)
      : GlobePart(index, "encode", net, {"grid", "mesh"}, {net.grid, net.mesh}),
        net_(net),
        up_(net.e, net.at, "encode/features", "encode.features", net.up.edges, net.up.width, net.shape),
        level_(net.e, net.at, "encode/mesh_features", "encode.mesh_features", net.level.edges,
               net.level.width, net.shape),
        edge_(net.e, net.at, "encode/edge", "encode.edge", net.up, net.latent, net.shape),
        mesh_(net.e, net.at, "encode/mesh", "encode.mesh", {{"node", net.latent}, {"edges", net.latent}},
              net.shape),
        grid_(net.e, net.at, "encode/grid", "encode.grid", {{"node", net.latent}}, net.shape) {}
  void declare(Declare& d) override {
    up_.declare(d);
    level_.declare(d);
    edge_.declare(d);
    mesh_.declare(d);
    grid_.declare(d);
  }
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override {
    const bool keep = how.keep == Keep::all;
    const std::string pass = how.pass();
    const int64_t grid = batch_ * net_.grid, mesh = batch_ * net_.mesh;
    act_ = act(in, how);
    std::vector<Flow> out(3);
    out[0].x = goes_on(0, "grid", net_.grid, how);
    out[1].x = goes_on(1, "mesh", net_.mesh, how);
    out[2].x = goes_on(2, "edges", net_.level.edges, how);
    sums_ =
        edge_.forward(pass, up_.to_act(pass, net_.up.features(e_.act), keep), act_[0], act_[1], {}, {}, keep);
    mesh_.forward(pass, {act_[1], sums_}, mesh, how.result ? in[1].x : plan::View{}, out[1].x, keep);
    grid_.forward(pass, {act_[0]}, grid, how.result ? in[0].x : plan::View{}, out[0].x, keep);
    level_.to_stream(pass, net_.level.features(e_.act), out[2].x, keep);
    return out;
  }
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override {
    const int64_t grid = batch_ * net_.grid, mesh = batch_ * net_.mesh;
    const plan::View du_grid = grid_.backward(of_result(0, out[0].dx), grid);
    grid_.backward_operand(0, act_[0], du_grid, in[0].dx, grid, true);
    const plan::View dsums = receivers_backward(mesh_, of_result(1, out[1].dx), act_[1], in[1].dx, mesh);
    const plan::View dfeatures = up_.act_gradient();
    edge_.backward(dsums, dfeatures, false, in[0].dx, true, in[1].dx);
    up_.backward(dfeatures);
    level_.backward(out[2].dx);
  }
  int shares_gradient_with(size_t in) const override { return static_cast<int>(in); }
  plan::View last_gradient(bool weight) const override { return level_.last_gradient(weight); }

 private:
  const GlobeNet net_;
  FeatureEmbed up_, level_;  // embed the features of both types of edges
  EdgeUpdate edge_;
  GraphMlp mesh_, grid_;
};

/// mesh, edges -> mesh, edges; the last step: mesh only
class GlobeStep : public GlobePart {
 public:
  GlobeStep(int index, const std::string& path, const std::string& name, const GlobeNet& net, bool last)
      : GlobePart(index, path, net, {"mesh", "edges"}, {net.mesh, net.level.edges}),
        net_(net),
        last_(last),
        edge_(net.e, net.at, path + "/edge", name + ".edge", net.level, net.latent, net.shape),
        node_(net.e, net.at, path + "/node", name + ".node", {{"node", net.latent}, {"edges", net.latent}},
              net.shape) {}
  void declare(Declare& d) override {
    edge_.declare(d);
    node_.declare(d);
  }
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override {
    const bool keep = how.keep == Keep::all;
    const std::string pass = how.pass();
    const int64_t mesh = batch_ * net_.mesh;
    act_ = act(in, how);
    std::vector<Flow> out(last_ ? 1 : 2);
    out[0].x = goes_on(0, "mesh", net_.mesh, how);
    if (!last_) out[1].x = goes_on(1, "edges", net_.level.edges, how);
    const plan::View edges = last_ ? plan::View{} : out[1].x;
    sums_ = edge_.forward(pass, act_[1], act_[0], act_[0], edges ? in[1].x : plan::View{}, edges, keep);
    node_.forward(pass, {act_[0], sums_}, mesh, how.result ? in[0].x : plan::View{}, out[0].x, keep);
    return out;
  }
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override {
    const int64_t mesh = batch_ * net_.mesh;
    const plan::View dsums = receivers_backward(node_, of_result(0, out[0].dx), act_[0], in[0].dx, mesh);
    edge_.backward(dsums, in[1].dx, !last_, in[0].dx, true, in[0].dx);
  }
  int shares_gradient_with(size_t in) const override { return in == 0 || !last_ ? static_cast<int>(in) : -1; }
  plan::View last_gradient(bool weight) const override { return edge_.last_gradient(weight); }

 private:
  const GlobeNet net_;
  const bool last_;
  EdgeUpdate edge_;
  GraphMlp node_;
};

/// grid, mesh -> grid
class GlobeDecode : public GlobePart {
 public:
  GlobeDecode(int index, const GlobeNet& net)
      : GlobePart(index, "decode", net, {"grid", "mesh"}, {net.grid, net.mesh}),
        net_(net),
        down_(net.e, net.at, "decode/features", "decode.features", net.down.edges, net.down.width, net.shape),
        edge_(net.e, net.at, "decode/edge", "decode.edge", net.down, net.latent, net.shape),
        grid_(net.e, net.at, "decode/grid", "decode.grid", {{"node", net.latent}, {"edges", net.latent}},
              net.shape),
        mesh_(net.e, net.at, "decode/mesh", "decode.mesh", {{"node", net.latent}}, net.shape) {}
  void declare(Declare& d) override {
    down_.declare(d);
    edge_.declare(d);
    grid_.declare(d);
    mesh_.declare(d);
  }
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override {
    const bool keep = how.keep == Keep::all;
    const std::string pass = how.pass();
    const int64_t grid = batch_ * net_.grid;
    act_ = act(in, how);
    std::vector<Flow> out(1);
    out[0].x = goes_on(0, "grid", net_.grid, how);
    sums_ = edge_.forward(pass, down_.to_act(pass, net_.down.features(e_.act), keep), act_[1], act_[0], {},
                          {}, keep);
    grid_.forward(pass, {act_[0], sums_}, grid, how.result ? in[0].x : plan::View{}, out[0].x, keep);
    return out;
  }
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override {
    const int64_t grid = batch_ * net_.grid;
    mesh_.zero_gradients();
    const plan::View dsums = receivers_backward(grid_, of_result(0, out[0].dx), act_[0], in[0].dx, grid);
    const plan::View dfeatures = down_.act_gradient();
    edge_.backward(dsums, dfeatures, false, in[1].dx, false, in[0].dx);
    down_.backward(dfeatures);
  }
  int shares_gradient_with(size_t in) const override { return in == 0 ? 0 : -1; }
  plan::View last_gradient(bool weight) const override { return down_.last_gradient(weight); }

 private:
  const GlobeNet net_;
  FeatureEmbed down_;
  EdgeUpdate edge_;
  GraphMlp grid_, mesh_;
};

}  // namespace

std::unique_ptr<NetPart> globe_encode(int index, const GlobeNet& net) {
  return std::make_unique<GlobeEncode>(index, net);
}

std::unique_ptr<NetPart> globe_step(int index, const std::string& path, const std::string& name,
                                    const GlobeNet& net, bool last) {
  return std::make_unique<GlobeStep>(index, path, name, net, last);
}

std::unique_ptr<NetPart> globe_decode(int index, const GlobeNet& net) {
  return std::make_unique<GlobeDecode>(index, net);
}

}  // namespace isobar::nets
