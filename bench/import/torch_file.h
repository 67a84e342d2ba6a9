// A checkpoint of PyTorch (torch.save: a zip archive of a pickle and storages), read without executing the
// pickle (torch_pickle.h). Takes the tensors under "state_dict" or "model" if there is one of these. Values
// become f32; each tensor reads only its span of a storage, after the archive's checksum of that was
// verified.
//
//   const TorchFile in("aurora-0.25-small-pretrained.ckpt");       // throws ConfigError
//   in.shapes();  in.left_out();  in.read("net.weight", values);
#pragma once
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/inference/weights/named_weights.h"

struct zip;

namespace isobar::foreign {

class TorchFile : public inference::NamedWeights {
 public:
  explicit TorchFile(const std::filesystem::path& file);
  ~TorchFile() override;
  TorchFile(const TorchFile&) = delete;
  TorchFile& operator=(const TorchFile&) = delete;
  const std::map<std::string, std::vector<int64_t>>& shapes() const override { return shapes_; }
  bool floating(const std::string& name) const override;
  void read(const std::string& name, float* values) const override;
  /// Names of all that a training keeps beside its weights
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  struct Member {
    uint64_t index = 0;
    int64_t bytes = 0;
  };
  struct View {  // part of a storage, in elements
    std::string kind, key;
    int64_t offset = 0, count = 1, span = 0;  // span: from the first element to the last
    std::vector<int64_t> strides;
  };
  [[noreturn]] void refuse(const std::string& what) const;
  void list_members();
  const Member& member(const std::string& name, const std::string& of) const;
  std::string text_of(const Member& m, int64_t most) const;
  void take_tensors(const std::string& pickle);
  void check_bytes(const Member& m, const std::string& name) const;
  std::string part_of(const Member& m, const std::string& name, int64_t first, int64_t bytes) const;

  std::string path_;
  zip* zip_ = nullptr;
  std::map<std::string, Member> members_;
  std::map<std::string, std::vector<int64_t>> shapes_;
  std::map<std::string, View> views_;
  std::vector<std::string> left_out_;
  mutable std::set<uint64_t> checked_;  // members with verified checksums
};

}  // namespace isobar::foreign
