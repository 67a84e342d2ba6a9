// How far a host's cores are from one another: the round trip of a cache line that two cores write by turns.
// 50-100 ns inside one core complex, 200-400 ns between two of them or between sockets. Every barrier of a
// step's threads costs such trips, so short steps take up to twice as long where they are far.
//
//   core_round_trip_ns({0, 1})       // 65
//
// On real hosts that is a constant. Under a virtual machine it is not: the hypervisor moves virtual
// processors from one core complex to another as it likes, and a process finds them near or far.
#pragma once
#include <optional>
#include <vector>

namespace isobar {

/// Nanoseconds from the first to the farthest of these CPUs (by number; of more than 16 some, evenly), each
/// by its quickest of several tries, so that what else runs there does not count. A pair takes 0.2 ms; where
/// cores are busy, all of them up to 50. None where they stay so, there are fewer than two, or threads cannot
/// be bound.
std::optional<double> core_round_trip_ns(const std::vector<int>& cpus);

/// The same between the first thread of the caller's OpenMP team and the others (of more than 16 some), on
/// the cores that they run on just now: some 20 us for each. None of a team of one. They should have a core
/// each.
std::optional<double> team_round_trip_ns(int threads);

}  // namespace isobar
