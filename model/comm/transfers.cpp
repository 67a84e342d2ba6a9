#include "model/comm/transfers.h"

#include <algorithm>
#include <stdexcept>

#include "model/plan/link.h"

namespace isobar::comm {
namespace {

using Kind = TransferCall::Kind;

bool equal(const std::vector<int64_t>& parts) {
  return std::all_of(parts.begin(), parts.end(), [&](int64_t p) { return p == parts[0]; });
}

std::vector<TransferCall> all_gather(const plan::Op& op, int size, Extent counts) {
  const auto parts = plan::parts_of(op, counts.out, size);
  if (equal(parts)) return {{.kind = Kind::all_gather, .count = parts[0]}};
  std::vector<TransferCall> calls;  // each owner broadcasts its part; other ranks' input is unused
  int64_t begin = 0;
  for (int owner = 0; owner < size; begin += parts[owner++])
    calls.push_back({.kind = Kind::broadcast, .count = parts[owner], .out = begin, .peer = owner});
  return calls;
}

std::vector<TransferCall> reduce_scatter(const plan::Op& op, int size, Extent counts) {
  const auto parts = plan::parts_of(op, counts.in, size);
  if (equal(parts)) return {{.kind = Kind::reduce_scatter, .count = parts[0]}};
  std::vector<TransferCall> calls;  // each part is reduced to its owner; other ranks' output is not written
  int64_t begin = 0;
  for (int owner = 0; owner < size; begin += parts[owner++])
    calls.push_back({.kind = Kind::reduce, .count = parts[owner], .in = begin, .peer = owner});
  return calls;
}

// A message for each run, in the order of the receiving rank's experts
std::vector<TransferCall> copies_to_all(const plan::Op& op, int rank, int size, Extent counts) {
  const auto& a = op.as<plan::TransferAttrs>();
  const CopyRuns runs = copy_runs(counts.offsets, experts_of(op, size), rank, size);
  std::vector<TransferCall> calls;
  for (int r = 0; r < size; ++r)
    for (size_t e = 0; e < runs.tokens[r].size(); ++e) {
      const CopyRun &sent = a.back ? runs.experts[r][e] : runs.tokens[r][e],
                    &received = a.back ? runs.tokens[r][e] : runs.experts[r][e];
      calls.push_back(
          {.kind = Kind::send, .count = sent.count * a.width, .in = sent.first * a.width, .peer = r});
      calls.push_back({.kind = Kind::recv,
                       .count = received.count * a.width,
                       .out = received.first * a.width,
                       .peer = r});
    }
  return calls;
}

std::vector<TransferCall> all_to_all(const plan::Op& op, int size, Extent counts) {
  const auto sent = plan::send_parts(op, counts.in, size),
             received = plan::receive_parts(op, counts.out, size);
  std::vector<TransferCall> calls;
  int64_t in = 0, out = 0;
  for (int r = 0; r < size; in += sent[r], out += received[r], ++r) {
    calls.push_back({.kind = Kind::send, .count = sent[r], .in = in, .peer = r});
    calls.push_back({.kind = Kind::recv, .count = received[r], .out = out, .peer = r});
  }
  return calls;
}

std::vector<TransferCall> calls_of(const plan::Op& op, int rank, int size, Extent counts) {
  switch (op.kind) {
    case plan::OpKind::all_reduce:
      return {{.kind = Kind::all_reduce,
               .count = counts.out,
               .in_place = true,
               .largest = op.as<plan::TransferAttrs>().largest}};
    case plan::OpKind::broadcast:
      return {{.kind = Kind::broadcast, .count = counts.out, .peer = 0, .in_place = true}};
    case plan::OpKind::all_gather:
      return all_gather(op, size, counts);
    case plan::OpKind::reduce_scatter:
      return reduce_scatter(op, size, counts);
    case plan::OpKind::all_to_all:
      return counts.offsets != nullptr ? copies_to_all(op, rank, size, counts) : all_to_all(op, size, counts);
    case plan::OpKind::exchange:
      return {{.kind = Kind::send, .count = counts.in, .peer = (rank + 1) % size},
              {.kind = Kind::recv, .count = counts.out, .peer = (rank + size - 1) % size}};
    case plan::OpKind::send:
      return {{.kind = Kind::send, .count = counts.in, .peer = 1}};
    case plan::OpKind::recv:
      return {{.kind = Kind::recv, .count = counts.out, .peer = 0}};
    default:
      throw std::logic_error(op.path + " does not run over the network");
  }
}

}  // namespace

std::vector<TransferCall> transfer_calls(const plan::Op& op, int rank, int size, Extent counts) {
  std::vector<TransferCall> calls = calls_of(op, rank, size, counts);
  std::erase_if(calls, [](const TransferCall& c) { return c.count == 0; });
  return calls;
}

}  // namespace isobar::comm
