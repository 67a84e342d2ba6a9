// Runs of tokens (Sharding), of which all-gathers and rings of context parallelism give a rank up to two.
#include "model/nets/transformer/context_parallel.h"

namespace isobar::nets {

std::vector<AttentionCore::Run> AttentionCore::runs_of(int64_t rank) const {
  const TokenRuns& held = at_.token_runs[rank];
  if (held.more == 0) return {{0, held.count, held.first, ""}};
  return {{0, held.count, held.first, "a"}, {held.count, held.more, held.then, "b"}};
}

// False: a rank's rows are in the order of runs as they are.
bool AttentionCore::runs_apart() const {
  return at_.batch > 1 && at_.runs().more > 0;
}

plan::View AttentionCore::of_run(const plan::View& x, const Run& run, int64_t cols) const {
  return x.slice(at_.batch * run.from * cols, at_.batch * run.tokens * cols);
}

// The first n columns of this rank's rows
void AttentionCore::to_runs(const std::string& path, int64_t n, const plan::View& rows, int64_t ld,
                            const plan::View& runs) {
  if (!runs_apart()) return columns(path, n, rows, ld, runs, n);
  for (const Run& r : runs_of(at_.at.cp))
    copy(path + (r.from > 0 ? "1" : "0"),
         {n, {at_.batch, r.tokens, 1}, {at_.tokens * ld, ld, 0}, {r.tokens * n, n, 0}},
         rows.slice(r.from * ld, rows.count - r.from * ld), of_run(runs, r, n));
}

void AttentionCore::from_runs(const std::string& path, int64_t n, const plan::View& runs,
                              const plan::View& rows, int64_t ld) {
  if (!runs_apart()) return columns(path, n, runs, n, rows, ld);
  for (const Run& r : runs_of(at_.at.cp))
    copy(path + (r.from > 0 ? "1" : "0"),
         {n, {at_.batch, r.tokens, 1}, {r.tokens * n, n, 0}, {at_.tokens * ld, ld, 0}}, of_run(runs, r, n),
         rows.slice(r.from * ld, rows.count - r.from * ld));
}

AttentionCore::Queries AttentionCore::queries(const std::string& path, const std::string& name,
                                              const plan::View& qkv) {
  if (!runs_apart()) return {part(qkv, 0), qkv_};
  const Queries q{b_.scratch(name, act_, R_ * width_), width_};
  to_runs(path + "_pack_q", width_, part(qkv, 0), qkv_, q.x);
  return q;
}

plan::View AttentionCore::of_run(const Queries& q, const Run& run) const {
  const int64_t rows = at_.batch * run.tokens;
  return q.x.slice(at_.batch * run.from * q.ld, (rows - 1) * q.ld + width_);
}

// [rows, width] in the order of runs
plan::View AttentionCore::in_runs(const std::string& path, const std::string& name, const plan::View& rows) {
  if (!runs_apart()) return rows;
  const plan::View runs = b_.scratch(name, act_, R_ * width_);
  to_runs(path, width_, rows, width_, runs);
  return runs;
}

}  // namespace isobar::nets
