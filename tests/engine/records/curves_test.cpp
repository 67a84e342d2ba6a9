// run.tensorboard: events parsed by their format's rules equal the result file, and appear while the run is
// going.
#include <gtest/gtest.h>
#include <png.h>

#include <cmath>
#include <cstring>

#include "model/records/files/event_file.h"
#include "tests/engine/layouts.h"
#include "tests/engine/ocean.h"

namespace isobar::engine {
namespace {

struct Scalar {
  int64_t step;
  double value;
};

// tag -> values over all event files of a folder; checks the records' CRCs
std::map<std::string, std::vector<Scalar>> curves_in(const fs::path& folder, size_t* files = nullptr) {
  std::map<std::string, std::vector<Scalar>> out;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  if (files) *files = paths.size();
  for (const fs::path& path : paths) {
    EXPECT_NE(path.string().find("events.out.tfevents."), std::string::npos);
    const std::string all = text_of(path);
    for (size_t at = 0; at + 12 <= all.size();) {
      uint64_t length = 0;
      std::memcpy(&length, all.data() + at, 8);
      const std::string event = all.substr(at + 12, length);
      EXPECT_EQ(records::tf_record(event), all.substr(at, length + 16)) << path;
      at += length + 16;
      if (event.find("brain.Event:2") != std::string::npos || event.find("_hparams_/") != std::string::npos)
        continue;
      // wall_time: key and 8 bytes; step: key and varint; summary: key, length, value: key, length, tag,
      // number
      size_t i = 9;
      const auto varint = [&] {
        uint64_t v = 0;
        for (int shift = 0;; shift += 7) {
          const auto b = static_cast<unsigned char>(event.at(i++));
          v |= static_cast<uint64_t>(b & 127) << shift;
          if (b < 128) return v;
        }
      };
      EXPECT_EQ(event.at(i++), 0x10);
      const auto step = static_cast<int64_t>(varint());
      i += 1, varint(), i += 1, varint(), i += 1;
      const uint64_t n = varint();
      const std::string tag = event.substr(i, n);
      float value = 0;
      std::memcpy(&value, event.data() + i + n + 1, sizeof value);
      out[tag].push_back({step, value});
    }
  }
  return out;
}

struct Picture {
  int64_t width = 0, height = 0;
  std::vector<unsigned char> rgb;
};

// All PNGs of a folder's event files, in order
std::vector<Picture> pictures_in(const fs::path& folder) {
  std::vector<Picture> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string all = text_of(entry.path()), magic = "\x89PNG";
    for (size_t at = all.find(magic); at != std::string::npos; at = all.find(magic, at + 1)) {
      png_image image{};
      image.version = PNG_IMAGE_VERSION;
      EXPECT_TRUE(png_image_begin_read_from_memory(&image, all.data() + at, all.size() - at))
          << image.message;
      image.format = PNG_FORMAT_RGB;
      Picture p{image.width, image.height, std::vector<unsigned char>(PNG_IMAGE_SIZE(image))};
      EXPECT_TRUE(png_image_finish_read(&image, nullptr, p.rgb.data(), 0, nullptr)) << image.message;
      out.push_back(std::move(p));
    }
  }
  return out;
}

// Three panels of 40 x 56 points, four pixels each. Layouts in which ranks hold parts of the field, copies of
// it, or nothing draw the same image.
TEST(Curves, AnyLayoutDrawsTheSameFirstSampleOfTheValidation) {
  const Folder dir;
  const auto drawn = [&](const Words& layout, int64_t ranks, TestNet net = kVit) {
    const std::string out = dir / ("run" + std::to_string(ranks) + (layout.empty() ? "" : layout.back()));
    net.set.insert(net.set.end(), {"train.steps=2", "train.checkpoint_every=2", "train.valid_every=1",
                                   "data.train_fraction=0.75", "run.tensorboard=true"});
    trained_to(out, layout, ranks, 2, {}, net);
    return pictures_in(fs::path(out) / "tensorboard");
  };
  const std::vector<Picture> one = drawn({}, 1);
  ASSERT_EQ(one.size(), 3u);
  EXPECT_EQ(one[0].width, 56 * 4);
  EXPECT_EQ(one[0].height, 3 * 40 * 4 + 8);
  const auto panel = [](const Picture& p, int64_t which) {
    const auto begin = p.rgb.begin() + which * (40 * 4 + 4) * p.width * 3;
    return std::vector<unsigned char>(begin, begin + 40 * 4 * p.width * 3);
  };
  EXPECT_EQ(panel(one[0], 1), panel(one[2], 1)) << "what came is the same sample each time";
  EXPECT_NE(panel(one[0], 0), panel(one[2], 0));
  const auto brightness = [&](const Picture& p) {  // of the truth, which sets the colour range
    const std::vector<unsigned char> rgb = panel(p, 1);
    int least = 765, most = 0;
    for (size_t i = 0; i < rgb.size(); i += 3) {
      const int sum = rgb[i] + rgb[i + 1] + rgb[i + 2];
      least = std::min(least, sum), most = std::max(most, sum);
    }
    return std::pair(least, most);
  };
  EXPECT_EQ(brightness(one[0]), (std::pair(68 + 1 + 84, 253 + 231 + 37)));
  for (const auto& [layout, ranks] :
       {std::pair{Words{"layout.dp=2", "layout.tp=2"}, 4},
        {Words{"layout.cp=3"}, 3},
        {Words{"layout.pp=2"}, 2},
        {Words{"layout.tp=2", "policy.sequence_parallel=true", "policy.micro_batch=3"}, 2}}) {
    const std::vector<Picture> many = drawn(layout, ranks);
    ASSERT_EQ(many.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      ASSERT_EQ(many[i].rgb.size(), one[i].rgb.size());
      int off = 0;
      for (size_t k = 0; k < one[i].rgb.size(); ++k)
        off = std::max(off, std::abs(many[i].rgb[k] - one[i].rgb[k]));
      EXPECT_LE(off, 2) << layout.back();
    }
  }
  EXPECT_EQ(drawn({"layout.cp=2"}, 2, kAurora).size(), 3u);
  EXPECT_EQ(drawn({"policy.recompute=full"}, 1, kGraph).size(), 0u);
}

TEST(Curves, AreWhatTheResultFileSays) {
  const Folder dir;
  const TestNet net = masked(two_channels(TestNet{tiny(), {"net.img_height=16", "net.img_width=32"}}));
  const Words set = net.set + Words{"train.steps=4",           "train.global_batch=4",
                                    "run.tensorboard=true",    "train.checkpoint_every=2",
                                    "train.valid_every=2",     "run.threads=1",
                                    "run.out=" + (dir / "run")};
  const Ended e = Child(train_words(net.config, set)).wait();
  ASSERT_EQ(e.code, 0) << e.text;
  const WrittenRun run = read_run(dir / "run");
  auto curves = curves_in(dir / "run/tensorboard");
  ASSERT_EQ(curves["Loss/train"].size(), 4u);
  for (const Scalar& s : curves["Loss/train"])
    EXPECT_EQ(static_cast<float>(s.value), static_cast<float>(run.losses.at(s.step)));
  for (const char* tag : {"Learning Rate", "Avg iters per sec", "Avg samples per sec", "Gradient norm"}) {
    ASSERT_EQ(curves[tag].size(), 4u) << tag;
    for (const Scalar& s : curves[tag]) EXPECT_GE(s.value, 0) << tag;
  }
  size_t valid = 0;
  for (const json& j : run.events) {
    if (j["event"] != "valid") continue;
    EXPECT_EQ(curves["Loss/valid"].at(valid).step, j["step"]);
    EXPECT_EQ(static_cast<float>(curves["Loss/valid"].at(valid).value), j["loss"].get<float>());
    ++valid;
  }
  EXPECT_EQ(valid, 3u);  // before the first step, then every second one
  for (const char* tag : {"Loss/valid", "RMSE(v00)/valid", "RMSE(v01)/valid"})
    EXPECT_EQ(curves[tag].size(), valid) << tag;
  // A resumed run continues the same curves.
  const Ended more =
      Child(train_words(net.config, set + Words{"train.steps=6"}, {"--resume", dir / "run"})).wait();
  ASSERT_EQ(more.code, 0) << more.text;
  curves = curves_in(dir / "run/tensorboard");
  ASSERT_EQ(curves["Loss/train"].size(), 6u);
  EXPECT_EQ(curves["Loss/train"].back().step, 6);
}

TEST(Curves, AreThereWhileTheRunGoesAndNowhereUnlessAskedFor) {
  const Folder dir;
  {
    Child child(
        train_words(tiny(), {"train.steps=1000000", "run.tensorboard=true", "run.out=" + (dir / "run")}));
    ASSERT_TRUE(reached(child, dir / "run", 3));
    EXPECT_GE(curves_in(dir / "run/tensorboard")["Loss/train"].size(), 2u);
    EXPECT_FALSE(child.over());
    ::kill(child.pid(), SIGTERM);
    child.wait(kQuickly);
  }
  ASSERT_EQ(train_command({"train.steps=1", "run.out=" + (dir / "quiet")}).code, 0);
  EXPECT_FALSE(fs::exists(dir / "quiet/tensorboard"));
  const Ended nowhere = train_command({"train.steps=1", "run.tensorboard=true", "run.out="});
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_NE(nowhere.text.find("run.tensorboard"), std::string::npos) << nowhere.text;
}

}  // namespace
}  // namespace isobar::engine
