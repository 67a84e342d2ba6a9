// The NERSC layout: one dataset `fields` [time, channel, lat, lon] per yearly HDF5 file.
#include "model/base/error.h"
#include "model/base/text/joined.h"
#include "model/data/fields/field_file.h"
#include "model/data/fields/slab.h"
#include "model/data/files/netcdf/hdf5_array.h"
#include "model/data/synthetic/synth.h"

namespace isobar::data {

namespace {

class Hdf5Fields : public FieldFile {
 public:
  Hdf5Fields(const std::string& path, const std::string& key, std::shared_ptr<ChunkCache> cache,
             const std::vector<std::string>& channel_names) {
    info_.path = path;
    info_.key = key;
    info_.format = "HDF5 fields";
    try {
      array_ = std::make_unique<Hdf5Array>(path, "fields", std::move(cache));
    } catch (const ArrayError& e) {
      throw ConfigError(path, key, e.what(), e.mend);
    }
    const Index& dims = array_->dims();
    if (dims.size() != 4)
      throw ConfigError(path, key, "'fields' has shape [" + joined(dims) + "]",
                        "it must be [time, channel, lat, lon]");
    require_sizes(path, key, dims[0], {dims[1], dims[2], dims[3]});
    refuse_packing();
    info_.steps = dims[0];
    info_.shape = {dims[1], dims[2], dims[3]};
    info_.channels = channel_names.empty() ? names("channels") : channel_names;
    if (!channel_names.empty() && static_cast<int64_t>(channel_names.size()) != dims[1])
      throw ConfigError(path, "data.channel_names",
                        "names " + std::to_string(channel_names.size()) + ", and `fields` has " +
                            std::to_string(dims[1]) + " channels",
                        "name each, in order");
    info_.units = names("units");
    if (static_cast<int64_t>(info_.channels.size()) != dims[1])
      info_.channels = default_channel_names(dims[1]);
    if (static_cast<int64_t>(info_.units.size()) != dims[1]) info_.units.clear();
    info_.layout = array_->layout();
    for (const std::string& other : names_beside(path, "fields"))
      info_.left_out.push_back(showable(other) + " lies beside 'fields'");
    const Index chunk = array_->chunk();
    if (!chunk.empty()) info_.steps_per_chunk = chunk[0];
    // Reading by channel keeps a plane in cache until it is normalised; chunks that span channels are read at
    // once.
    by_channel_ = chunk.empty() || chunk[1] == 1;
  }

  void read_step(int64_t t, const GridWindow& w, const Statistics* norm, float* out,
                 bool gaps) const override {
    const int64_t plane = w.height * w.width, all = info_.shape.channels, step = by_channel_ ? 1 : all;
    for (int64_t c = 0; c < all; c += step) {
      try {
        read_raw({t, c, w.row, w.column}, {1, step, w.height, w.width}, out + c * plane, [&](Stretch s) {
          if (!gaps)
            finish_stretch(t, c, w, norm, out + c * plane, s);
          else if (s.swapped)
            swap_bytes(out + c * plane + s.first, s.n, sizeof(float));
        });
      } catch (const ArrayError& e) {
        fail(t, by_channel_ ? c : -1, e.what(), e.mend);
      }
    }
  }

  void try_library(int64_t most_bytes, const std::function<void()>& alive) const override {
    try {
      array_->try_library(most_bytes, alive);
    } catch (const ArrayError& e) {
      throw ConfigError(info_.path, info_.key, e.what(), e.mend);
    }
  }

 private:
  // The layout has plain numbers: CF's attributes would change what they say.
  void refuse_packing() const {
    for (const char* name : {"scale_factor", "add_offset", "_FillValue", "missing_value", "valid_min",
                             "valid_max", "valid_range"})
      if (array_->has_attribute(name))
        throw ConfigError(info_.path, info_.key,
                          "'fields' has the attribute " + std::string(name) + ", which is not applied to it",
                          "write its values unpacked and with NaN for missing ones, without the attribute");
  }
  std::vector<std::string> names(const std::string& attribute) const {
    try {
      std::vector<std::string> out = array_->text_attribute(attribute);
      for (std::string& s : out) s = showable(s);
      return out;
    } catch (const ArrayError& e) {
      throw ConfigError(info_.path, info_.key, e.what(), e.mend);
    }
  }
  template <class Done>
  void read_raw(const Index& start, const Index& count, float* out, const Done& done) const {
    if (array_->element() == Element::f32)
      return array_->read_in_pieces(start, count, out, [&](int64_t first, int64_t n, bool swapped) {
        done(Stretch{first, n, swapped});
      });
    thread_local std::vector<std::byte> raw;
    raw.resize(product(count) * size_of(array_->element()));
    array_->read(start, count, raw.data());
    unpack(raw.data(), array_->element(), product(count), Packing{}, out);
    done(Stretch{0, product(count), false});
  }

  std::unique_ptr<Hdf5Array> array_;
  bool by_channel_ = true;
};

}  // namespace

std::unique_ptr<FieldFile> open_hdf5_fields(const std::string& path, const std::string& key,
                                            std::shared_ptr<ChunkCache> cache,
                                            const std::vector<std::string>& channel_names) {
  return std::make_unique<Hdf5Fields>(path, key, std::move(cache), channel_names);
}

}  // namespace isobar::data
