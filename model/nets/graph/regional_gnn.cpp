#include "model/nets/graph/regional_gnn.h"

#include <algorithm>

#include "model/nets/declare.h"
#include "model/nets/graph/graph_head.h"
#include "model/nets/graph/message_passing.h"
#include "model/nets/graph/region_graph.h"
#include "model/nets/kinds.h"
#include "model/nets/layout/memo.h"

namespace isobar::nets {
namespace {

MlpShape shape_of(const RegionalGnnSpec& n) {
  return {n.mlp_hidden_size, n.mlp_num_hidden_layers, n.latent_size, n.norm_eps};
}

// Crops fields [B,C,H,W] to a region [B,C,rows,columns]
void emit_crop(plan::Builder& b, const std::string& path, int64_t images, const Images& from,
               const GridBox& box, const plan::View& x, const plan::View& y) {
  const int64_t first = box.row * from.img_width + box.column;
  b.emit<plan::OpKind::copy>(path,
                             {.run = box.columns,
                              .extent = {images, box.rows, 1},
                              .from = {from.pixels(), from.img_width, 0},
                              .to = {box.points(), box.columns, 0}},
                             {x.slice(first, x.count - first)}, {y});
}

class GraphEmbed : public NetPart {
 public:
  /// `cut`: nullptr if the graph is whole
  GraphEmbed(Emission& e, const Sharding& at, const RegionalGnnSpec& n, const RegionCut* cut,
             EdgeConstants& intra, EdgeConstants& boundary)
      : NetPart(0, "embed"),
        e_(e),
        b_(e.b),
        n_(n),
        nodes_{{"down", n.downstream_box(), e, at, n, cut ? &cut->down : nullptr},
               {"up", sending_box(n), e, at, n, cut ? &cut->up : nullptr}},
        features_{&intra, &boundary},
        edges_{{e, at, "embed/intra", "embed.intra", intra.edges, intra.width, shape_of(n)},
               {e, at, "embed/boundary", "embed.boundary", boundary.edges, boundary.width, shape_of(n)}} {}
  void set_input(const plan::View& v) { input_ = v; }

  void declare(Declare& d) override {
    for (Nodes& x : nodes_) x.mlp.declare(d);
    for (FeatureEmbed& x : edges_) x.declare(d);
  }
  plan::View last_gradient(bool weight) const override { return edges_[1].last_gradient(weight); }

  std::vector<Flow> forward(const std::vector<Flow>&, const Forward& how) override {
    std::vector<Flow> out(4);
    for (size_t i = 0; i < 4; ++i) out[i].x = how.output_place(i);
    for (size_t i = 0; i < 2; ++i) forward(nodes_[i], out[i].x);
    for (size_t i = 0; i < 2; ++i)
      edges_[i].to_stream("/forward", features_[i]->features(e_.act), out[2 + i].x, true);
    return out;
  }

  void backward(const std::vector<Gradient>& out, std::vector<Gradient>&) override {
    for (size_t i = 0; i < 2; ++i) backward(nodes_[i], out[i].dx);
    for (size_t i = 0; i < 2; ++i) edges_[i].backward(out[2 + i].dx);
  }

 private:
  struct Nodes {
    Nodes(const std::string& name, const GridBox& box, Emission& e, const Sharding& of_ranks,
          const RegionalGnnSpec& n, const Partition* dealt)
        : name("embed/" + name),
          box(box),
          at(dealt ? of_ranks.with_parts(dealt->parts) : of_ranks.with_tokens(box.points())),
          rows(at.rows),
          points(e.b, at, this->name, dealt ? dealt->order : std::vector<int32_t>{}),
          mlp(e, of_ranks, this->name, "embed." + name, {{"0", n.in_channels}}, shape_of(n)) {}
    const std::string name;
    const GridBox box;
    const Sharding at;
    const int64_t rows;
    OwnPoints points;
    GraphMlp mlp;
    plan::View x;  // [rows, C] act
  };
  void forward(Nodes& x, const plan::View& y) {
    const ImageShape region{n_.in_channels, x.box.rows, x.box.columns, 1};
    const plan::View fields = b_.scratch(x.name + ".fields", DType::f32, x.at.batch * region.size());
    emit_crop(b_, x.name + "/crop", x.at.batch * n_.in_channels, n_, x.box, input_, fields);
    x.x = b_.saved(x.name + ".x", e_.act, x.rows * n_.in_channels);
    x.points.read(region, fields, e_.act, x.x);
    x.mlp.forward("/forward", {x.x}, x.rows, {}, y, true);
  }

  void backward(Nodes& x, const plan::View& dy) {
    const plan::View dh = as_act(e_, x.name + "/backward_cast", x.name + ".dy", dy, false);
    x.mlp.backward_weight(0, x.x, x.mlp.backward(dh, x.rows), x.rows);
  }

  Emission& e_;
  plan::Builder& b_;
  const RegionalGnnSpec n_;
  Nodes nodes_[2];
  EdgeConstants* features_[2];
  FeatureEmbed edges_[2];
  plan::View input_;
};

class RegionHead : public GraphHead {
 public:
  RegionHead(int index, Emission& e, const Sharding& at, const RegionalGnnSpec& n, std::vector<int32_t> order)
      : GraphHead(index, e, at, "down", predicted_as(e.spec, n), shape_of(n), std::move(order)), n_(n) {}

 private:
  // Points form a line; with latitude weights each is a row of its own (loss_latitudes()).
  static ImageShape predicted_as(const RunSpec& spec, const RegionalGnnSpec& n) {
    const int64_t points = n.downstream_box().points(), rows = spec.train.latitude_weights ? points : 1;
    return {n.out_channels, rows, points / rows, 1};
  }
  plan::View of_points(const std::string& what, const plan::View& of) override {
    const std::string path = what == "mask" ? "head/mask" : "head", name = "head." + what;
    const GridBox box = n_.downstream_box();
    const int64_t images = at_.batch * n_.out_channels, points = box.points();
    const plan::View cropped = points_.apart() ? b_.scratch(name + ".cropped", DType::f32, images * points)
                                               : b_.saved(name, DType::f32, images * points);
    emit_crop(b_, path + "/crop", images, n_, box, of, cropped);
    return points_.apart() ? points_.in_order(path, name, images, cropped) : cropped;
  }
  const RegionalGnnSpec n_;
};

class RegionalGnn : public Net {
 public:
  RegionalGnn(const RegionalGnnSpec& n, Emission& e, const Sharding& at)
      : cut_(at.cp > 1 ? region_cut(n, at.cp) : nullptr),
        at_(cut_ ? at.with_parts(cut_->down.parts) : at),
        read_(image_read(n, 1)),
        nodes_(n.tokens()),
        graph_(std::make_shared<const Lazy<RegionGraph>>(
            [n, cut = cut_] { return cut ? numbered(region_graph(n), *cut) : region_graph(n); })),
        intra_(edges(e, "intra", &RegionGraph::intra, &RegionCut::intra, n.tokens(), n.intra_edges())),
        boundary_(edges(e, "boundary", &RegionGraph::boundary, &RegionCut::boundary, sending_box(n).points(),
                        n.boundary_edges())) {
    const auto steps = static_cast<int>(n.num_gnn_layers);
    embed_ = add_part(std::make_unique<GraphEmbed>(e, at_, n, cut_.get(), intra_, boundary_));
    for (int i = 0; i < steps; ++i)
      add_part(message_step(i + 1, "steps." + std::to_string(i), e, at_, intra_, boundary_, n.latent_size,
                            shape_of(n), i + 1 == steps));
    head_ = add_part(
        std::make_unique<RegionHead>(steps + 1, e, at_, n, cut_ ? cut_->down.order : std::vector<int32_t>{}));
    const int64_t rows[4] = {intra_.receivers, boundary_.senders, intra_.edges, boundary_.edges};
    for (int32_t to = 1; to <= steps; ++to)
      for (size_t i = 0; i < 4; ++i)
        streams_.push_back({kStreams[i], to - 1, to, DType::f32, at.batch * rows[i] * n.latent_size});
    streams_.push_back({kStreams[kDown], steps, steps + 1, DType::f32, at.batch * rows[0] * n.latent_size});
    batch_ = image_batch(e.spec, read_, image_predicted(n, 1), at_, steps + 1);
    for (plan::BatchTensor& t : batch_) t.kept = false;  // the cropped target is kept instead
    metrics_ = image_metrics(head_->predicted());
  }
  plan::ImageAttrs fetch() const override { return image_attrs(read_, at_); }
  void fetched(size_t tensor, const plan::View& v) override {
    const plan::BatchRole role = batch_[tensor].role;
    role == plan::BatchRole::input  ? embed_->set_input(v)
    : role == plan::BatchRole::mask ? head_->set_mask(v)
                                    : head_->set_target(v);
  }

 private:
  /// This rank's edges into downstream nodes
  EdgeConstants edges(Emission& e, const std::string& name, EdgeSet RegionGraph::*set,
                      std::vector<EdgeCut> RegionCut::*cut, int64_t senders, int64_t count) const {
    return edges_of_rank(
        e, name, [graph = graph_, set]() -> const EdgeSet& { return (*graph)().*set; },
        {count, senders, nodes_, RegionGraph::kFeatures},
        cut_ ? std::shared_ptr<const EdgeCut>(cut_, &((*cut_).*cut)[static_cast<size_t>(at_.at.cp)])
             : nullptr);
  }
  const std::shared_ptr<const RegionCut> cut_;
  const Sharding at_;  // of downstream nodes
  const ImageShape read_;
  const int64_t nodes_;                                   // downstream
  const std::shared_ptr<const Lazy<RegionGraph>> graph_;  // shared by all constants of this plan
  EdgeConstants intra_, boundary_;
  GraphEmbed* embed_;
  GraphHead* head_;
};

}  // namespace

std::unique_ptr<Net> make_net(const RegionalGnnSpec& n, Emission& e, const Sharding& at) {
  return std::make_unique<RegionalGnn>(n, e, at);
}

std::vector<plan::Part> parts_of(const RegionalGnnSpec& n) {
  std::vector<plan::Part> parts{{"embed", "embed", 0}};
  const auto last = static_cast<int32_t>(n.num_gnn_layers);
  for (int32_t i = 1; i < last; ++i) parts.push_back({"step", step_path(i - 1), 1});
  parts.push_back({"last_step", step_path(last - 1), last});
  parts.push_back({"head", "head", last + 1});
  return parts;
}

RegionalGnnSpec distinct_parts(RegionalGnnSpec n) {
  n.num_gnn_layers = std::min<int64_t>(n.num_gnn_layers, 4);  // three equal ones, and the last
  return n;
}

std::optional<GridBox> predicted_region(const NetSpec& net) {
  return net.visit([](const auto& n) -> std::optional<GridBox> {
    if constexpr (requires { n.downstream_box(); })
      return n.downstream_box();
    else
      return std::nullopt;
  });
}

NetLimits limits_of(const RegionalGnnSpec& n) {
  return {.tp = {{"net.mlp_hidden_size", n.mlp_hidden_size}},
          .kv_heads = 1,
          .tokens = n.tokens(),
          .inner_parts = n.num_gnn_layers,
          .no_sequence = "a regional-gnn's nodes and edges are not cut by rows over layout.tp",
          .attends = false};
}

}  // namespace isobar::nets
