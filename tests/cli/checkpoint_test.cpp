// Checkpoint sizes and times predicted by `isobar predict`, against checkpoints that a run wrote.
#include <algorithm>
#include <cmath>

#include "tests/engine/command.h"
#include "tests/paths.h"

namespace isobar::cli {
namespace {

json predicted(const Words& run, const std::string& machine) {
  Words words = {command(), "predict", tiny(), "--machine", machine, "--json"};
  words.insert(words.end(), run.begin(), run.end());
  const Ended e = Child(words).wait();
  EXPECT_EQ(e.code, 0) << e.text;
  return json::parse(e.text).at("checkpoint");
}

TEST(Checkpoints, HaveTheBytesThatWerePredictedAndAFitComesNearerToTheirSeconds) {
  const Folder folder;
  const std::string machine = source_dir() + "/configs/machines/example-2core.yaml";
  for (const auto& [ranks, optimizer] : {std::pair{"1", "adam"}, {"2", "sgd"}}) {
    const Words run = {"--ranks", ranks,          "--set", std::string("train.optimizer=") + optimizer,
                       "--set",   "run.threads=1"};
    const std::string out = folder / (std::string("run-") + ranks);
    Words words = {command(), "train", tiny()};
    words.insert(words.end(), run.begin(), run.end());
    for (const std::string& s : {std::string("train.steps=8"), std::string("train.checkpoint_every=2"),
                                 std::string("run.hang_timeout=60"), "run.out=" + out})
      words.insert(words.end(), {"--set", s});
    const Ended trained = Child(words).wait();
    ASSERT_EQ(trained.code, 0) << trained.text;

    std::vector<double> seconds;
    for (const json& event : read_run(out).events)
      if (event["event"] == "checkpoint") {
        seconds.push_back(event["seconds"]);
        double bytes = 0;
        for (const char* file : {"model.safetensors", "optimizer.safetensors"})
          bytes += static_cast<double>(fs::file_size(fs::path(event["path"].get<std::string>()) / file));
        const double said = predicted(run, machine)["bytes"];
        EXPECT_GT(bytes, said);               // the files have headers ...
        EXPECT_LT(bytes, 1.02 * said + 2e4);  // ... and nothing else
      }
    ASSERT_EQ(seconds.size(), 4u);
    std::sort(seconds.begin(), seconds.end());
    const double median = 0.5 * (seconds[1] + seconds[2]);

    const std::string fitted = folder / "fitted.yaml";
    const Ended fit = Child({command(), "fit", out, "--machine", machine, "-o", fitted}).wait();
    ASSERT_EQ(fit.code, 0) << fit.text;
    EXPECT_NE(fit.text.find("write.commit"), std::string::npos) << fit.text;
    const auto off = [&](const json& c) { return std::abs(std::log(c["seconds"].get<double>() / median)); };
    const json before = predicted(run, machine), after = predicted(run, fitted);
    // The fit must come nearer, unless the prediction was near by chance. Disks are shared, so times scatter.
    EXPECT_LT(off(after), std::max(0.7, 0.95 * off(before))) << median << " " << before << " " << after;
    EXPECT_LT(after["lower_s"], after["seconds"]);
    EXPECT_GT(after["upper_s"], after["seconds"]);
  }
}

}  // namespace
}  // namespace isobar::cli
