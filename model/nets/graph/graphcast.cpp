// GraphCast (GraphcastSpec): from a grid of the globe to a mesh, many steps there, and back.
//
//   embed    fields [B,C,H,W] with the points' places as three more -> MLP -> grid [B n_g, D];
//            mesh nodes' places, with zeros for fields, -> MLP -> mesh [B n_m, D]
//   encode   grid to mesh edges' features -> MLP; one step of messages along them; then the mesh's own edges'
//            features -> MLP -> edges [B n_e, D]
//   step     × num_gnn_layers: edges, mesh -> edges, mesh, each with its own weights
//   decode   mesh to grid edges' features -> MLP; one step of messages along them
//   head     grid -> MLP -> prediction [B n_g, C'] -> loss, and RMSE of each channel
//
// Streams are in f32. The grid's bypasses the steps, from encode to decode. Nodes that receive nothing have
// their own MLP: the grid's in encode, and the mesh's in decode. The source counts the latter among its
// parameters though its result is unused: its gradients are zero.
#include <algorithm>

#include "model/base/error.h"
#include "model/nets/declare.h"
#include "model/nets/graph/globe_graph.h"
#include "model/nets/graph/graph_head.h"
#include "model/nets/graph/graphcast_parts.h"
#include "model/nets/kinds.h"
#include "model/nets/layout/memo.h"

namespace isobar::nets {
namespace {

constexpr int64_t kPlaces = GlobeGraph::kNodeFeatures;

MlpShape mlp_shape(const GraphcastSpec& n) {
  return {n.mlp_hidden_size, n.mlp_num_hidden_layers, n.latent_size, n.norm_eps};
}

using LazyGlobe = Lazy<std::shared_ptr<const GlobeGraph>>;

// Renumbered by `cut`, if it reorders nodes
std::shared_ptr<const GlobeGraph> graph_of(const GraphcastSpec& n, const GlobeCut* cut) {
  const auto graph = globe_graph(n);
  if (!cut || cut->mesh.order.empty()) return graph;
  return std::make_shared<const GlobeGraph>(numbered(*graph, *cut));
}

class GlobeEmbed : public NetPart {
 public:
  /// `order`: of the grid's points, see OwnPoints
  GlobeEmbed(const GraphcastSpec& n, const GlobeNet& net, std::shared_ptr<const LazyGlobe> graph,
             std::vector<int32_t> order, int64_t first_node)
      : NetPart(0, "embed"),
        e_(net.e),
        b_(net.e.b),
        at_(net.at),
        graph_(std::move(graph)),
        points_{n.in_channels + kPlaces, n.img_height, n.img_width, 1},
        own_(b_, at_, "embed/grid", std::move(order)),
        nodes_(net.mesh),
        first_node_(first_node),
        grid_(net.e, net.at, "embed/grid", "embed.grid", {{"0", points_.channels}}, net.shape),
        mesh_(net.e, net.at, "embed/mesh", "embed.mesh", nodes_, points_.channels, net.shape) {}
  void set_input(const plan::View& v) { input_ = v; }

  void declare(Declare& d) override {
    grid_.declare(d);
    mesh_.declare(d);
  }
  plan::View last_gradient(bool weight) const override { return mesh_.last_gradient(weight); }

  std::vector<Flow> forward(const std::vector<Flow>&, const Forward& how) override {
    const plan::View grid = how.output_place(0), mesh = how.output_place(1);
    x_ = b_.saved("embed/grid.x", e_.act, at_.rows * points_.channels);
    own_.read(points_, with_places(), e_.act, x_);
    grid_.forward("/forward", {x_}, at_.rows, {}, grid, true);
    mesh_.to_stream("/forward", mesh_features(), mesh, true);
    return {{.x = grid}, {.x = mesh}};
  }

  void backward(const std::vector<Gradient>& out, std::vector<Gradient>&) override {
    const plan::View dh = as_act(e_, "embed/grid/backward_cast", "embed/grid.dy", out[0].dx, false);
    grid_.backward_weight(0, x_, grid_.backward(dh, at_.rows), at_.rows);
    mesh_.backward(out[1].dx);
  }

 private:
  // The fields with three more planes, the points' positions
  plan::View with_places() {
    if (!places_)
      places_ = b_.constant("grid.places", DType::f32, kPlaces * points_.height * points_.width,
                            [graph = graph_](void* to) { fill_as(DType::f32, (*graph)()->grid_planes, to); });
    const int64_t all = points_.size(), fields = all - places_.count;
    const plan::View x = b_.scratch("embed/grid.fields", DType::f32, at_.batch * all);
    const auto put = [&](const char* what, const plan::View& from, int64_t stride, int64_t first) {
      const int64_t n = stride ? stride : places_.count;
      b_.emit<plan::OpKind::copy>(
          std::string("embed/grid/") + what,
          {.run = n, .extent = {at_.batch, 1, 1}, .from = {stride, 0, 0}, .to = {all, 0, 0}}, {from},
          {x.slice(first, x.count - first)});
    };
    put("fields", input_, fields, 0);
    put("places", places_, 0, fields);
    return x;
  }

  // Zeros in place of fields, so that grid and mesh embeddings have the same width.
  plan::View mesh_features() {
    if (!features_)
      features_ = b_.constant("mesh.places", e_.act, nodes_ * points_.channels,
                              [graph = graph_, act = e_.act, width = points_.channels, first = first_node_,
                               nodes = nodes_](void* to) {
                                const float* const places =
                                    (*graph)()->mesh_features.data() + first * kPlaces;
                                std::vector<float> all(static_cast<size_t>(nodes * width), 0.0f);
                                for (int64_t i = 0; i < nodes * kPlaces; ++i)
                                  all[(i / kPlaces + 1) * width - kPlaces + i % kPlaces] = places[i];
                                fill_as(act, all, to);
                              });
    return features_;
  }

  Emission& e_;
  plan::Builder& b_;
  const Sharding& at_;
  const std::shared_ptr<const LazyGlobe> graph_;
  const ImageShape points_;
  OwnPoints own_;
  const int64_t nodes_, first_node_;  // of the mesh, this rank's
  GraphMlp grid_;
  FeatureEmbed mesh_;
  plan::View input_, x_, places_, features_;
};

class GlobeHead : public GraphHead {
 public:
  GlobeHead(int index, const GraphcastSpec& n, const GlobeNet& net, const std::vector<int32_t>& order)
      : GraphHead(index, net.e, net.at, "grid", predicted_as(net.e.spec, n, !order.empty()), net.shape,
                  order) {}

 private:
  plan::View of_points(const std::string& what, const plan::View& of) override {
    if (!points_.apart()) return of;
    return points_.in_order("head/" + what, "head." + what, at_.batch * predicted_.channels, of);
  }
  // Scattered points form a line; with latitude weights each is a row of its own (loss_latitudes()).
  static ImageShape predicted_as(const RunSpec& spec, const GraphcastSpec& n, bool apart) {
    if (!apart) return image_predicted(n, 1);
    const int64_t rows = spec.train.latitude_weights ? n.tokens() : 1;
    return {n.out_channels, rows, n.tokens() / rows, 1};
  }
};

class Graphcast : public Net {
 public:
  Graphcast(const GraphcastSpec& n, Emission& e, const Sharding& at)
      : cut_(at.cp > 1 ? globe_cut(n, at.cp) : nullptr),
        at_(cut_ ? at.with_parts(cut_->grid.parts) : at),
        read_(image_read(n, 1)),
        graph_(std::make_shared<const LazyGlobe>([n, cut = cut_] { return graph_of(n, cut.get()); })),
        up_(edges(e, "grid_to_mesh", &GlobeGraph::grid_to_mesh, &GlobeCut::grid_to_mesh, n.tokens(),
                  n.mesh_nodes(), up_edges(n, e))),
        level_(edges(e, "mesh", &GlobeGraph::mesh, &GlobeCut::level, n.mesh_nodes(), n.mesh_nodes(),
                     n.mesh_edges())),
        down_(edges(e, "mesh_to_grid", &GlobeGraph::mesh_to_grid, &GlobeCut::mesh_to_grid, n.mesh_nodes(),
                    n.tokens(), n.mesh_to_grid_edges())) {
    const std::vector<int32_t> order = cut_ ? cut_->grid.order : std::vector<int32_t>{};
    const GlobeNet net{e,   at_,    n.latent_size, mlp_shape(n), down_.receivers, up_.receivers,
                       up_, level_, down_};
    const auto steps = static_cast<int>(n.num_gnn_layers);
    embed_ = add_part(
        std::make_unique<GlobeEmbed>(n, net, graph_, order, level_.cut() ? level_.cut()->first_receiver : 0));
    const int encode = add_part(globe_encode(1, net))->index();
    for (int i = 0; i < steps; ++i)
      add_part(globe_step(encode + 1 + i, step_path(i), "steps." + std::to_string(i), net, i + 1 == steps));
    const int decode = add_part(globe_decode(encode + steps + 1, net))->index();
    head_ = add_part(std::make_unique<GlobeHead>(decode + 1, n, net, order));

    const auto stream = [&](const char* name, int from, int to, int64_t rows) {
      streams_.push_back({name, from, to, DType::f32, at.batch * rows * n.latent_size});
    };
    stream("grid", 0, encode, net.grid);
    stream("mesh", 0, encode, net.mesh);
    stream("grid", encode, decode, net.grid);
    for (int to = encode + 1; to <= decode; ++to) {
      stream("mesh", to - 1, to, net.mesh);
      if (to < decode) stream("edges", to - 1, to, level_.edges);
    }
    stream("grid", decode, decode + 1, net.grid);
    batch_ = image_batch(e.spec, read_, image_predicted(n, 1), at_, decode + 1);
    for (plan::BatchTensor& t : batch_)
      t.kept = t.kept && order.empty();  // the reordered targets are kept instead
    metrics_ = image_metrics(image_predicted(n, 1));
  }
  plan::ImageAttrs fetch() const override { return image_attrs(read_, at_); }
  void fetched(size_t tensor, const plan::View& v) override {
    const plan::BatchRole role = batch_[tensor].role;
    role == plan::BatchRole::input  ? embed_->set_input(v)
    : role == plan::BatchRole::mask ? head_->set_mask(v)
                                    : head_->set_target(v);
  }

 private:
  /// This rank's edges
  EdgeConstants edges(Emission& e, const std::string& name, EdgeSet GlobeGraph::*set,
                      std::vector<EdgeCut> GlobeCut::*cut, int64_t senders, int64_t receivers,
                      int64_t count) const {
    return edges_of_rank(
        e, name, [graph = graph_, set]() -> const EdgeSet& { return (*(*graph)()).*set; },
        {count, senders, receivers, GlobeGraph::kEdgeFeatures},
        cut_ ? std::shared_ptr<const EdgeCut>(cut_, &((*cut_).*cut)[static_cast<size_t>(at_.at.cp)])
             : nullptr);
  }
  static int64_t up_edges(const GraphcastSpec& n, const Emission& e) {
    const int64_t edges = grid_to_mesh_edges(n);
    if (edges == 0)
      throw ConfigError(e.spec.file, "net.radius", "is so small that no grid point reaches a mesh node",
                        "give a larger one, e.g. 0.6, or a finer grid");
    return edges;
  }

  const std::shared_ptr<const GlobeCut> cut_;
  const Sharding at_;  // of the grid's points
  const ImageShape read_;
  const std::shared_ptr<const LazyGlobe> graph_;
  EdgeConstants up_, level_, down_;
  GlobeEmbed* embed_;
  GlobeHead* head_;
};

}  // namespace

std::unique_ptr<Net> make_net(const GraphcastSpec& n, Emission& e, const Sharding& at) {
  return std::make_unique<Graphcast>(n, e, at);
}

std::vector<plan::Part> parts_of(const GraphcastSpec& n) {
  std::vector<plan::Part> parts{{"embed", "embed", 0}, {"encode", "encode", 1}};
  const auto last = static_cast<int32_t>(n.num_gnn_layers);
  for (int32_t i = 0; i + 1 < last; ++i) parts.push_back({"step", step_path(i), 2});
  parts.push_back({"last_step", step_path(last - 1), last + 1});
  parts.push_back({"decode", "decode", last + 2});
  parts.push_back({"head", "head", last + 3});
  return parts;
}

GraphcastSpec distinct_parts(GraphcastSpec n) {
  n.num_gnn_layers = std::min<int64_t>(n.num_gnn_layers, 4);  // three equal ones, and the last
  return n;
}

NetLimits limits_of(const GraphcastSpec& n) {
  return {.tp = {{"net.mlp_hidden_size", n.mlp_hidden_size}},
          .kv_heads = 1,
          .tokens = n.tokens(),
          .inner_parts = n.num_gnn_layers + 2,
          .no_sequence = "a graphcast's nodes and edges are not cut by rows over layout.tp",
          .attends = false};
}

}  // namespace isobar::nets
