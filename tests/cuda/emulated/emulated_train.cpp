// `isobar train` on emulated GPUs, one a rank: the product's command, training loop, executor and NCCL calls,
// over the emulator's runtime and emulated_nccl.cpp's libnccl.so.2 (first in LD_LIBRARY_PATH).
//
//   mpiexec -n 2 test_emulated_train train CONFIG --set run.device=cuda
#include <cstdio>

#include "bench/cli/commands.h"
#include "bench/cli/train/submit_train.h"
#include "model/base/error.h"

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  CLI::App app("isobar train on an emulated GPU");
  app.require_subcommand(1);
  isobar::cli::add_train_command(app, [](const isobar::cli::SubmittedTraining&) -> int {
    throw isobar::ConfigError("--launcher", "", "is not for emulated GPUs", "leave it out");
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const isobar::cli::ExitCode& e) {
    return e.code;
  } catch (const isobar::ConfigError& e) {
    std::fprintf(stderr, "isobar: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "isobar: %s\n", e.what());
    return 1;
  }
  return 0;
}
