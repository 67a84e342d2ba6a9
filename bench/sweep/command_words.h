// Words in braces of run.command, and the parts of a trial that it decides: where it is started, and whether
// it can be taken up.
//
//   run.command: "torchrun --nproc-per-node {ranks_on_host} train.py --mbs {policy.micro_batch} {resume}"
//   words_of_command(spec)                 // {"ranks_on_host", "policy.micro_batch", "resume"}
//
// {{ and }} are braces.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"

namespace isobar::sweep {

/// The text of `key`, run.command or run.resume, with each word replaced by `value(word)`. Throws ConfigError
/// for a brace that is not closed.
std::string with_words(const RunSpec& spec, const char* key, const std::string& text,
                       const std::function<std::string(const std::string&)>& value);
std::set<std::string> words_of_command(const RunSpec& spec);

/// True if run.command is started once on every node ({node_rank}); otherwise once in all.
bool starts_on_every_node(const RunSpec& spec);
/// True if it has words for several nodes: {node_rank}, {nodes} or {nodelist}.
bool knows_nodes(const RunSpec& spec);
/// Throws ConfigError if run.command has no words for that number of nodes.
void require_words_of_nodes(const RunSpec& spec, int64_t nodes);

/// Variables by which a job gives a command's process its nodes, and the port where they meet.
inline constexpr const char *kToldNodes = "ISOBAR_NODES", *kToldPort = "ISOBAR_MASTER_PORT";
/// Words before that process: env ISOBAR_NODES=n1,n2 ISOBAR_MASTER_PORT=29512.
std::vector<std::string> words_that_tell(const std::vector<std::string>& nodes);
/// A port of this host on which no process listens.
int64_t free_port();

/// The newest of run.checkpoint's files in a run's folder, from which run.command can be taken up.
std::optional<std::filesystem::path> checkpoint_of_command(const RunSpec& spec,
                                                           const std::filesystem::path& run_dir);

}  // namespace isobar::sweep
