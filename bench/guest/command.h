// The program that a run trains by instead of Isobar's engine: run.command, a shell command with words in
// braces for the run's settings.
//
//   run.command: "torchrun --nproc-per-node {ranks_on_host} train.py --mbs {policy.micro_batch} --out {out}"
//
//   guest_command(spec, hosts)      // "torchrun --nproc-per-node 2 train.py --mbs 4 --out runs/first"
//
// A word is a key of the specification, or one of
//   ranks, ranks_on_host, nodes, node_rank, nodelist   where it runs: n1,n2 is a nodelist
//   master_addr, master_port                           where its processes meet, on the first node
//   threads, out                                       run.threads, run.out
//   flags                                              run.engine's options for this layout (isobar emit)
//   resume, and in run.resume checkpoint               what takes it up from its last checkpoint
// {{ and }} are braces. Values that a shell would split or interpret are quoted.
#pragma once
#include <string>

#include "bench/guest/hosts.h"
#include "bench/sweep/command_words.h"
#include "model/base/spec/spec.h"

namespace isobar::guest {

inline constexpr const char* kBatchKey = "train.global_batch";

/// The command with its words replaced. `checkpoint`: the newest of run.checkpoint, from which it is taken
/// up; "": it begins anew. Throws ConfigError for a word that is no key.
std::string guest_command(const RunSpec& spec, const GuestHosts& hosts, const std::string& checkpoint = "");
/// True if the command, or the harness, is another where this key has another value.
bool reaches_command(const std::string& key, const RunSpec& spec);
/// Throws ConfigError if a varied or given key reaches neither the command nor the harness: the program would
/// train the same whatever its value. `where` names the key's origin: "--set", "sweep.yaml".
void require_word_for(const std::string& key, const RunSpec& spec, const std::string& where);

// {flags} of run.command: the options of run.engine for a run's net, batch, layout and policy, as isobar emit
// writes them.

struct Flags {
  std::string words;
  std::string file, text;  // a file that they name, and what it holds; "": none
};

/// Empty where run.command has no {flags}. Throws ConfigError if it has, and run.engine is no engine.
Flags flags_of(const RunSpec& spec);
/// True if the options are others where this key has another value.
bool reaches_flags(const std::string& key, const RunSpec& spec);

}  // namespace isobar::guest
