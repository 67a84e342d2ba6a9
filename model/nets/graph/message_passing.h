// One step of message passing over typed nodes and edges, as in GraphCast's processor (Lam 2023):
//
//   edges   e' = e + MLP[e, sender, receiver]
//   nodes   v' = v + MLP[v, sum of the new messages of each type of edge that it receives]
//
// An EdgeUpdate is one type of edge: its indices, constants of the plan, and the MLP forward and backward. A
// step of a regional-gnn has two types of edges and two of nodes: downstream (receives both types), upstream
// (receives none, so its MLP reads itself alone). Only the downstream nodes' result of the last step is used:
// that step computes no other, and the gradients of its upstream MLP are zero.
//
// If the graph is cut over ranks (edge_cut.h), a sender's own rank computes its product once, and halo rows
// are received as products, under the product of the edges' own operand; sums return under its backward
// products.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/nets/graph/edge_set.h"
#include "model/nets/graph/graph_mlp.h"
#include "model/nets/net.h"

namespace isobar::nets {

class EdgeUpdate {
 public:
  EdgeUpdate(Emission& e, const Sharding& at, const std::string& path, const std::string& name,
             EdgeConstants& edges, int64_t latent, const MlpShape& shape);
  void declare(Declare& d) { mlp_.declare(d); }

  /// x: edges, senders, receivers in the type of activations. `residual`, `y` (may be absent): the edges'
  /// stream before and after. Returns the sum of each receiver's messages, [receivers, latent] act.
  plan::View forward(const std::string& pass, const plan::View& edges, const plan::View& senders,
                     const plan::View& receivers, const plan::View& residual, const plan::View& y, bool keep);
  // With policy.edge_chunks edges are processed in pieces, those without halo first. Only the nodes' products
  // are kept; backward recomputes each piece from them.
  /// dsum: gradient of forward's result, act. The streams' gradients are f32: `edges` and `senders` are added
  /// to with `add_edges` and `add_senders`, else written.
  void backward(const plan::View& dsum, const plan::View& edges, bool add_edges, const plan::View& senders,
                bool add_senders, const plan::View& receivers);
  plan::View last_gradient(bool weight) const { return mlp_.last_gradient(weight); }

 private:
  static constexpr size_t kEdge = 0, kSender = 1, kReceiver = 2;
  /// A run of the edges of a sample.
  struct Chunk {
    std::string piece;  // "/chunk2", "/sample1/chunk2"
    int64_t sample, first, count;
    bool reads_halo;
  };
  std::vector<Chunk> chunks() const;
  plan::View rows_of(const Chunk& c, const plan::View& edges, int64_t n) const {
    return edges ? edges.slice((c.sample * at_.edges + c.first) * n, c.count * n) : plan::View{};
  }
  /// The MLP up to its norm. Reads x_, table_ and of_receiver_.
  void chunk_forward(const Chunk& c, const std::string& pass);
  /// Gradient of first()'s result, of all edges
  plan::View chunks_backward(const plan::View& dsum, const plan::View& edges, bool add_edges);
  /// Products of the senders that the edges read: own ones and, if the graph is cut, the halo's. With several
  /// samples the latter arrive in `arriving` and are in place once finished
  struct SenderTable {
    plan::View rows, arriving;
  };
  SenderTable begin_sender_table(const std::string& pass, const plan::View& senders, bool keep);
  void finish_sender_table(const std::string& pass, const SenderTable& begun);
  /// Sums of du over the edges of each own sender. Other ranks' contributions arrive in `table` (absent:
  /// none), with several samples through `arriving`
  struct Sums {
    plan::View sums, table, arriving;
  };
  Sums begin_sender_sums(const plan::View& du);
  plan::View finish_sender_sums(const Sums& begun);
  void exchange(const std::string& path, const plan::View& from, const std::vector<int64_t>& send,
                const plan::View& to, const std::vector<int64_t>& receive) const;
  /// Called for each rank with rows: name for its ops, its first row, and count
  using OfPeer = std::function<void(const std::string& peer, int64_t first, int64_t n)>;
  static void each_peer(const std::vector<int64_t>& rows, const OfPeer& with);
  /// n rows of each sample; `of_sample`: rows of a sample in the table
  struct Rows {
    plan::View table;
    int64_t first, of_sample;
  };
  void lay(const std::string& path, const Rows& x, const Rows& y, int64_t n) const;
  plan::IndexAttrs edge_rows(int64_t n) const;
  Emission& e_;
  plan::Builder& b_;
  EdgeConstants& at_;
  const std::string path_;
  const int64_t batch_, D_;
  const int cp_group_;
  GraphMlp mlp_;
  plan::View x_[3];                 // operands of forward
  plan::View table_, of_receiver_;  // products of the nodes
};

/// Streams of the parts below
constexpr size_t kDown = 0, kUp = 1, kIntra = 2, kBoundary = 3;
constexpr const char* kStreams[4] = {"down", "up", "intra", "boundary"};

/// A part: these streams in and out; the last step gives only down.
std::unique_ptr<NetPart> message_step(int index, const std::string& name, Emission& e, const Sharding& at,
                                      EdgeConstants& intra, EdgeConstants& boundary, int64_t latent,
                                      const MlpShape& shape, bool last);

/// "step07"
std::string step_path(int64_t i);

}  // namespace isobar::nets
