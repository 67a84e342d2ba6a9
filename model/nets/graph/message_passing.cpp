#include "model/nets/graph/message_passing.h"

#include <algorithm>

#include "model/nets/declare.h"
#include "model/nets/graph/edge_cut.h"

namespace isobar::nets {

// ---- one type of edge ----

EdgeUpdate::EdgeUpdate(Emission& e, const Sharding& at, const std::string& path, const std::string& name,
                       EdgeConstants& edges, int64_t latent, const MlpShape& shape)
    : e_(e),
      b_(e.b),
      at_(edges),
      path_(path),
      batch_(at.batch),
      D_(latent),
      cp_group_(at.cp_group),
      mlp_(e, at, path, name, {{"edge", latent}, {"sender", latent}, {"receiver", latent}}, shape) {}

plan::IndexAttrs EdgeUpdate::edge_rows(int64_t n) const {
  return {.rows = batch_ * at_.edges, .cols = n, .batch = batch_};
}

plan::View EdgeUpdate::forward(const std::string& pass, const plan::View& edges, const plan::View& senders,
                               const plan::View& receivers, const plan::View& residual, const plan::View& y,
                               bool keep) {
  x_[kEdge] = edges, x_[kSender] = senders, x_[kReceiver] = receivers;
  const int64_t rows = batch_ * at_.edges, H = mlp_.hidden();
  const std::vector<Chunk> pieces = chunks();
  const bool whole = pieces.empty();
  const SenderTable table = begin_sender_table(pass, senders, keep && !whole);
  table_ = table.rows;
  const plan::View u = whole ? mlp_.first(pass, {edges}, rows, keep) : plan::View{};
  of_receiver_ = b_.saved_or_scratch(path_ + ".receiver", e_.act, batch_ * at_.receivers * H, keep && !whole);
  mlp_.product(pass, kReceiver, receivers, of_receiver_, batch_ * at_.receivers);
  if (whole) {
    finish_sender_table(pass, table);
    b_.emit<plan::OpKind::gather>(path_ + "/gather" + pass, edge_rows(H),
                                  {u, table_, at_.sender(), of_receiver_, at_.receiver()}, {u});
    mlp_.rest(pass, rows, keep);
  }
  const plan::View messages = b_.scratch(path_ + ".messages", e_.act, rows * D_);
  if (whole) mlp_.norm(pass, rows, residual, messages, y, keep);
  bool waits = !whole;
  for (const Chunk& c : pieces) {
    if (waits && c.reads_halo) finish_sender_table(pass, table), waits = false;
    chunk_forward(c, pass);
    mlp_.norm(c.piece + pass, c.count, rows_of(c, residual, D_), rows_of(c, messages, D_), rows_of(c, y, D_),
              false);
  }
  const plan::View sums = b_.saved_or_scratch(path_ + ".sums", e_.act, batch_ * at_.receivers * D_, keep);
  b_.emit<plan::OpKind::segment_sum>(path_ + "/segment_sum" + pass, edge_rows(D_),
                                     {messages, at_.receiver_offsets(), plan::View{}}, {sums});
  return sums;
}

void EdgeUpdate::backward(const plan::View& dsum, const plan::View& edges, bool add_edges,
                          const plan::View& senders, bool add_senders, const plan::View& receivers) {
  const int64_t rows = batch_ * at_.edges, H = mlp_.hidden();
  plan::View du;
  if (chunks().empty()) {
    const plan::View dh = b_.scratch(path_ + ".dmessages", e_.act, rows * D_);
    b_.emit<plan::OpKind::gather>(path_ + "/segment_sum/backward", edge_rows(D_),
                                  {add_edges ? edges : plan::View{}, dsum, at_.receiver()}, {dh});
    du = mlp_.backward(dh, rows);
  } else {
    du = chunks_backward(dsum, edges, add_edges);
  }
  // Sums over the edges of each node. The sums that other ranks' edges contribute to a sender arrive under
  // the products of the edges' own operand.
  const Sums of_senders = begin_sender_sums(du);
  const plan::View of_receiver = e_.operand(path_ + ".dreceiver", e_.act, batch_ * at_.receivers * H);
  b_.emit<plan::OpKind::segment_sum>(path_ + "/gather/backward_receiver", edge_rows(H),
                                     {du, at_.receiver_offsets(), plan::View{}}, {of_receiver});
  mlp_.backward_operand(kEdge, x_[kEdge], du, edges, rows, add_edges);
  const plan::View of_sender = finish_sender_sums(of_senders);
  mlp_.backward_operand(kSender, x_[kSender], of_sender, senders, batch_ * at_.senders, add_senders);
  mlp_.backward_operand(kReceiver, x_[kReceiver], of_receiver, receivers, batch_ * at_.receivers, true);
}

// ---- in chunks ----

std::vector<EdgeUpdate::Chunk> EdgeUpdate::chunks() const {
  const int64_t n = std::min(e_.spec.policy.edge_chunks, at_.edges);
  std::vector<Chunk> out;
  if (e_.spec.policy.edge_chunks == 1) return out;
  const EdgeCut* const cut = at_.cut();
  for (int64_t b = 0; b < batch_; ++b)
    for (int64_t i = 0; i < n; ++i) {
      const int64_t first = i * at_.edges / n, count = (i + 1) * at_.edges / n - first;
      out.push_back({(batch_ > 1 ? "/sample" + std::to_string(b) : "") + "/chunk" + std::to_string(i), b,
                     first, count, cut && cut->reads_halo(first, count)});
    }
  std::stable_partition(out.begin(), out.end(), [](const Chunk& c) { return !c.reads_halo; });
  return out;
}

void EdgeUpdate::chunk_forward(const Chunk& c, const std::string& pass) {
  const int64_t H = mlp_.hidden(), rows = at_.table(), receivers = at_.receivers;
  const plan::View u = mlp_.first(c.piece + pass, {rows_of(c, x_[kEdge], D_)}, c.count, false);
  const plan::View table = table_.slice(c.sample * rows * H, (c.reads_halo ? rows : at_.senders) * H);
  b_.emit<plan::OpKind::gather>(
      path_ + "/gather" + c.piece + pass, {.rows = c.count, .cols = H, .batch = 1},
      {u, table, at_.sender().slice(c.first, c.count),
       of_receiver_.slice(c.sample * receivers * H, receivers * H), at_.receiver().slice(c.first, c.count)},
      {u});
  mlp_.rest(c.piece + pass, c.count, false);
}

plan::View EdgeUpdate::chunks_backward(const plan::View& dsum, const plan::View& edges, bool add_edges) {
  const int64_t H = mlp_.hidden();
  const plan::View du = b_.scratch(path_ + ".du", e_.act, batch_ * at_.edges * H);
  bool adds = false;
  for (const Chunk& c : chunks()) {
    chunk_forward(c, "/recompute");
    mlp_.norm(c.piece + "/recompute", c.count, {}, {}, {}, false);
    const plan::View dh = b_.scratch(path_ + ".dmessages", e_.act, c.count * D_);
    b_.emit<plan::OpKind::gather>(path_ + "/segment_sum" + c.piece + "/backward",
                                  {.rows = c.count, .cols = D_, .batch = 1},
                                  {add_edges ? rows_of(c, edges, D_) : plan::View{},
                                   dsum.slice(c.sample * at_.receivers * D_, at_.receivers * D_),
                                   at_.receiver().slice(c.first, c.count)},
                                  {dh});
    const AddsToGradients further(e_, adds);
    mlp_.backward(dh, c.count, c.piece, rows_of(c, du, H));
    adds = true;
  }
  return du;
}

// ---- senders ----

// An exchange receives the rows of all samples at once, grouped by rank, then sample. With one sample they go
// straight to their places in its table; with more they are copied there.

EdgeUpdate::SenderTable EdgeUpdate::begin_sender_table(const std::string& pass, const plan::View& senders,
                                                       bool keep) {
  const int64_t own = at_.senders, rows = at_.table(), H = mlp_.hidden();
  const EdgeCut* const cut = at_.cut();
  const bool whole = !cut || cut->halo_of_all == 0, apart = rows > own && batch_ > 1;
  const int64_t sent = whole ? 0 : static_cast<int64_t>(cut->sent.size()), halo = rows - own;
  // The send and receive buffers follow the table in one buffer: separate ones could be reused while the
  // table is still in use, and their next users would wait for the exchange.
  const plan::View all =
      b_.saved_or_scratch(path_ + ".sender", e_.act, batch_ * (rows + sent + (apart ? halo : 0)) * H, keep);
  const plan::View table = all.slice(0, batch_ * rows * H),
                   leaving = all.slice(table.count, batch_ * sent * H),
                   arriving =
                       apart ? all.slice(table.count + leaving.count, batch_ * halo * H) : plan::View{};
  const plan::View mine =
      apart ? b_.scratch(path_ + ".sender.own", e_.act, batch_ * own * H) : table.slice(0, batch_ * own * H);
  mlp_.product(pass, kSender, senders, mine, batch_ * own);
  if (whole) return {table, {}};
  each_peer(cut->send, [&](const std::string& peer, int64_t first, int64_t n) {
    b_.emit<plan::OpKind::gather>(
        path_ + "/halo/pack" + peer + pass, {.rows = batch_ * n, .cols = H, .batch = batch_},
        {plan::View{}, mine, at_.sent().slice(first, n), plan::View{}, plan::View{}},
        {leaving.slice(batch_ * first * H, batch_ * n * H)});
  });
  exchange(path_ + "/halo" + pass, leaving, cut->send, apart ? arriving : table.slice(mine.count, halo * H),
           cut->receive);
  if (apart) lay(path_ + "/halo/own" + pass, {mine, 0, own}, {table, 0, rows}, own);
  return {table, arriving};
}

void EdgeUpdate::finish_sender_table(const std::string& pass, const SenderTable& begun) {
  if (!begun.arriving) return;
  each_peer(at_.cut()->receive, [&](const std::string& peer, int64_t first, int64_t n) {
    lay(path_ + "/halo/lay" + peer + pass, {begun.arriving, batch_ * first, n},
        {begun.rows, at_.senders + first, at_.table()}, n);
  });
}

EdgeUpdate::Sums EdgeUpdate::begin_sender_sums(const plan::View& du) {
  const int64_t own = at_.senders, rows = at_.table(), H = mlp_.hidden();
  const plan::View sums = e_.operand(path_ + ".dsender", e_.act, batch_ * own * H);
  const EdgeCut* const cut = at_.cut();
  const bool whole = !cut || cut->halo_of_all == 0, apart = !whole && batch_ > 1;
  const int64_t sent = whole ? 0 : static_cast<int64_t>(cut->sent.size()), halo = rows - own;
  const plan::View all = whole ? sums
                               : b_.scratch(path_ + ".dsender.table", e_.act,
                                            batch_ * (rows + sent + (apart ? halo + sent : 0)) * H);
  const plan::View table = all.slice(0, batch_ * (whole ? own : rows + sent) * H);
  const plan::View here = apart ? b_.scratch(path_ + ".dsender.here", e_.act, batch_ * rows * H)
                                : table.slice(0, batch_ * rows * H);
  b_.emit<plan::OpKind::segment_sum>(path_ + "/gather/backward_sender", edge_rows(H),
                                     {du, at_.sender_offsets(), at_.by_sender()}, {here});
  if (whole) return {sums, {}, {}};
  if (!apart) {
    exchange(path_ + "/halo/backward", table.slice(own * H, halo * H), cut->receive,
             table.slice(rows * H, sent * H), cut->send);
    return {sums, table, {}};
  }
  const plan::View leaving = all.slice(table.count, batch_ * halo * H),
                   arriving = all.slice(table.count + leaving.count, batch_ * sent * H);
  each_peer(cut->receive, [&](const std::string& peer, int64_t first, int64_t n) {
    lay(path_ + "/halo/backward_pack" + peer, {here, own + first, rows}, {leaving, batch_ * first, n}, n);
  });
  exchange(path_ + "/halo/backward", leaving, cut->receive, arriving, cut->send);
  lay(path_ + "/halo/backward_own", {here, 0, rows}, {table, 0, rows + sent}, rows);
  return {sums, table, arriving};
}

plan::View EdgeUpdate::finish_sender_sums(const Sums& begun) {
  if (!begun.table) return begun.sums;
  const int64_t rows = at_.table(), H = mlp_.hidden(), all = begun.table.count / batch_ / H;
  if (begun.arriving)
    each_peer(at_.cut()->send, [&](const std::string& peer, int64_t first, int64_t n) {
      lay(path_ + "/halo/backward_lay" + peer, {begun.arriving, batch_ * first, n},
          {begun.table, rows + first, all}, n);
    });
  b_.emit<plan::OpKind::segment_sum>(
      path_ + "/halo/backward_sum", {.rows = batch_ * all, .cols = H, .batch = batch_},
      {begun.table, at_.returned_offsets(), at_.returned_rows()}, {begun.sums});
  return begun.sums;
}

void EdgeUpdate::exchange(const std::string& path, const plan::View& from, const std::vector<int64_t>& send,
                          const plan::View& to, const std::vector<int64_t>& receive) const {
  plan::TransferAttrs a{.group = cp_group_};
  for (const int64_t rows : send) a.send.push_back(batch_ * rows * mlp_.hidden());
  for (const int64_t rows : receive) a.receive.push_back(batch_ * rows * mlp_.hidden());
  b_.emit<plan::OpKind::all_to_all>(path, a, {from}, {to}, plan::Lane::cp);
}

void EdgeUpdate::each_peer(const std::vector<int64_t>& rows, const OfPeer& with) {
  const bool several = std::count(rows.begin(), rows.end(), 0) + 1 < static_cast<int64_t>(rows.size());
  int64_t first = 0;
  for (size_t r = 0; r < rows.size(); first += rows[r++])
    if (rows[r] > 0) with(several ? "/rank" + std::to_string(r) : "", first, rows[r]);
}

void EdgeUpdate::lay(const std::string& path, const Rows& x, const Rows& y, int64_t n) const {
  const int64_t H = mlp_.hidden();
  const auto view = [&](const Rows& t) {
    return t.table.slice(t.first * H, ((batch_ - 1) * t.of_sample + n) * H);
  };
  b_.emit<plan::OpKind::copy>(path,
                              {.run = n * H,
                               .extent = {batch_, 1, 1},
                               .from = {x.of_sample * H, 0, 0},
                               .to = {y.of_sample * H, 0, 0}},
                              {view(x)}, {view(y)});
}

std::string step_path(int64_t i) {
  return (i < 10 ? "step0" : "step") + std::to_string(i);
}

namespace {

class MessageStep : public NetPart {
 public:
  MessageStep(int index, std::string path, const std::string& name, Emission& e, const Sharding& at,
              EdgeConstants& intra, EdgeConstants& boundary, int64_t latent, const MlpShape& shape, bool last)
      : NetPart(index, std::move(path)),
        e_(e),
        b_(e.b),
        last_(last),
        D_(latent),
        rows_{at.batch * intra.receivers, at.batch * boundary.senders, at.batch * intra.edges,
              at.batch * boundary.edges},
        intra_(e, at, this->path() + "/intra", name + ".intra", intra, latent, shape),
        boundary_(e, at, this->path() + "/boundary", name + ".boundary", boundary, latent, shape),
        down_(e, at, this->path() + "/down", name + ".down",
              {{"node", latent}, {"intra", latent}, {"boundary", latent}}, shape),
        up_(e, at, this->path() + "/up", name + ".up", {{"node", latent}}, shape) {}

  void declare(Declare& d) override {
    intra_.declare(d);
    boundary_.declare(d);
    down_.declare(d);
    up_.declare(d);
  }
  // In half precision products read copies, which are kept; the stream is then scratch, unless the step is
  // recomputed from it.
  plan::View receive_buffer(size_t in) override {
    const plan::InPart here(b_, index());
    const bool keep = e_.act == DType::f32 || e_.spec.policy.recompute == Recompute::full;
    return b_.saved_or_scratch(path() + "." + kStreams[in], DType::f32, rows_[in] * D_, keep);
  }
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override {
    if (!how.recompute) in_ = in;
    const bool keep = how.keep == Keep::all;
    const std::string pass = how.pass();
    for (size_t i = 0; i < 4; ++i)
      act_[i] = as_act(e_, path() + "/" + kStreams[i] + "/cast" + pass, path() + "." + kStreams[i] + ".act",
                       in[i].x, keep);
    std::vector<Flow> out(last_ ? 1 : 4);
    if (how.result)
      for (size_t i = 0; i < out.size(); ++i)
        out[i].x = how.recompute ? b_.scratch(path() + "." + kStreams[i] + ".out", DType::f32, rows_[i] * D_)
                                 : how.output_place(i);
    const auto goes_on = [&](size_t i) { return i < out.size() ? out[i].x : plan::View{}; };
    const auto residual = [&](size_t i) { return goes_on(i) ? in[i].x : plan::View{}; };
    sums_[0] =
        intra_.forward(pass, act_[kIntra], act_[kDown], act_[kDown], residual(kIntra), goes_on(kIntra), keep);
    sums_[1] = boundary_.forward(pass, act_[kBoundary], act_[kUp], act_[kDown], residual(kBoundary),
                                 goes_on(kBoundary), keep);
    down_.forward(pass, {act_[kDown], sums_[0], sums_[1]}, rows_[kDown], residual(kDown), goes_on(kDown),
                  keep);
    if (!last_) up_.forward(pass, {act_[kUp]}, rows_[kUp], residual(kUp), goes_on(kUp), keep);
    return out;
  }
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override {
    const auto of_result = [&](size_t i) {
      return as_act(e_, path() + "/" + kStreams[i] + "/backward_cast", path() + ".d" + kStreams[i], out[i].dx,
                    false);
    };
    if (last_) {
      up_.zero_gradients();
    } else {
      const plan::View du = up_.backward(of_result(kUp), rows_[kUp]);
      up_.backward_operand(0, act_[kUp], du, in[kUp].dx, rows_[kUp], true);
    }
    const plan::View du = down_.backward(of_result(kDown), rows_[kDown]);
    down_.backward_operand(0, act_[kDown], du, in[kDown].dx, rows_[kDown], true);
    plan::View dsums[2];
    for (size_t i = 0; i < 2; ++i) {
      dsums[i] = b_.scratch(path() + ".dsums" + std::to_string(i), e_.act, rows_[kDown] * D_);
      down_.backward_operand(1 + i, sums_[i], du, dsums[i], rows_[kDown], false);
    }
    boundary_.backward(dsums[1], in[kBoundary].dx, !last_, in[kUp].dx, !last_, in[kDown].dx);
    intra_.backward(dsums[0], in[kIntra].dx, !last_, in[kDown].dx, true, in[kDown].dx);
  }
  std::vector<Flow> kept_inputs() const override { return in_; }
  int shares_gradient_with(size_t in) const override {
    return in == kDown || !last_ ? static_cast<int>(in) : -1;
  }
  plan::View last_gradient(bool weight) const override { return intra_.last_gradient(weight); }

 private:
  Emission& e_;
  plan::Builder& b_;
  const bool last_;
  const int64_t D_;
  int64_t rows_[4];  // of the streams
  EdgeUpdate intra_, boundary_;
  GraphMlp down_, up_;
  std::vector<Flow> in_;
  plan::View act_[4], sums_[2];  // the streams as products read them; messages of both types
};

}  // namespace

std::unique_ptr<NetPart> message_step(int index, const std::string& name, Emission& e, const Sharding& at,
                                      EdgeConstants& intra, EdgeConstants& boundary, int64_t latent,
                                      const MlpShape& shape, bool last) {
  return std::make_unique<MessageStep>(index, step_path(index - 1), name, e, at, intra, boundary, latent,
                                       shape, last);
}

}  // namespace isobar::nets
