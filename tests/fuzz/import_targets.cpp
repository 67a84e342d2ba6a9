// Checkpoints of PyTorch: the whole archive, where checksums find nearly every change, and a mutated pickle
// in an intact archive.
#include <zip.h>

#include "bench/import/torch_file.h"
#include "model/base/system/files.h"
#include "tests/fuzz/fuzz.h"

namespace isobar::fuzz {
namespace {

namespace fs = std::filesystem;
using ArchiveMembers = std::vector<std::pair<std::string, std::string>>;

void write_archive(const std::string& at, const ArchiveMembers& members) {
  fs::remove(at);
  zip_t* zip = zip_open(at.c_str(), ZIP_CREATE, nullptr);
  for (const auto& [name, bytes] : members) {
    const zip_int64_t i =
        zip_file_add(zip, name.c_str(), zip_source_buffer(zip, bytes.data(), bytes.size(), 0), 0);
    zip_set_file_compression(zip, static_cast<zip_uint64_t>(i), ZIP_CM_STORE, 0);
  }
  zip_close(zip);
}

ArchiveMembers with_pickle(const std::string& pickle) {
  return {{"w/data.pkl", pickle},
          {"w/byteorder", "little"},
          {"w/data/0", std::string(6 * 4, '\x3e')},
          {"w/data/1", std::string(20 * 8, '\x3d')},
          {"w/data/2", std::string(4 * 2, '\x3c')}};
}

std::string word(const std::string& s) {
  return std::string("X") + static_cast<char>(s.size()) + std::string(3, '\0') + s;
}
std::string small(int64_t n) {
  return std::string("K") + static_cast<char>(n);
}
std::string numbers(const std::vector<int64_t>& all) {
  std::string out = "(";
  for (const int64_t n : all) out += small(n);
  return out + "t";
}
std::string tensor(const char* kind, const char* key, int64_t count, int64_t offset,
                   const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + word("storage") + "ctorch\n" + kind + "\n" + word(key) +
         word("cpu") + small(count) + "tQ" + small(offset) + numbers(shape) + numbers(strides) + "\x89}tR";
}

// A plain dictionary, a training checkpoint with parameters, and protocol 4 with shared objects.
std::vector<std::string> pickles() {
  const std::string a = word("a") + tensor("FloatStorage", "0", 6, 0, {2, 3}, {3, 1}),
                    b = word("b") + tensor("DoubleStorage", "1", 20, 5, {3, 2}, {1, 3}),
                    c = word("c") + tensor("BFloat16Storage", "2", 4, 1, {3}, {0});
  const std::string two("\x80\x02", 2), four("\x80\x04\x95\0\0\0\0\0\0\0\0", 11);
  return {two + "}q" + std::string(1, '\0') + "(" + a + b + c + "u.",
          two + "}(" + word("epoch") + small(3) + word("state_dict") + "ccollections\nOrderedDict\n)R(" +
              word("a") + "ctorch._utils\n_rebuild_parameter\n(" +
              tensor("HalfStorage", "2", 4, 0, {4}, {1}) + "\x89}tRu}" + word("_metadata") + "}sbu.",
          four + "\x8f\x94" + "0}\x94(" + a + "\x94" + word("again") + "h" + std::string(1, '\2') + b + "u."};
}

// Tensors of the shape that the net wants are read; here all that are small are wanted.
void read_wanted(const std::string& file) {
  const auto in = foreign::open_torch_file(file);
  std::vector<float> values(4096);
  for (const auto& [name, shape] : in->shapes()) {
    int64_t count = 1;
    for (const int64_t n : shape) count = n > 4096 ? 4097 : std::min<int64_t>(4097, count * n);
    if (count <= 4096) in->read(name, values.data());
  }
}

}  // namespace

std::vector<Target> import_targets(const fs::path& folder) {
  const std::string made = folder / "seed.ckpt";
  std::vector<std::string> archives;
  for (const std::string& p : pickles()) {
    write_archive(made, with_pickle(p));
    read_wanted(made);  // a refused seed would test nothing
    archives.push_back(read_file(made));
  }
  return {{"ckpt", "mutated.ckpt", archives, false, read_wanted},
          {"ckpt pickle", "mutated.pkl", pickles(), false, [](const std::string& file) {
             write_archive(file + ".ckpt", with_pickle(read_file(file)));
             read_wanted(file + ".ckpt");
           }}};
}

}  // namespace isobar::fuzz
