// Inputs that a user may name: no file at all, a file that never ends, a text that grows when it is read.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "model/base/error.h"
#include "model/base/spec/spec.h"
#include "model/base/system/child.h"
#include "model/base/system/files.h"
#include "model/base/system/shared_files.h"
#include "model/base/text/json.h"
#include "model/base/text/yaml.h"

namespace isobar {
namespace {

namespace fs = std::filesystem;

template <class F>
std::string refusal_of(F f) {
  try {
    f();
  } catch (const ConfigError& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find(" -> "), std::string::npos) << "says no mend: " << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

class Input : public testing::Test {
 protected:
  Input() : dir_(fs::temp_directory_path() / ("isobar-input-" + std::to_string(::getpid()))) {
    fs::create_directories(dir_);
  }
  ~Input() override { fs::remove_all(dir_); }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ / name, std::ios::binary) << text;
    return dir_ / name;
  }
  fs::path dir_;
};

TEST_F(Input, OnlyRegularFilesAreRead) {
  const std::string pipe = dir_ / "pipe", socket_at = dir_ / "socket", circle = dir_ / "circle";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int s = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(socket_at.size(), sizeof address.sun_path);
  socket_at.copy(address.sun_path, socket_at.size());
  ASSERT_EQ(::bind(s, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  fs::create_symlink(circle, circle);
  fs::create_symlink("/dev/zero", dir_ / "zero");
  const std::pair<std::string, std::string> cases[] = {{pipe, "is a pipe"},
                                                       {socket_at, "is a socket"},
                                                       {"/dev/zero", "is a device"},
                                                       {dir_ / "zero", "is a device"},
                                                       {dir_, "is a directory"},
                                                       {circle, "symbolic links"},
                                                       {dir_ / "absent", "No such file"}};
  for (const auto& [path, what] : cases) {
    const std::string said = refusal_of([&, &path = path] { read_file(path); });
    EXPECT_TRUE(said.starts_with(path + ": ")) << said;
    EXPECT_HAS(said, what);
    EXPECT_HAS(refusal_of([&, &path = path] { load_run_spec(path); }), what);
  }
  ::close(s);
  EXPECT_NE(read_file("/proc/self/status").find("VmRSS"), std::string::npos);  // its length is said to be 0
}

TEST_F(Input, WhatMayNotBeReadSaysSo) {
  const std::string secret = file("secret.yaml", "net: {depth: 2}");
  fs::permissions(secret, fs::perms::none);
  fs::permissions(dir_, fs::perms::all);
  const uid_t me = ::geteuid();
  if (me == 0) EXPECT_EQ(::seteuid(65534), 0);  // root may read everything
  const std::string said = refusal_of([&] { read_file(secret); });
  if (me == 0) EXPECT_EQ(::seteuid(0), 0);
  EXPECT_HAS(said, "Permission denied");
  EXPECT_HAS(said, "-> check the permissions");
}

TEST_F(Input, FilesHaveALongestLength) {
  const std::string long_one = file("long.yaml", "");
  ASSERT_EQ(::truncate(long_one.c_str(), off_t{1} << 40), 0);  // sparse
  EXPECT_HAS(refusal_of([&] { load_yaml(long_one); }), "is longer than the 4 MiB");
  EXPECT_HAS(refusal_of([&] { read_file(long_one); }), "is longer than the 1024 MiB");
}

TEST_F(Input, AliasesOfAliasesAreCounted) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string before = "*a" + std::to_string(i - 1), name = "a" + std::to_string(i);
    bomb += name + ": &" + name + " [" + before;
    for (int k = 1; k < 10; ++k) bomb += ", " + before;
    bomb += "]\n";
  }
  EXPECT_LT(bomb.size(), 600u);  // a thousand million values
  const std::string path = file("bomb.yaml", bomb);
  EXPECT_HAS(refusal_of([&] { load_run_spec(path); }), "aliases");
  EXPECT_HAS(refusal_of([&] { parse_yaml("&a [*a, *a]", "self.yaml"); }), "self.yaml");
  std::string wide = "a: &a \"" + std::string(1 << 20, 'x') + "\"\nb: [*a";
  for (int i = 0; i < 100; ++i) wide += ", *a";
  EXPECT_HAS(refusal_of([&] { parse_yaml(wide + "]", "wide.yaml"); }), "64 MiB");
  EXPECT_HAS(refusal_of([&] { parse_yaml(std::string(300, 'k') + ": 1", "key.yaml"); }), "256 bytes");
  EXPECT_EQ(parse_yaml("a: &a [1, 2]\nb: *a", "good.yaml")["b"], nlohmann::json({1, 2}));
}

TEST_F(Input, ALongChainOfFilesIsNoCircle) {
  for (int i = 0; i < 40; ++i)
    file("f" + std::to_string(i) + ".yaml", "inherits: f" + std::to_string(i + 1) + ".yaml\n");
  file("f40.yaml", "net: {depth: 2}\n");
  const std::string said = refusal_of([&] { load_yaml(dir_ / "f0.yaml"); });
  EXPECT_EQ(said.find("circle"), std::string::npos) << said;
  EXPECT_HAS(said, "chain of more than 16 files");
  EXPECT_EQ(load_yaml(dir_ / "f25.yaml")["net"]["depth"], 2);
  file("f40.yaml", "inherits: ./f39.yaml\n");  // under another name
  const std::string circle = refusal_of([&] { load_yaml(dir_ / "f38.yaml"); });
  EXPECT_HAS(circle, "in a circle: ");
  EXPECT_HAS(circle, "f39.yaml");
  ASSERT_EQ(::mkfifo((dir_ / "pipe.yaml").c_str(), 0600), 0);
  EXPECT_HAS(refusal_of([&] { load_yaml(file("g.yaml", "inherits: pipe.yaml\n")); }), "is a pipe");
}

TEST_F(Input, AMessageIsOneLineThatCanBeShown) {
  const std::string said = refusal_of([&] { parse_yaml("\"a\\nb\": 1\n\"a\\nb\": 2\n", "two\nlines.yaml"); });
  EXPECT_HAS(said, "two\\nlines.yaml: 'a\\nb': is given twice");
  EXPECT_EQ(showable("tab\tend\r"), "tab\\tend\\x0d");
  EXPECT_EQ(showable("caf\xc3\xa9 \xe6\x97\xa5"), "caf\xc3\xa9 \xe6\x97\xa5");
  EXPECT_EQ(showable("\xe9"), "\\xe9");                    // Latin-1
  EXPECT_EQ(showable("\xc2\x9b"), "\\xc2\\x9b");           // CSI: a terminal obeys it
  EXPECT_EQ(showable("\xe2\x80\xa8"), "\\xe2\\x80\\xa8");  // a line end of Unicode
  EXPECT_EQ(showable("\xe2\x80\xae"), "\\xe2\\x80\\xae");  // right to left
  EXPECT_EQ(showable("\xc0\x8a"), "\\xc0\\x8a");           // a line end in two bytes is no UTF-8
  EXPECT_LT(std::string(ConfigError("f", "k", std::string(1 << 20, 'x'), "m").what()).size(), 3000u);
}

TEST_F(Input, JsonOfAnyDepthAndSizeIsRefused) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_TRUE(parse_json(deep).is_discarded());
  EXPECT_HAS(refusal_of([&] { read_json(file("deep.json", deep)); }), "64 levels deep");
  std::string many = "[";
  for (int i = 0; i < 4'100'000; ++i) many += "{},";
  EXPECT_HAS(refusal_of([&] { read_json(file("many.json", many + "0]")); }), "4000000 values");
  EXPECT_TRUE(read_json(file("torn.json", "{\"a\": ")).is_discarded());
  EXPECT_EQ(parse_json(R"({"a\"[[": [1, "]"]})")["a\"[["][1], "]");
}

// Files that other processes write, replace and remove meanwhile.
TEST_F(Input, WhatIsNotThereReadsAsNothing) {
  const fs::path none = fs::path(file("a", "x")).parent_path() / "none";
  EXPECT_EQ(read_if_there(none), std::nullopt);
  EXPECT_TRUE(json_if_there(none).is_discarded());
  EXPECT_EQ(word_in(none), "");
  EXPECT_EQ(read_end(none, 10), "");
  EXPECT_EQ(word_in(file("a", "\n  one two\n")), "one");
  EXPECT_EQ(word_in(file("a", " \n")), "");
  bool whole = false;
  EXPECT_EQ(read_end(file("a", "0123456789"), 10, &whole), "0123456789");
  EXPECT_TRUE(whole);
  EXPECT_EQ(read_end(file("a", "0123456789"), 4, &whole), "6789");
  EXPECT_FALSE(whole);
  EXPECT_EQ(json_if_there(file("a", "{\"b\": 1}"))["b"], 1);
  ASSERT_EQ(::mkfifo(none.c_str(), 0600), 0);  // must not wait for a writer
  EXPECT_HAS(refusal_of([&] { word_in(none); }), "is a pipe");
  EXPECT_HAS(refusal_of([&] { json_if_there(none); }), "is a pipe");
  EXPECT_HAS(refusal_of([&] { read_end(none, 10); }), "is a pipe");
}

TEST_F(Input, AShapeNamesThePlaceThatLacksIt) {
  const nlohmann::json j = nlohmann::json::parse(R"({"a": {"b": 1.5, "c": "x"}, "d": [2]})");
  require_shape(j, "f", {{"/a", "object"}, {"/a/b", "number"}, {"/a/c", "string"}, {"/d/0", "integer"}},
                "mend");
  require_shape(j, "f", {{"/a/none?", "string"}}, "mend");
  EXPECT_EQ(refusal_of([&] {
              require_shape(j, "f", {{"/a/b", "integer"}}, "mend");
            }),
            "f: 'a/b': is no integer -> mend");
  EXPECT_EQ(refusal_of([&] {
              require_shape(j, "f", {{"/a/c/e", "string"}}, "mend");
            }),
            "f: 'a/c/e': is not there -> mend");
  EXPECT_HAS(refusal_of([&] { require_shape(7, "f", {{"/a", "string"}}, "mend"); }), "f: ");
  EXPECT_HAS(refusal_of([&] { require_shape(nlohmann::json::value_t::discarded, "f", {}, "mend"); }), "f: ");
}

TEST_F(Input, WhatAParserPassesOverIsRefused) {
  const auto refused = [](const std::string& text) {
    return refusal_of([&] { parse_yaml(text, "f.yaml"); });
  };
  EXPECT_HAS(refused("net: {kind: vit}\n---\nnet: {kind: mlp}\n"), "another document");
  EXPECT_HAS(refused("--- \n...\n---\na: 1\n"), "another document");
  EXPECT_HAS(refused(", 482 GF\na: 1\n"), "another document");  // at which the parser stands still
  EXPECT_HAS(refused("%%%%%%\n"), "line 1");
  EXPECT_HAS(refused("# a comment\n\n%include other.yaml\na: 1\n"), "line 3");
  EXPECT_HAS(refused("a: !include other.yaml\n"), "the tag !include");
  EXPECT_HAS(refused("a: {b: !!python/object:os.system ls}\n"), "'a.b'");
  EXPECT_EQ(parse_yaml("%YAML 1.2\n---\na: 1\n", "f")["a"], 1);
  EXPECT_EQ(parse_yaml("---\na: 1\n---\n", "f")["a"], 1);  // behind which nothing comes
  EXPECT_EQ(parse_yaml("a: !!str 12\nb: !!int 12\n", "f"), (nlohmann::json{{"a", "12"}, {"b", 12}}));
  EXPECT_TRUE(parse_yaml("", "f").is_null());
}

// A value is what was typed: YAML would take some of it for a comment, a map, an anchor or a tag.
TEST_F(Input, AnOverrideIsTakenAsTyped) {
  const auto value = [](const std::string& typed) {
    nlohmann::json j;
    apply_override(j, "run.out=" + typed);
    return j["run"]["out"];
  };
  for (const std::string text :
       {"runs/run #2", "#1",    "a: b",       "&a",   "*a",   "!a",
        "!include x",  "%a",    "%%%",        "it's", "a\"b", "- a",
        "|",           ">",     "@a",         "`a`",  "? a",  "a]",
        "a}",          "a,b",   "---",        "yes",  "no",   "on",
        "0x10",        "1_000", "1e999",      ".inf", "nan",  "\xc3\xbc \xe6\x97\xa5",
        "a\\nb",       "C:\\x", "2019-03-01", "12:30"})
    EXPECT_EQ(value(text), text);
  EXPECT_EQ(value("  a b  "), "a b");
  EXPECT_EQ(value("\"  a #b \""), "  a #b ");
  EXPECT_EQ(value("'it''s'"), "it's");
  for (const std::string none : {"", "~", "null", "None", " "}) EXPECT_TRUE(value(none).is_null()) << none;
  EXPECT_EQ(value("true"), true);
  EXPECT_EQ(value(" 12 "), 12);
  EXPECT_EQ(value("1e-3"), 1e-3);
  EXPECT_EQ(value("[1, a b, \"#c\"]"), (nlohmann::json{1, "a b", "#c"}));
  EXPECT_EQ(value("{a: 1}"), (nlohmann::json{{"a", 1}}));
  EXPECT_HAS(refusal_of([&] { value("[1, 2] # two"); }), "--set run.out");
  EXPECT_HAS(refusal_of([&] { value("\"a\" #b"); }), "begins a comment");
  EXPECT_HAS(refusal_of([&] { value("[1, 2"); }), "--set run.out");
  EXPECT_HAS(refusal_of([&] { value("a\xff"); }), "no UTF-8");
}

TEST_F(Input, NumbersThatNoRunCanHave) {
  const std::string config = file("run.yaml", "net: {kind: vit}\n");
  for (const std::string set :
       {"train.lr=1e-320", "train.lr=1e308", "train.adam_eps=1e-60", "train.weight_decay=1e-310",
        "net.norm_eps=1e-320", "train.grad_clip=1e39", "train.steps=1152921504606846976",
        "train.warmup=9223372036854775807", "data.dt=1152921504606846976", "policy.bucket_mb=1e308"}) {
    const std::string key = set.substr(0, set.find('='));
    EXPECT_HAS(refusal_of([&] { load_run_spec(config, {set}); }), "'" + key + "'");
  }
  EXPECT_EQ(load_run_spec(config, {"train.seed=9223372036854775807"})->train.seed, INT64_MAX);
}

TEST_F(Input, OverridesHaveADepth) {
  std::string key = "a";
  for (int i = 0; i < 100; ++i) key += ".a";
  nlohmann::json j;
  EXPECT_HAS(refusal_of([&] { apply_override(j, key + "=1"); }), "too many parts");
}

TEST(Child, HandsBackWhatItsWorkReturnsOrThrows) {
  std::vector<int64_t> seen;
  const auto work = [](const ChildProgress& done) {
    for (int i = 0; i < 3; ++i) done(i);
    return std::string(1 << 20, 'x') + '\0' + "end";
  };
  EXPECT_EQ(in_child({}, work, [&](int64_t n) { seen.push_back(n); }),
            std::string(1 << 20, 'x') + '\0' + "end");
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 1, 2}));
  const auto refuse = [](const ChildProgress&) -> std::string {
    throw ConfigError("f", "k", "what", "mend");
  };
  EXPECT_EQ(refusal_of([&] { in_child({}, refuse); }), "f: 'k': what -> mend");
  const auto fail = [](const ChildProgress&) -> std::string { throw std::logic_error("odd"); };
  EXPECT_THROW(in_child({}, fail), std::runtime_error);
}

TEST(Child, DiesAlone) {
  const auto death = [](const ChildLimits& limits, const std::function<void(const ChildProgress&)>& work) {
    try {
      in_child(limits, [&](const ChildProgress& done) -> std::string {
        work(done);
        return "";
      });
    } catch (const ChildDied& e) {
      return std::string(e.what());
    }
    return std::string("lived");
  };
  EXPECT_HAS(death({}, [](const ChildProgress&) { std::raise(SIGSEGV); }), "SIGSEGV");
  EXPECT_HAS(death({}, [](const ChildProgress&) { std::abort(); }), "SIGABRT");
  EXPECT_HAS(death({}, [](const ChildProgress&) { ::_exit(7); }), "exit code 7");
  const ChildLimits brief{.cpu_s = 1};
  const auto spin = [](double seconds) {
    for (const std::clock_t begin = std::clock(); std::clock() - begin < seconds * CLOCKS_PER_SEC;) {
    }
  };
  EXPECT_HAS(death(brief, [&](const ChildProgress&) { spin(60); }), "more than 1 s of processor time");
  // More in all than a stretch may take: who gets on is given more. What is left of each is for a parent that
  // has to wait for a core before it hears of that.
  const ChildLimits longer{.cpu_s = 5};
  EXPECT_EQ(death(longer,
                  [&](const ChildProgress& done) {
                    for (int i = 0; i < 8; ++i) spin(0.8), done(i);
                  }),
            "lived");
  EXPECT_HAS(death({.wall_s = 1}, [](const ChildProgress&) { ::sleep(60); }), "did not get on for 1 s");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they hold all of the address space
  EXPECT_HAS(death({.memory_bytes = 256 << 20},
                   [](const ChildProgress&) { std::vector<char> all(size_t{1} << 30, 'x'); }),
             "more than 256 MiB of memory");
#endif
}

}  // namespace
}  // namespace isobar
