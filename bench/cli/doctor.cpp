#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "bench/cli/commands.h"
#include "model/backend/cpu/kernels.h"
#include "model/engine/host.h"
#ifdef ISOBAR_WITH_CUDA
#include "model/backend/cuda/runtime/device.h"
#include "model/backend/cuda/runtime/requirements.h"
#endif

namespace isobar {
namespace {

struct Check {
  std::string name, found, mend;
  bool ok, required;
};

std::string on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream in(path ? path : "");
  for (std::string dir; std::getline(in, dir, ':');) {
    std::string file = std::filesystem::path(dir) / program;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

// A small product that must come out right: the library runs on this CPU.
bool matrix_product_works() {
  const float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8};
  alignas(64) float c[4] = {0, 0, 0, 0};
  cpu::gemm({2, 2, 2, false, false, DType::f32, DType::f32, DType::f32, false, false}, a, b, nullptr, c);
  return c[0] == 19 && c[1] == 22 && c[2] == 43 && c[3] == 50;
}

#ifdef ISOBAR_WITH_CUDA

void add_gpu(std::vector<Check>& out) {
  const cuda::Devices found = cuda::find_devices();
  std::string names;
  for (const cuda::Device& d : found.all)
    names += (names.empty() ? "" : ", ") + d.name + " (" + std::to_string(d.memory >> 30) + " GiB)";
  out.push_back({"GPU", names.empty() ? found.why_none : names, "without one, runs compute on the CPU",
                 !found.all.empty(), false});
  for (const cuda::LibraryFound& l : cuda::find_libraries())
    out.push_back(
        {l.file, l.ok() ? l.version : l.problem, "on a GPU it is needed for " + l.use, l.ok(), false});
}

#else

void add_gpu(std::vector<Check>& out) {
  const bool driver = std::filesystem::exists("/proc/driver/nvidia/version");
  out.push_back({"NVIDIA driver", driver ? "present" : "none", "not needed: this build computes on the CPU",
                 driver, false});
}

#endif

std::vector<Check> checks() {
  std::vector<Check> out;
  const nlohmann::json p = provenance();
  out.push_back({"processor", cpu_name() + ", " + std::to_string(cores()) + " cores", "", true, true});
  const long pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGE_SIZE);
  char memory[32];
  std::snprintf(memory, sizeof memory, "%.1f GiB",
                static_cast<double>(pages) * static_cast<double>(size) / (1 << 30));
  out.push_back({"memory", memory, "", true, true});
  const bool product = matrix_product_works();
  out.push_back(
      {"oneDNN",
       p["onednn"].get<std::string>() + (product ? ", a product comes out right" : ", wrong product"),
       "apt-get install libdnnl-dev", product, true});
  const std::string bf16 = p["bf16_mode"];
  out.push_back({"bf16", bf16, "emulated means correct, not fast: the CPU has no AMX or AVX512_BF16",
                 bf16 != "emulated", false});
  for (const char* type : {"f16", "tf32"}) {
    const std::string mode = p[std::string(type) + "_mode"];
    out.push_back({type, mode, "emulated means correct, not fast: this build has no such products on CPUs",
                   mode != "emulated", false});
  }
  const std::string mpiexec = on_path("mpiexec");
  out.push_back({"MPI", p["mpi"].get<std::string>() + (mpiexec.empty() ? ", no mpiexec" : ", " + mpiexec),
                 "apt-get install openmpi-bin libopenmpi-dev", !mpiexec.empty(), true});
  const std::filesystem::path temp = std::filesystem::temp_directory_path();
  const bool writable = ::access(temp.c_str(), W_OK) == 0;
  out.push_back(
      {"temporary files", temp.string(), "set TMPDIR to a directory that can be written", writable, true});
  const bool charts = std::filesystem::exists(".venv-reports/bin/python");
  out.push_back({"charts (vl-convert)", charts ? ".venv-reports" : "no .venv-reports here",
                 "bench/setup.sh; without it reports have tables and data but no pictures", charts, false});
  add_gpu(out);
  const std::string slurm = on_path("sbatch"), pbs = on_path("qsub");
  out.push_back({"scheduler",
                 !slurm.empty() ? slurm
                 : !pbs.empty() ? pbs
                                : "none",
                 "not needed: sweeps run on this machine", !slurm.empty() || !pbs.empty(), false});
  return out;
}

void run_doctor(bool json) {
  const auto list = checks();
  bool healthy = true;
  nlohmann::json j = nlohmann::json::array();
  for (const Check& c : list) {
    healthy = healthy && (c.ok || !c.required);
    j.push_back(
        {{"part", c.name}, {"ok", c.ok}, {"required", c.required}, {"found", c.found}, {"mend", c.mend}});
    if (json) continue;
    std::printf("%-8s %-20s %s\n",
                c.ok         ? "ok"
                : c.required ? "FAILED"
                             : "absent",
                c.name.c_str(), c.found.c_str());
    if (!c.ok && !c.mend.empty()) std::printf("         %-20s -> %s\n", "", c.mend.c_str());
  }
  if (json)
    std::cout << nlohmann::json{{"healthy", healthy}, {"checks", j}}.dump(1) << "\n";
  else
    std::printf("%s\n", healthy ? "All required parts work; what is absent is optional."
                                : "A required part does not work.");
  if (!healthy) throw ExitCode{1};
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* c = app.add_subcommand("doctor", "What this machine has, what is missing and how to get it");
  c->add_flag("--json", *json, "As JSON");
  c->footer("Exit code 1 when a required part does not work.");
  c->callback([json] { run_doctor(*json); });
}

}  // namespace isobar
