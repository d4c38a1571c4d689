// .npz through libzip. Entries are stored with a fixed date, so that the same arrays give the same bytes.
#include "nestor/npz.h"

#include <fmt/format.h>
#include <zip.h>

#include <filesystem>
#include <memory>

#include "nestor/files.h"
#include "src/graph/files.h"

namespace nestor {

namespace {

struct ZipDiscard {
  void operator()(zip_t* z) const { zip_discard(z); }
};
using Zip = std::unique_ptr<zip_t, ZipDiscard>;
struct SourceFree {
  void operator()(zip_source_t* s) const { zip_source_free(s); }
};
using Source = std::unique_ptr<zip_source_t, SourceFree>;
struct EntryClose {
  void operator()(zip_file_t* f) const { zip_fclose(f); }
};

Zip open_zip(const std::string& path, int flags, const std::string& shown) {
  int code = 0;
  Zip zip(zip_open(path.c_str(), flags, &code));
  if (zip) return zip;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string why = zip_error_strerror(&error);
  zip_error_fini(&error);
  file_error(shown, "can't be opened as .npz: " + why);
}

// A small archive may claim to unpack to any size, by zeros packed a thousandfold or by entries that share
// their bytes. Weights and inputs hardly shrink, so one that grows this much is refused before it is
// unpacked.
void refuse_bomb(zip_t* zip, const std::string& path) {
  constexpr zip_uint64_t kMostArrays = 1 << 20, kNeverTooMuch = zip_uint64_t{1} << 30, kMostGrowth = 100;
  const auto packed = static_cast<zip_uint64_t>(std::filesystem::file_size(path));
  const auto count = static_cast<zip_uint64_t>(zip_get_num_entries(zip, 0));
  if (count > kMostArrays)
    file_error(path, fmt::format("the archive has {} entries; at most {} are supported", count, kMostArrays));
  zip_uint64_t unpacked = 0;
  for (zip_uint64_t i = 0; i < count; ++i) {
    zip_stat_t stat;
    if (zip_stat_index(zip, i, 0, &stat) != 0) file_error(path, zip_strerror(zip));
    if (__builtin_add_overflow(unpacked, stat.size, &unpacked)) unpacked = UINT64_MAX;
    if (unpacked > kNeverTooMuch && unpacked / kMostGrowth > packed)
      file_error(path,
                 fmt::format("the archive unpacks to more than {} times its {} bytes", kMostGrowth, packed),
                 "store it without compression (numpy.savez)");
  }
}

std::string read_entry(zip_t* zip, zip_uint64_t index, const zip_stat_t& stat, const std::string& where) {
  const std::unique_ptr<zip_file_t, EntryClose> file(zip_fopen_index(zip, index, 0));
  if (!file) file_error(where, std::string("can't be read: ") + zip_strerror(zip));
  std::string out;
  while (out.size() < stat.size) {  // grows as data comes, whatever size the directory claims
    const size_t old = out.size(), chunk = std::min<size_t>(stat.size - old, size_t{64} << 20);
    out.resize(old + chunk);
    const zip_int64_t n = zip_fread(file.get(), out.data() + old, chunk);
    if (n <= 0) file_error(where, std::string("can't be read: ") + zip_file_strerror(file.get()));
    out.resize(old + static_cast<size_t>(n));
  }
  char extra = 0;  // reading past the end makes libzip compare the checksum
  if (zip_fread(file.get(), &extra, 1) != 0)
    file_error(where, std::string("damaged: ") + zip_file_strerror(file.get()));
  return out;
}

std::string content_of(zip_source_t* bytes, const std::string& path) {
  std::string out;
  zip_stat_t stat;
  bool ok = zip_source_open(bytes) == 0 && zip_source_stat(bytes, &stat) == 0 && (stat.valid & ZIP_STAT_SIZE);
  if (ok) {
    out.resize(stat.size);
    ok = zip_source_read(bytes, out.data(), stat.size) == static_cast<zip_int64_t>(stat.size);
    zip_source_close(bytes);
  }
  if (!ok) file_error(path, "can't be written: libzip's memory can't be read");
  return out;
}

}  // namespace

std::map<std::string, Tensor> read_npz(const std::string& path) {
  if (!std::filesystem::exists(path)) file_error(path, "the file doesn't exist");
  const Zip zip = open_zip(path, ZIP_RDONLY, path);
  refuse_bomb(zip.get(), path);
  std::map<std::string, Tensor> out;
  const auto count = static_cast<zip_uint64_t>(zip_get_num_entries(zip.get(), 0));
  for (zip_uint64_t i = 0; i < count; ++i) {
    zip_stat_t stat;
    if (zip_stat_index(zip.get(), i, 0, &stat) != 0) file_error(path, zip_strerror(zip.get()));
    std::string name = stat.name;
    if (!name.ends_with(".npy")) file_error(path, fmt::format("entry '{}' is not an array (.npy)", name));
    name.resize(name.size() - 4);
    Tensor t = parse_npy(read_entry(zip.get(), i, stat, path + "[" + name + "]"), path + "[" + name + "]");
    if (!out.emplace(name, std::move(t)).second)
      file_error(path, fmt::format("two arrays are named '{}'", name));
  }
  return out;
}

// libzip writes files under a name of its own: in memory it leaves none behind.
void write_npz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& arrays) {
  if (arrays.empty()) file_error(path, "no arrays to write");  // libzip writes no empty archive
  PendingFiles files;
  files.add(path);

  std::vector<std::string> contents;  // libzip reads them at zip_close
  for (const auto& [name, tensor] : arrays) contents.push_back(format_npy(tensor));
  const Source bytes(zip_source_buffer_create(nullptr, 0, 0, nullptr));
  if (!bytes) throw std::bad_alloc();
  zip_source_keep(bytes.get());  // for zip_close, which gives it back
  Zip zip(zip_open_from_source(bytes.get(), ZIP_TRUNCATE, nullptr));
  if (!zip) throw std::bad_alloc();
  for (size_t i = 0; i < arrays.size(); ++i) {
    const std::string entry = arrays[i].first + ".npy";
    zip_source_t* source = zip_source_buffer(zip.get(), contents[i].data(), contents[i].size(), 0);
    const zip_int64_t index = source ? zip_file_add(zip.get(), entry.c_str(), source, ZIP_FL_ENC_UTF_8) : -1;
    if (index < 0) {
      if (source) zip_source_free(source);
      file_error(path, fmt::format("can't add array '{}': {}", arrays[i].first, zip_strerror(zip.get())));
    }
    const auto at = static_cast<zip_uint64_t>(index);
    zip_set_file_compression(zip.get(), at, ZIP_CM_STORE, 0);
    zip_file_set_dostime(zip.get(), at, 0, 1 << 5 | 1, 0);  // 1980-01-01
  }
  if (zip_close(zip.get()) != 0)
    file_error(path, std::string("can't be written: ") + zip_strerror(zip.get()));
  static_cast<void>(zip.release());  // closed
  files.write(path, content_of(bytes.get(), path));
  files.commit();
}

}  // namespace nestor
