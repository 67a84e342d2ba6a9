// The program that a run trains by instead of Isobar's engine: run.command, a shell command with words in
// braces for the run's settings.
//
//   run.command: "torchrun --nproc-per-node {ranks_on_host} train.py --mbs {policy.micro_batch} --out {out}"
//
//   guest_command(spec, Hosts{})     // "torchrun --nproc-per-node 2 train.py --mbs 4 --out runs/first"
//
// A word is a key of the specification, or one of ranks, hosts, ranks_on_host, threads and out (run.out).
// {{ and }} are braces. Values that a shell would split or interpret are quoted.
#pragma once
#include <cstdint>
#include <set>
#include <string>

#include "model/base/spec.h"

namespace isobar {

/// Hosts of this job, as Slurm and PBS tell it; 1 elsewhere.
int64_t hosts_of_job();

/// The words of a command. Throws ConfigError for a brace that is not closed.
std::set<std::string> words_of_command(const RunSpec& spec);
/// The command with its words replaced. Throws ConfigError for a word that is no key.
std::string guest_command(const RunSpec& spec, int64_t hosts);
/// Throws ConfigError if a command is to run in jobs that a scheduler starts, which start each rank
/// themselves.
void refuse_in_jobs(const RunSpec& spec, const std::string& launcher);
/// Throws ConfigError if a varied or given key reaches neither the command nor the harness: the program would
/// train the same whatever its value. `where` names the key's origin: "--set", "sweep.yaml".
void require_word_for(const std::string& key, const RunSpec& spec, const std::string& where);

}  // namespace isobar
