#include "model/records/run_class.h"

#include <utility>

namespace isobar::records {
namespace {

constexpr std::pair<RunClass, const char*> kNames[] = {{RunClass::ok, "ok"},
                                                       {RunClass::bad_config, "bad_config"},
                                                       {RunClass::oom_host, "oom_host"},
                                                       {RunClass::oom_device, "oom_device"},
                                                       {RunClass::timeout, "timeout"},
                                                       {RunClass::hang, "hang"},
                                                       {RunClass::crash, "crash"},
                                                       {RunClass::assertion, "assertion"},
                                                       {RunClass::numeric, "numeric"},
                                                       {RunClass::wrong_result, "wrong_result"},
                                                       {RunClass::noisy, "noisy"},
                                                       {RunClass::implausible, "implausible"},
                                                       {RunClass::node_fail, "node_fail"},
                                                       {RunClass::preempted, "preempted"},
                                                       {RunClass::launch_fail, "launch_fail"},
                                                       {RunClass::interrupted, "interrupted"}};

}  // namespace

const char* name_of(RunClass c) {
  for (const auto& [value, name] : kNames)
    if (value == c) return name;
  return "?";
}

std::optional<RunClass> run_class(const std::string& name) {
  for (const auto& [value, known] : kNames)
    if (name == known) return value;
  return std::nullopt;
}

bool is_final(RunClass c) {
  return c != RunClass::launch_fail && c != RunClass::interrupted && c != RunClass::node_fail &&
         c != RunClass::preempted;
}

}  // namespace isobar::records
