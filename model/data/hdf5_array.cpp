#include "model/data/hdf5_array.h"

#include <fcntl.h>
#include <hdf5.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "model/data/slab.h"

namespace isobar {

LibraryLock::LibraryLock()
    : guard_([]() -> std::mutex& {
        static std::mutex mutex;  // one per process, as the libraries' own state is
        return mutex;
      }()) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

namespace {

/// The innermost description on HDF5's error stack, which is the one that says what is wrong.
std::string hdf5_message() {
  std::string text;
  const auto keep = [](unsigned, const H5E_error2_t* e, void* data) -> herr_t {
    if (e->desc && *e->desc) *static_cast<std::string*>(data) = e->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep, &text);
  return text.empty() ? "unknown HDF5 error" : text;
}

struct Handle {  // an HDF5 identifier that closes itself
  hid_t id;
  herr_t (*close)(hid_t);
  Handle(hid_t id_, herr_t (*close_)(hid_t)) : id(id_), close(close_) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (id >= 0) close(id);
  }
};

struct Type {
  hid_t little, big;
  Element element;
};

/// Finds the element type; false when it is a number of another format (half precision, odd bit widths).
bool known_type(hid_t type, Element& element, bool& swap) {
  const Type types[] = {
      {H5T_IEEE_F32LE, H5T_IEEE_F32BE, Element::f32}, {H5T_IEEE_F64LE, H5T_IEEE_F64BE, Element::f64},
      {H5T_STD_I8LE, H5T_STD_I8BE, Element::i8},      {H5T_STD_U8LE, H5T_STD_U8BE, Element::u8},
      {H5T_STD_I16LE, H5T_STD_I16BE, Element::i16},   {H5T_STD_U16LE, H5T_STD_U16BE, Element::u16},
      {H5T_STD_I32LE, H5T_STD_I32BE, Element::i32},   {H5T_STD_U32LE, H5T_STD_U32BE, Element::u32},
      {H5T_STD_I64LE, H5T_STD_I64BE, Element::i64},   {H5T_STD_U64LE, H5T_STD_U64BE, Element::u64}};
  for (const Type& t : types) {
    if (H5Tequal(type, t.little) <= 0 && H5Tequal(type, t.big) <= 0) continue;
    element = t.element;
    swap = size_of(t.element) > 1 && H5Tequal(type, t.big) > 0;
    return true;
  }
  return false;
}

hid_t native_type(Element e) {
  switch (e) {
    case Element::i8:
      return H5T_NATIVE_INT8;
    case Element::u8:
      return H5T_NATIVE_UINT8;
    case Element::i16:
      return H5T_NATIVE_INT16;
    case Element::u16:
      return H5T_NATIVE_UINT16;
    case Element::i32:
      return H5T_NATIVE_INT32;
    case Element::u32:
      return H5T_NATIVE_UINT32;
    case Element::i64:
      return H5T_NATIVE_INT64;
    case Element::u64:
      return H5T_NATIVE_UINT64;
    case Element::f32:
      return H5T_NATIVE_FLOAT;
    case Element::f64:
      return H5T_NATIVE_DOUBLE;
  }
  return H5T_NATIVE_DOUBLE;
}

/// Room for the whole index of a file of many chunks: with less, each walk over it would read it from the
/// file again.
hid_t large_metadata_cache() {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5AC_cache_config_t cache;
  cache.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  if (H5Pget_mdc_config(access, &cache) >= 0) {
    cache.set_initial_size = true;
    cache.initial_size = cache.max_size = size_t{32} << 20;
    H5Pset_mdc_config(access, &cache);
  }
  return access;
}

/// File and dataset, open for the duration of one call. Needs LibraryLock.
struct Opened {
  Handle access, file, set;  // `access` stays: closing it would clear the error that opening left
  Opened(const std::string& path, const std::string& name)
      : access(large_metadata_cache(), H5Pclose),
        file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id), H5Fclose),
        set(open_set(file.id, name), H5Dclose) {}
  static hid_t open_set(hid_t file, const std::string& name) {
    if (file < 0) throw ArrayError("HDF5 cannot open it: " + hdf5_message(), "copy or download it again");
    const hid_t id =
        H5Lexists(file, name.c_str(), H5P_DEFAULT) > 0 ? H5Dopen2(file, name.c_str(), H5P_DEFAULT) : -1;
    if (id < 0)
      throw ArrayError("has no dataset '" + name + "'",
                       "the NERSC layout needs: fields [time, channel, lat, lon]");
    return id;
  }
};

constexpr int64_t kSmallIndex = 4096;  // chunks: listed whole
constexpr int64_t kLookedUpAtOnce = 64;

}  // namespace

Hdf5Array::Hdf5Array(const std::string& file, const std::string& name, std::shared_ptr<ChunkCache> cache)
    : file_(file), name_(name), cache_(std::move(cache)) {
  LibraryLock lock;
  const Opened opened(file_, name_);
  read_layout(opened.file.id, opened.set.id);
  const int64_t bytes = product(dims_) * size_of(element_);
  fd_ = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0)
    throw ArrayError(std::string("cannot be opened: ") + std::strerror(errno), "check its permissions");
  if (offset_ < 0 || ::lseek(fd_, 0, SEEK_END) >= offset_ + bytes) return;
  ::close(fd_);
  throw ArrayError("is truncated: '" + name_ + "' should end at byte " + std::to_string(offset_ + bytes),
                   "copy or download it again");
}

Hdf5Array::~Hdf5Array() {
  ::close(fd_);
}

void Hdf5Array::read_layout(int64_t file, int64_t set) {
  Handle space(H5Dget_space(set), H5Sclose), type(H5Dget_type(set), H5Tclose);
  Handle dcpl(H5Dget_create_plist(set), H5Pclose), fcpl(H5Fget_create_plist(file), H5Pclose);
  if (space.id < 0 || type.id < 0 || dcpl.id < 0 || fcpl.id < 0) throw ArrayError(hdf5_message(), "");
  const int rank = H5Sget_simple_extent_ndims(space.id);
  std::vector<hsize_t> dims(std::max(rank, 0));
  if (rank > 0) H5Sget_simple_extent_dims(space.id, dims.data(), nullptr);
  dims_.assign(dims.begin(), dims.end());

  const H5T_class_t kind = H5Tget_class(type.id);
  if (kind != H5T_FLOAT && kind != H5T_INTEGER)
    throw ArrayError("'" + name_ + "' does not hold plain numbers", "store it as 32-bit floats");
  if (!known_type(type.id, element_, swap_)) {
    element_ = Element::f64;
    locked_because_ = "number format";
  }

  hsize_t user_block = 0;
  H5Pget_userblock(fcpl.id, &user_block);
  switch (H5Pget_layout(dcpl.id)) {
    case H5D_CONTIGUOUS: {
      if (H5Pget_external_count(dcpl.id) > 0) {
        locked_because_ = "external storage";
        break;
      }
      const haddr_t at = H5Dget_offset(set);
      if (at == HADDR_UNDEF && product(dims_) > 0)
        throw ArrayError("'" + name_ + "' was created but never written", "make the file again");
      offset_ = locked_because_.empty() ? static_cast<int64_t>(at) : -1;
      break;
    }
    case H5D_CHUNKED: {
      std::vector<hsize_t> chunk(rank);
      H5Pget_chunk(dcpl.id, rank, chunk.data());
      chunk_.assign(chunk.begin(), chunk.end());
      for (int k = 0; k < rank; ++k) grid_.push_back((dims_[k] + chunk_[k] - 1) / chunk_[k]);
      read_filters(set, dcpl.id);
      unsigned options = 0;
      H5Pget_chunk_opts(dcpl.id, &options);
      if (!can_decode(filters_)) {
        locked_because_ = "filter";
      } else if (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) {
        locked_because_ = "unfiltered edge chunks";
      } else if (user_block) {
        locked_because_ = "user block";  // HDF5 1.10 reports chunk addresses without it
      }
      index_.resize(locked_because_.empty() ? product(grid_) : 0);
      hsize_t written = 0;  // H5Dread would hand out the fill value for the others
      if (!locked_because_.empty() && H5Dget_num_chunks(set, space.id, &written) >= 0 &&
          static_cast<int64_t>(written) < product(grid_))
        throw ArrayError("some chunks of '" + name_ + "' were never written", "make the file again");
      break;
    }
    default:
      locked_because_ = "storage layout";
  }
}

void Hdf5Array::read_filters(int64_t set, int64_t dcpl) {
  const int n = H5Pget_nfilters(dcpl);
  for (int i = 0; i < n; ++i) {
    unsigned flags = 0, values[16] = {}, config = 0;
    size_t count = 16;
    char name[64] = "";
    const H5Z_filter_t id = H5Pget_filter2(dcpl, i, &flags, &count, values, sizeof name, name, &config);
    if (id == H5Z_FILTER_DEFLATE) {
      filters_.push_back({Filter::Kind::deflate, "deflate " + std::to_string(values[0]), 0});
    } else if (id == H5Z_FILTER_SHUFFLE) {
      Handle type(H5Dget_type(set), H5Tclose);
      const auto size = count ? static_cast<int64_t>(values[0]) : static_cast<int64_t>(H5Tget_size(type.id));
      filters_.push_back({Filter::Kind::shuffle, "shuffle", size});
    } else {
      filters_.push_back({Filter::Kind::other, *name ? name : "filter " + std::to_string(id), 0});
    }
  }
}

std::vector<std::string> Hdf5Array::text_attribute(const std::string& name) const {
  LibraryLock lock;
  const Opened opened(file_, name_);
  if (H5Aexists(opened.set.id, name.c_str()) <= 0) return {};
  Handle attribute(H5Aopen(opened.set.id, name.c_str(), H5P_DEFAULT), H5Aclose);
  Handle type(H5Aget_type(attribute.id), H5Tclose), space(H5Aget_space(attribute.id), H5Sclose);
  if (H5Tget_class(type.id) != H5T_STRING) return {};
  const auto n = static_cast<size_t>(H5Sget_simple_extent_npoints(space.id));
  std::vector<std::string> out;
  if (H5Tis_variable_str(type.id) > 0) {
    std::vector<char*> text(n);
    if (H5Aread(attribute.id, type.id, text.data()) < 0) return {};
    for (char* s : text) out.emplace_back(s ? s : "");
    H5Dvlen_reclaim(type.id, space.id, H5P_DEFAULT, text.data());
  } else {
    const size_t size = H5Tget_size(type.id);
    std::vector<char> text(n * size);
    if (H5Aread(attribute.id, type.id, text.data()) < 0) return {};
    for (size_t i = 0; i < n; ++i) out.emplace_back(&text[i * size], strnlen(&text[i * size], size));
  }
  return out;
}

StorageLayout Hdf5Array::layout() const {
  const bool other = locked_because_ == "storage layout";
  StorageLayout l{.element = name_of(element_),
                  .storage = !chunk_.empty() ? "chunked"
                             : other         ? "other"
                                             : "contiguous",
                  .big_endian = swap_,
                  .chunk = chunk_,
                  .locked_because = locked_because_};
  for (const Filter& f : filters_) l.filters.push_back(f.name);
  return l;
}

void Hdf5Array::read(const Index& start, const Index& count, void* out) const {
  auto* bytes = static_cast<std::byte*>(out);
  if (!locked_because_.empty()) return read_locked(start, count, out);  // H5Dread swaps bytes itself
  if (chunk_.empty()) {
    read_box(fd_, offset_, dims_, start, count, size_of(element_), bytes, strides_of(count));
  } else {
    read_chunks(start, count, bytes);
  }
  if (swap_) swap_bytes(out, product(count), size_of(element_));
}

void Hdf5Array::read_locked(const Index& start, const Index& count, void* out) const {
  LibraryLock lock;
  const Opened opened(file_, name_);
  const std::vector<hsize_t> s(start.begin(), start.end()), c(count.begin(), count.end());
  Handle space(H5Dget_space(opened.set.id), H5Sclose);
  Handle memory(H5Screate_simple(static_cast<int>(c.size()), c.data(), nullptr), H5Sclose);
  if (H5Sselect_hyperslab(space.id, H5S_SELECT_SET, s.data(), nullptr, c.data(), nullptr) < 0 ||
      H5Dread(opened.set.id, native_type(element_), memory.id, space.id, H5P_DEFAULT, out) < 0)
    throw ArrayError("HDF5 cannot read '" + name_ + "': " + hdf5_message(),
                     "copy it again, or install the filter");
}

void Hdf5Array::read_chunks(const Index& start, const Index& count, std::byte* out) const {
  if (product(count) == 0) return;
  const size_t rank = dims_.size();
  const int64_t size = size_of(element_), chunk_bytes = product(chunk_) * size;
  const Index out_strides = strides_of(count), chunk_strides = strides_of(chunk_);
  Index at(rank), origin(rank), from(rank),
      n(rank);  // chunk coordinates; its origin; the part of it that is wanted
  for (size_t k = 0; k < rank; ++k) at[k] = start[k] / chunk_[k];
  for (;;) {
    int64_t number = 0, from_offset = 0, out_offset = 0;
    for (size_t k = 0; k < rank; ++k) {
      origin[k] = at[k] * chunk_[k];
      const int64_t low = std::max(start[k], origin[k]),
                    high = std::min(start[k] + count[k], origin[k] + chunk_[k]);
      from[k] = low - origin[k];
      n[k] = high - low;
      number = number * grid_[k] + at[k];
      from_offset += from[k] * chunk_strides[k] * size;
      out_offset += (low - start[k]) * out_strides[k] * size;
    }
    const auto copy = [&](const std::byte* chunk) {
      copy_box(n, size, chunk + from_offset, chunk_strides, out + out_offset, out_strides);
    };
    const Stored stored = find_chunk(number);
    if (filters_.empty()) {  // the wanted part alone, straight from the file
      read_box(fd_, static_cast<int64_t>(stored.address), chunk_, from, n, size, out + out_offset,
               out_strides);
    } else if (2 * product(n) > product(chunk_) ||
               chunk_bytes > cache_->budget()) {  // little to gain by keeping it
      thread_local std::vector<std::byte> scratch;
      scratch.resize(chunk_bytes);
      decode(stored, scratch.data());
      copy(scratch.data());
    } else {
      const ChunkCache::Key key{this, number};
      ChunkCache::Bytes cached = cache_->find(key);
      if (!cached) {
        auto fresh = std::make_shared<std::vector<std::byte>>(chunk_bytes);
        decode(stored, fresh->data());
        cache_->insert(key, cached = fresh);
      }
      copy(cached->data());
    }
    size_t k = rank;
    while (k-- > 0) {
      if (++at[k] <= (start[k] + count[k] - 1) / chunk_[k]) break;
      at[k] = start[k] / chunk_[k];
    }
    if (k == static_cast<size_t>(-1)) return;
  }
}

void Hdf5Array::decode(const Stored& chunk, std::byte* out) const {
  thread_local std::vector<std::byte> stored;
  stored.resize(chunk.bytes);
  read_exactly(fd_, stored.data(), static_cast<int64_t>(chunk.bytes), static_cast<int64_t>(chunk.address));
  decode_chunk(filters_, chunk.skipped, stored, out, product(chunk_) * size_of(element_));
}

Index Hdf5Array::origin_of(int64_t number) const {
  Index origin(dims_.size());
  for (size_t k = dims_.size(); k-- > 0; number /= grid_[k]) origin[k] = number % grid_[k] * chunk_[k];
  return origin;
}

// HDF5 1.10 walks the index from its start to find a chunk (measured: up to 0.5 ms among 29,200 chunks), so n
// chunks cost n^2 / 2 steps. They are looked up when first wanted and remembered: all of a small index, else
// a few more than the one asked for, since channels of a step follow each other.
void Hdf5Array::look_up(int64_t number) const {
  const Opened opened(file_, name_);
  const auto n = static_cast<int64_t>(index_.size());
  const int64_t first = n <= kSmallIndex ? 0 : number;
  const int64_t last = n <= kSmallIndex ? n : std::min(number + kLookedUpAtOnce, n);
  for (int64_t i = first; i < last; ++i) {
    if (index_[i].known) continue;
    const Index origin = origin_of(i);
    const std::vector<hsize_t> at(origin.begin(), origin.end());
    unsigned mask = 0;
    haddr_t address = HADDR_UNDEF;
    hsize_t bytes = 0;
    if (H5Dget_chunk_info_by_coord(opened.set.id, at.data(), &mask, &address, &bytes) < 0)
      throw ArrayError("HDF5 cannot find a chunk of '" + name_ + "': " + hdf5_message(),
                       "copy the file again");
    index_[i] = {address, bytes, mask, true, address != HADDR_UNDEF};
  }
}

Hdf5Array::Stored Hdf5Array::find_chunk(int64_t number) const {
  LibraryLock lock;
  if (!index_[number].known) look_up(number);
  const Stored chunk = index_[number];
  if (chunk.written) return chunk;
  std::string where;
  for (int64_t o : origin_of(number)) where += (where.empty() ? "" : ", ") + std::to_string(o);
  throw ArrayError("the chunk of '" + name_ + "' at [" + where + "] was never written",
                   "make the file again");
}

}  // namespace isobar
