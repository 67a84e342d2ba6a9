// Aurora on an archive made by `isobar data make-archive`: 4 surface and 5 upper-air variables on 13 levels,
// 2 static ones, in two files. Its loss falls, and `isobar verify` scores it by lead time.
#include <gtest/gtest.h>

#include "tests/engine/command.h"
#include "tests/paths.h"

namespace isobar::engine {
namespace {

// The smallest shipped aurora on a global grid of 16 x 32 points
Words on_archive(const Folder& dir) {
  return {"data.train=" + (dir / "archive/single.nc") + "," + (dir / "archive/levels.nc"),
          "data.train_fraction=0.8",
          "data.variables=[t2m, u10, v10, msl, z, u, v, t, q]",
          "data.static_fields=[lsm, orography]",
          "net.surf_vars=[t2m, u10, v10, msl]",
          "net.atmos_vars=[z, u, v, t, q]",
          "net.static_vars=[lsm, orography]",
          "net.levels=[50, 100, 150, 200, 250, 300, 400, 500, 600, 700, 850, 925, 1000]",
          "net.img_height=16",
          "net.img_width=32",
          "net.window=[2, 4, 6]",
          "net.in_channels=140",
          "net.out_channels=69",
          "net.patch_size=4",
          "net.north=84.375",
          "net.west=0",
          "net.spacing=11.25",
          "net.embed_dim=32",
          "net.encoder_depths=[1, 1]",
          "net.encoder_num_heads=[2, 4]",
          "net.decoder_depths=[1, 1]",
          "train.loss=mae",
          "train.variable_weights=[]",
          "train.level_weights=pressure",
          "train.loss_weighting=aurora",
          "train.latitude_weights=true",
          "train.lr=5e-3",
          "train.warmup=20",
          "train.global_batch=4",
          "train.steps=200",
          "train.valid_every=200",
          "train.checkpoint_every=200",
          "run.threads=1",
          "run.out=" + (dir / "run")};
}

TEST(AuroraArchive, ItsForecastsOfMostVariablesAndLevelsBeatClimatology) {
  const Folder dir;
  const Ended made = Child({command(), "data", "make-archive", dir / "archive", "--steps", "160", "--height",
                            "16", "--width", "32"})
                         .wait();
  ASSERT_EQ(made.code, 0) << made.text;
  const Ended trained =
      Child(train_words(source_dir() + "/configs/models/aurora-tiny.yaml", on_archive(dir))).wait();
  ASSERT_EQ(trained.code, 0) << trained.text;
  const WrittenRun log = read_run(dir / "run");
  EXPECT_LT(log.losses.rbegin()->second, 0.4 * log.losses.begin()->second) << "the loss falls";

  const Ended verified =
      Child({command(), "verify", dir / "run", "--steps", "2", "--threads", "1", "--json"}).wait();
  ASSERT_EQ(verified.code, 0) << verified.text;
  const json leads = json::parse(verified.text.substr(verified.text.find('{'))).at("leads");
  ASSERT_EQ(leads.size(), 2u);
  for (size_t k = 0; k < leads.size(); ++k) {
    const json& targets = leads[k].at("targets");
    EXPECT_EQ(leads[k].at("hours"), 6.0 * static_cast<double>(k + 1));
    ASSERT_EQ(targets.size(), 69u);
    size_t better = 0;
    for (const json& t : targets)
      better += t.at("net").at("rmse").get<double>() < t.at("climatology").at("rmse").get<double>() ? 1 : 0;
    EXPECT_GT(better, 35u) << leads[k].at("hours");
    std::printf("%.0f h ahead: %zu of 69 better than climatology\n", leads[k].at("hours").get<double>(),
                better);
  }
}

}  // namespace
}  // namespace isobar::engine
