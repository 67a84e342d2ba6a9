#include "model/nets/message_passing.h"

#include <algorithm>

#include "model/nets/declare.h"
#include "model/nets/edge_cut.h"

namespace isobar {

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

Attrs EdgeUpdate::edge_rows(int64_t n) const {
  return {.m = batch_ * at_.edges, .n = n, .batch = batch_};
}

View EdgeUpdate::forward(const std::string& pass, const View& edges, const View& senders,
                         const View& receivers, const View& residual, const View& y, bool keep) {
  x_[kEdge] = edges, x_[kSender] = senders, x_[kReceiver] = receivers;
  const int64_t rows = batch_ * at_.edges, H = mlp_.hidden();
  const View of_sender = sender_table(pass, senders);
  const View u = mlp_.first(pass, {edges}, rows, keep);
  const View of_receiver = b_.scratch(path_ + ".receiver", e_.act, batch_ * at_.receivers * H);
  mlp_.product(pass, kReceiver, receivers, of_receiver, batch_ * at_.receivers);
  b_.emit(OpKind::gather, path_ + "/gather" + pass, edge_rows(H),
          {u, of_sender, at_.sender(), of_receiver, at_.receiver()}, {u});
  mlp_.rest(pass, rows, keep);
  const View messages = b_.scratch(path_ + ".messages", e_.act, rows * D_);
  mlp_.norm(pass, rows, residual, messages, y, keep);
  const View sums = b_.hold(path_ + ".sums", e_.act, batch_ * at_.receivers * D_, keep);
  b_.emit(OpKind::segment_sum, path_ + "/segment_sum" + pass, edge_rows(D_),
          {messages, at_.receiver_offsets(), View{}}, {sums});
  return sums;
}

void EdgeUpdate::backward(const View& dsum, const View& edges, bool add_edges, const View& senders,
                          bool add_senders, const View& receivers) {
  const int64_t rows = batch_ * at_.edges, H = mlp_.hidden();
  const View dh = b_.scratch(path_ + ".dmessages", e_.act, rows * D_);
  b_.emit(OpKind::gather, path_ + "/segment_sum/backward", edge_rows(D_),
          {add_edges ? edges : View{}, dsum, at_.receiver()}, {dh});
  const View du = mlp_.backward(dh, rows);
  // Of what was gathered: the sum over the edges of each node
  const View of_sender = sender_sums(du);
  const View of_receiver = e_.operand(path_ + ".dreceiver", e_.act, batch_ * at_.receivers * H);
  b_.emit(OpKind::segment_sum, path_ + "/gather/backward_receiver", edge_rows(H),
          {du, at_.receiver_offsets(), View{}}, {of_receiver});
  mlp_.backward_operand(kEdge, x_[kEdge], du, edges, rows, add_edges);
  mlp_.backward_operand(kSender, x_[kSender], of_sender, senders, batch_ * at_.senders, add_senders);
  mlp_.backward_operand(kReceiver, x_[kReceiver], of_receiver, receivers, batch_ * at_.receivers, true);
}

// ---- the senders' side ----

View EdgeUpdate::sender_table(const std::string& pass, const View& senders) {
  const int64_t own = at_.senders, rows = at_.table(), H = mlp_.hidden();
  const View table = b_.scratch(path_ + ".sender", e_.act, batch_ * rows * H);
  const EdgeCut* const cut = at_.cut();
  const bool apart = rows > own && batch_ > 1;
  const View mine =
      apart ? b_.scratch(path_ + ".sender.own", e_.act, batch_ * own * H) : table.slice(0, batch_ * own * H);
  mlp_.product(pass, kSender, senders, mine, batch_ * own);
  if (apart) spread(path_ + "/halo/own" + pass, mine, own, table, rows);
  if (!cut || cut->halo_of_all == 0) return table;
  const auto sent = static_cast<int64_t>(cut->sent.size());
  const View leaving = b_.scratch(path_ + ".halo.leaving", e_.act, std::max<int64_t>(1, batch_ * sent * H));
  if (sent > 0)
    b_.emit(OpKind::gather, path_ + "/halo/pack" + pass, {.m = batch_ * sent, .n = H, .batch = batch_},
            {View{}, mine, at_.sent(), View{}, View{}}, {leaving});
  for (int64_t b = 0; b < batch_; ++b)
    exchange(path_ + "/halo" + of_sample(b) + pass, leaving.slice(b * sent * H, sent * H), cut->send,
             table.slice((b * rows + own) * H, (rows - own) * H), cut->receive);
  return table;
}

View EdgeUpdate::sender_sums(const View& du) {
  const int64_t own = at_.senders, rows = at_.table(), H = mlp_.hidden();
  const View sums = e_.operand(path_ + ".dsender", e_.act, batch_ * own * H);
  const EdgeCut* const cut = at_.cut();
  const bool whole = !cut || cut->halo_of_all == 0;
  const int64_t sent = whole ? 0 : static_cast<int64_t>(cut->sent.size()), all = rows + sent;
  const View table = whole ? sums : b_.scratch(path_ + ".dsender.table", e_.act, batch_ * all * H);
  const bool apart = sent > 0 && batch_ > 1;
  const View here = apart ? b_.scratch(path_ + ".dsender.here", e_.act, batch_ * rows * H)
                          : table.slice(0, batch_ * rows * H);
  b_.emit(OpKind::segment_sum, path_ + "/gather/backward_sender", edge_rows(H),
          {du, at_.sender_offsets(), at_.by_sender()}, {here});
  if (whole) return sums;
  if (apart) spread(path_ + "/halo/backward_own", here, rows, table, all);
  for (int64_t b = 0; b < batch_; ++b)
    exchange(path_ + "/halo" + of_sample(b) + "/backward", table.slice((b * all + own) * H, (rows - own) * H),
             cut->receive, table.slice((b * all + rows) * H, sent * H), cut->send);
  b_.emit(OpKind::segment_sum, path_ + "/halo/backward_sum", {.m = batch_ * all, .n = H, .batch = batch_},
          {table, at_.returned_offsets(), at_.returned_rows()}, {sums});
  return sums;
}

void EdgeUpdate::exchange(const std::string& path, const View& from, const std::vector<int64_t>& send,
                          const View& to, const std::vector<int64_t>& receive) const {
  Attrs a{.group = cp_group_};
  for (const int64_t rows : send) a.send.push_back(rows * mlp_.hidden());
  for (const int64_t rows : receive) a.receive.push_back(rows * mlp_.hidden());
  b_.emit(OpKind::all_to_all, path, a, {from}, {to}, Lane::cp);
}

void EdgeUpdate::spread(const std::string& path, const View& x, int64_t rows, const View& y,
                        int64_t y_rows) const {
  const int64_t n = rows * mlp_.hidden();
  b_.emit(OpKind::copy, path,
          {.m = 1, .n = n, .extent = {batch_, 1, 1}, .from = {n, 0, 0}, .to = {y_rows * mlp_.hidden(), 0, 0}},
          {x}, {y});
}

// ---- the step ----

MessageStep::MessageStep(int index, std::string path, const std::string& name, Emission& e,
                         const Sharding& at, EdgeConstants& intra, EdgeConstants& boundary, int64_t latent,
                         const MlpShape& shape, bool last)
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

void MessageStep::declare(Declare& d) {
  intra_.declare(d);
  boundary_.declare(d);
  down_.declare(d);
  up_.declare(d);
}

// In half precision products read copies, which are kept; the stream itself then lives no longer than this
// step, unless the step is computed again from it.
View MessageStep::door(size_t in) {
  const InPart here(b_, index());
  const bool keep = e_.act == DType::f32 || e_.spec.policy.recompute == "full";
  return b_.hold(path() + "." + kStreams[in], DType::f32, rows_[in] * D_, keep);
}

std::vector<Flow> MessageStep::forward(const std::vector<Flow>& in, const Forward& how) {
  if (!how.again) in_ = in;
  const bool keep = how.keep == Keep::all;
  const std::string pass = how.pass();
  for (size_t i = 0; i < 4; ++i)
    act_[i] = as_act(e_, path() + "/" + kStreams[i] + "/cast" + pass, path() + "." + kStreams[i] + ".act",
                     in[i].x, keep);
  std::vector<Flow> out(last_ ? 1 : 4);
  if (how.result)
    for (size_t i = 0; i < out.size(); ++i)
      out[i].x = how.again ? b_.scratch(path() + "." + kStreams[i] + ".out", DType::f32, rows_[i] * D_)
                           : how.lies(i);
  const auto goes_on = [&](size_t i) { return i < out.size() ? out[i].x : View{}; };
  const auto residual = [&](size_t i) { return goes_on(i) ? in[i].x : View{}; };
  sums_[0] =
      intra_.forward(pass, act_[kIntra], act_[kDown], act_[kDown], residual(kIntra), goes_on(kIntra), keep);
  sums_[1] = boundary_.forward(pass, act_[kBoundary], act_[kUp], act_[kDown], residual(kBoundary),
                               goes_on(kBoundary), keep);
  down_.first(pass, {act_[kDown], sums_[0], sums_[1]}, rows_[kDown], keep);
  down_.rest(pass, rows_[kDown], keep);
  down_.norm(pass, rows_[kDown], residual(kDown), {}, goes_on(kDown), keep);
  if (last_) return out;
  up_.first(pass, {act_[kUp]}, rows_[kUp], keep);
  up_.rest(pass, rows_[kUp], keep);
  up_.norm(pass, rows_[kUp], residual(kUp), {}, goes_on(kUp), keep);
  return out;
}

void MessageStep::backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) {
  const auto of_result = [&](size_t i) {
    return as_act(e_, path() + "/" + kStreams[i] + "/backward_cast", path() + ".d" + kStreams[i], out[i].dx,
                  false);
  };
  if (last_) {
    up_.zero_gradients();
  } else {
    const View du = up_.backward(of_result(kUp), rows_[kUp]);
    up_.backward_operand(0, act_[kUp], du, in[kUp].dx, rows_[kUp], true);
  }
  const View du = down_.backward(of_result(kDown), rows_[kDown]);
  down_.backward_operand(0, act_[kDown], du, in[kDown].dx, rows_[kDown], true);
  View dsums[2];
  for (size_t i = 0; i < 2; ++i) {
    dsums[i] = b_.scratch(path() + ".dsums" + std::to_string(i), e_.act, rows_[kDown] * D_);
    down_.backward_operand(1 + i, sums_[i], du, dsums[i], rows_[kDown], false);
  }
  boundary_.backward(dsums[1], in[kBoundary].dx, !last_, in[kUp].dx, !last_, in[kDown].dx);
  intra_.backward(dsums[0], in[kIntra].dx, !last_, in[kDown].dx, true, in[kDown].dx);
}

}  // namespace isobar
