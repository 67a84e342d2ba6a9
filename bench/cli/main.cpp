#include <cstdio>

#include "bench/cli/commands.h"
#include "model/base/error.h"
#include "model/engine/arena.h"
#include "model/engine/trainer.h"

int main(int argc, char** argv) {
  using namespace isobar;
  CLI::App app(
      "Isobar: how should this model be laid out on this machine, and how fast will it train?\n"
      "Measure with a real training engine, fit a performance model to it, predict the runs you never made.");
  app.require_subcommand(1);
  app.footer(
      "A first result:   isobar train configs/models/vit-tiny.yaml\n"
      "The whole road:   bench/quickstart.sh\n"
      "Help on one:      isobar train --help");
  add_plan_command(app);
  add_train_command(app);
  add_calibrate_command(app);
  add_sweep_command(app);
  add_fit_command(app);
  add_predict_command(app);
  add_report_command(app);
  add_data_commands(app);
  add_doctor_command(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const ExitCode& e) {
    return e.code;
  } catch (const ConfigError& e) {
    std::fprintf(stderr, "isobar: %s\n", e.what());
    return 2;
  } catch (const NumericFailure& e) {
    std::fprintf(stderr, "isobar: %s\n", e.what());
    return 3;
  } catch (const OutOfMemory& e) {
    std::fprintf(stderr, "isobar: out of memory: %s\n", e.what());
    return 4;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "isobar: out of memory on the host\n");
    return 4;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "isobar: %s\n", e.what());
    return 1;
  }
}
