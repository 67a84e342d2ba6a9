#include "bench/cluster/cluster.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "model/base/error.h"
#include "model/base/names/did_you_mean.h"
#include "model/base/text/yaml.h"

namespace isobar::cluster {
namespace {

using nlohmann::json;

const std::vector<std::string> kKeys = {
    "scheduler",   "start",     "start_options", "ranks_per_node", "cores_per_node", "queue",
    "account",     "qos",       "constraint",    "required",       "directives",     "modules",
    "preamble",    "cores",     "environment",   "job_time_s",     "max_time_s",     "min_time_s",
    "start_s",     "poll_s",    "fence_s",       "max_jobs",       "retries",        "preflight",
    "spare_nodes", "max_nodes", "charge",        "exclusive",      "gpus_per_rank",  "memory_per_rank_gb"};
const std::vector<std::string> kMayBeRequired = {"account", "queue", "qos", "constraint"};

constexpr const char* kNotPlain = " \t'\"\\`$;&#<>|";
constexpr const char* kNotInConstraint = " \t'\"\\`$;#<>";  // Slurm joins features by & and |

class ClusterReader {
 public:
  ClusterReader(const json& j, const std::string& file) : j_(j), file_(file) {
    if (!j.is_object())
      fail("", "is not a map of keys", "e.g. cluster: {scheduler: slurm, ranks_per_node: 4}");
    for (const auto& item : j.items())
      if (std::find(kKeys.begin(), kKeys.end(), item.key()) == kKeys.end())
        fail(key_named(item.key()), "is not a known key",
             "did you mean '" + nearest(item.key(), kKeys) + "'?");
  }

  [[noreturn]] void fail(const std::string& key, const std::string& what, const std::string& mend) const {
    throw ConfigError(file_, key.empty() ? "cluster" : "cluster." + key, what, mend);
  }

  // Text without control characters: a line break would end a directive or a command.
  std::string text(const json& v, const std::string& key) const {
    if (!v.is_string() && !v.is_number()) fail(key, "is " + v.dump() + ", not text", "put it in quotes");
    std::string s = v.is_string() ? v.get<std::string>() : v.dump();
    if (std::any_of(s.begin(), s.end(), [](unsigned char c) { return std::iscntrl(c); }))
      fail(key, "holds a control character", "keep it on one line");
    return s;
  }
  // Text for a directive. Schedulers agree on no quoting, and no shell reads it, so special characters are
  // refused.
  std::string plain(const json& v, const std::string& key, const char* forbidden = kNotPlain) const {
    std::string s = text(v, key);
    if (s.find_first_of(forbidden) != std::string::npos)
      fail(key, "is " + json(s).dump() + ", which a scheduler's directive cannot carry",
           "use no blanks, quotes or shell characters; split several options into several entries");
    return s;
  }
  std::string directive_word(const char* key, const char* forbidden = kNotPlain) const {
    return j_.contains(key) ? plain(j_[key], key, forbidden) : "";
  }
  std::string one_of(const char* key, const std::vector<std::string>& allowed) const {
    if (!j_.contains(key)) return allowed.front();
    std::string s = text(j_[key], key);
    if (std::find(allowed.begin(), allowed.end(), s) == allowed.end()) {
      std::string all;
      for (const std::string& a : allowed) all += (all.empty() ? "" : " or ") + a;
      fail(key, "is " + s, "use " + all);
    }
    return s;
  }
  std::vector<std::string> words(const json& v, const std::string& key, bool directive = false) const {
    if (!v.is_array()) fail(key, "is not a list", "write [one, two]");
    std::vector<std::string> out;
    for (const json& one : v) out.push_back(directive ? plain(one, key) : text(one, key));
    return out;
  }
  std::vector<std::string> list(const char* key, bool directive = false) const {
    return j_.contains(key) ? words(j_[key], key, directive) : std::vector<std::string>{};
  }
  double number(const char* key, double fallback, double low, double high) const {
    if (!j_.contains(key)) return fallback;
    const json& v = j_[key];
    if (!v.is_number() || !(v.get<double>() >= low && v.get<double>() <= high))
      fail(key, "is " + v.dump(), "give a number from " + json(low).dump() + " to " + json(high).dump());
    return v.get<double>();
  }
  int64_t whole(const char* key, int64_t fallback, int64_t low, int64_t high) const {
    if (j_.contains(key) && !j_[key].is_number_integer())
      fail(key, "is " + j_[key].dump(), "give a whole number");
    return static_cast<int64_t>(
        number(key, static_cast<double>(fallback), static_cast<double>(low), static_cast<double>(high)));
  }
  bool flag(const char* key, bool fallback = false) const {
    if (!j_.contains(key)) return fallback;
    if (!j_[key].is_boolean()) fail(key, "is " + j_[key].dump(), "give true or false");
    return j_[key].get<bool>();
  }

 private:
  const json& j_;
  const std::string& file_;
};

bool is_core_list(const std::string& s) {
  return !s.empty() && std::isdigit(static_cast<unsigned char>(s.front())) &&
         std::isdigit(static_cast<unsigned char>(s.back())) &&
         std::all_of(s.begin(), s.end(),
                     [](unsigned char c) { return std::isdigit(c) || c == '-' || c == ','; });
}

bool is_variable(const std::string& s) {
  return !s.empty() && !std::isdigit(static_cast<unsigned char>(s.front())) &&
         std::all_of(s.begin(), s.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

// Schedulers resolve double requests, each in its own way.
void refuse_contradictions(const ClusterSpec& c, const ClusterReader& in) {
  const auto refuse = [&](std::initializer_list<const char*> options, const std::string& why,
                          const std::string& mend) {
    for (const std::string& d : c.directives)
      for (const std::string option : options)
        if (d == option || d.starts_with(option + "=") || (option.size() == 2 && d.starts_with(option)) ||
            (option.starts_with("-l") && d.starts_with(option)))
          in.fail("directives", "holds " + d + why, mend);
  };
  if (c.scheduler == "slurm")
    refuse({"--time", "-t", "--nodes", "-N"}, ", and each job asks for its own",
           "leave it out; -t of the command or max_time_s bounds a job's time");
  else
    refuse({"-lwalltime", "-lselect", "-lplace"}, ", and each job asks for its own",
           "leave it out; -t of the command or max_time_s bounds a job's time");
  if (c.gpus_per_rank > 0)
    refuse({"--gres", "--gpus", "-G", "--gpus-per-node", "--gpus-per-task"}, ", and gpus_per_rank is given",
           "keep one of the two");
  if (c.memory_per_rank_gb > 0)
    refuse({"--mem", "--mem-per-cpu", "--mem-per-gpu"}, ", and memory_per_rank_gb is given",
           "keep one of the two");
  if (c.exclusive) return;
  refuse({"--exclusive", "--gres", "--gpus", "-G", "--gpus-per-node", "--mem"},
         ", the same of every node, and jobs on shared nodes ask for their part",
         "leave it out (directives: []), and give gpus_per_rank and memory_per_rank_gb");
  if (c.preflight)
    in.fail("preflight", "measures whole nodes, and with exclusive: false others run there",
            "leave one of them out");
  if (!c.cores.empty())
    in.fail("cores", "binds to cores of a whole node, and with exclusive: false the scheduler chooses them",
            "leave one of them out");
}

}  // namespace

ClusterSpec cluster_from_json(const json& j, const std::string& file) {
  const ClusterReader in(j, file);
  ClusterSpec c;
  c.file = file;
  c.scheduler = in.one_of("scheduler", {"slurm", "pbs"});
  c.start = c.scheduler == "slurm" ? in.one_of("start", {"srun", "openmpi", "pals"})
                                   : in.one_of("start", {"openmpi", "pals"});
  c.start_options = in.list("start_options");
  c.ranks_per_node = in.whole("ranks_per_node", 1, 1, 4096);
  c.cores_per_node = in.whole("cores_per_node", c.ranks_per_node, 1, 1 << 16);
  c.exclusive = in.flag("exclusive", true);
  c.gpus_per_rank = in.whole("gpus_per_rank", 0, 0, 64);
  c.memory_per_rank_gb = in.number("memory_per_rank_gb", 0, 0, 1e5);
  c.queue = in.directive_word("queue");
  c.account = in.directive_word("account");
  c.qos = in.directive_word("qos");
  c.constraint = in.directive_word("constraint", c.scheduler == "slurm" ? kNotInConstraint : kNotPlain);
  c.required = in.list("required");
  for (const std::string& key : c.required)
    if (std::find(kMayBeRequired.begin(), kMayBeRequired.end(), key) == kMayBeRequired.end())
      in.fail("required", "holds " + json(key).dump(), "name some of account, queue, qos and constraint");
  c.directives = in.list("directives", true);
  c.modules = in.list("modules");
  if (j.contains("preamble")) {
    if (!j["preamble"].is_array()) in.fail("preamble", "is not a list", "write [[source, /opt/env.sh]]");
    for (const json& one : j["preamble"]) {
      c.preamble.push_back(in.words(one, "preamble"));
      if (c.preamble.back().empty()) in.fail("preamble", "holds an empty command", "remove it");
    }
  }
  if (j.contains("environment")) {
    if (!j["environment"].is_object()) in.fail("environment", "is not a map", "write {OMP_NUM_THREADS: 1}");
    for (const auto& [name, value] : j["environment"].items()) {
      if (!is_variable(name))
        in.fail("environment." + name, "is no name of a variable", "e.g. OMP_NUM_THREADS");
      c.environment.emplace_back(name, in.text(value, "environment." + name));
    }
  }
  if (j.contains("cores")) {
    c.cores = in.list("cores");
    for (const std::string& s : c.cores)
      if (!is_core_list(s)) in.fail("cores", "holds " + json(s).dump(), "write cores like 4-7 or 0,2");
    if (static_cast<int64_t>(c.cores.size()) < c.ranks_per_node)
      in.fail("cores",
              "names the cores of " + std::to_string(c.cores.size()) + " ranks, and ranks_per_node is " +
                  std::to_string(c.ranks_per_node),
              "give one entry a rank of a node");
  }
  c.max_time_s = in.number("max_time_s", c.max_time_s, 10, 1e7);
  c.job_time_s = in.number("job_time_s", std::min(c.job_time_s, c.max_time_s), 1, c.max_time_s);
  c.min_time_s = in.number("min_time_s", c.min_time_s, 0, c.max_time_s);
  c.start_s = in.number("start_s", c.start_s, 0, 3600);
  c.max_jobs = in.whole("max_jobs", c.max_jobs, 1, 1000);
  c.retries = in.whole("retries", c.retries, 0, 100);
  c.poll_s = in.number("poll_s", c.poll_s, 0.2, 3600);
  c.fence_s = in.number("fence_s", c.fence_s, 2, 600);
  c.preflight = in.flag("preflight");
  c.spare_nodes = in.whole("spare_nodes", 0, 0, 1024);
  c.max_nodes = in.whole("max_nodes", 0, 0, 1 << 20);
  c.charge = in.number("charge", c.charge, 1e-6, 1e6);
  refuse_contradictions(c, in);
  return c;
}

ClusterSpec load_cluster(const std::string& file) {
  const json j = load_yaml(file);
  if (!j.contains("cluster"))
    throw ConfigError(
        file, "cluster", "is missing",
        "say how jobs are submitted there, e.g. cluster: {scheduler: slurm, ranks_per_node: 4}");
  return cluster_from_json(j["cluster"], file);
}

json to_json(const ClusterSpec& c) {
  json environment = json::object();
  for (const auto& [name, value] : c.environment) environment[name] = value;
  json j = {{"scheduler", c.scheduler},
            {"start", c.start},
            {"start_options", c.start_options},
            {"ranks_per_node", c.ranks_per_node},
            {"cores_per_node", c.cores_per_node},
            {"queue", c.queue},
            {"account", c.account},
            {"qos", c.qos},
            {"constraint", c.constraint},
            {"required", c.required},
            {"directives", c.directives},
            {"modules", c.modules},
            {"preamble", c.preamble},
            {"environment", environment},
            {"job_time_s", c.job_time_s},
            {"max_time_s", c.max_time_s},
            {"min_time_s", c.min_time_s},
            {"start_s", c.start_s},
            {"max_jobs", c.max_jobs},
            {"retries", c.retries},
            {"poll_s", c.poll_s},
            {"fence_s", c.fence_s},
            {"preflight", c.preflight},
            {"spare_nodes", c.spare_nodes},
            {"max_nodes", c.max_nodes},
            {"charge", c.charge},
            {"exclusive", c.exclusive},
            {"gpus_per_rank", c.gpus_per_rank},
            {"memory_per_rank_gb", c.memory_per_rank_gb}};
  if (!c.cores.empty()) j["cores"] = c.cores;
  return j;
}

void refuse_incomplete(const ClusterSpec& c) {
  for (const std::string& key : c.required) {
    const std::string& value = key == "account" ? c.account
                               : key == "queue" ? c.queue
                               : key == "qos"   ? c.qos
                                                : c.constraint;
    if (value.empty())
      throw ConfigError(c.file, "cluster." + key, "is missing: every user there has to give their own",
                        "give --machine a file of yours that says `inherits: " +
                            std::filesystem::absolute(c.file).string() + "` and `cluster: {" + key +
                            ": ...}`");
  }
}

const std::vector<std::string>& cluster_keys() {
  return kKeys;
}

}  // namespace isobar::cluster
