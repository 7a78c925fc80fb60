// Files: read no further than their headers promise, and replaced as a whole.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <ctime>
#include <limits>
#include <random>
#include <string>

#include "core/src/replacement_file.hpp"
#include "formats/idx.hpp"
#include "formats/npy.hpp"
#include "formats/safetensors.hpp"
#include "support/files.hpp"
#include "support/obstacles.hpp"

using namespace plumb;
using namespace plumb::app;
using namespace plumb_test;
using namespace std::string_literals;

namespace {

constexpr std::uint64_t most = std::uint64_t{1} << 30;
const Bytes content = bytes_of("as it is");

/// A gzip file that is cut off, in the middle of some MiB that nothing compresses: who reads on
/// after `beginning` finds that it is damaged.
void write_trap(const std::string& path, const Bytes& beginning) {
  Bytes all = beginning;
  std::mt19937 random(1);
  while (all.size() < (std::size_t{4} << 20)) all.push_back(static_cast<std::uint8_t>(random()));
  write_gzip(path, all);
  fs::resize_file(path, fs::file_size(path) / 2);
}

/// A gzip file of 8 GiB of zeros behind `beginning`, in 9 MB: members follow each other as if they
/// were one.
void write_bomb(const std::string& path, const Bytes& beginning) {
  write_gzip(path, Bytes(std::size_t{16} << 20, 0));
  const Bytes zeros = read_plain(path);
  write_gzip(path, beginning);
  std::ofstream file(path, std::ios::binary | std::ios::app);
  for (int i = 0; i < 512; ++i)
    file.write(reinterpret_cast<const char*>(zeros.data()),
               static_cast<std::streamsize>(zeros.size()));
}

Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Bytes safetensors_header(const std::string& text) {
  Bytes bytes;
  for (std::size_t i = 0; i < 8; ++i)
    bytes.push_back(static_cast<std::uint8_t>(text.size() >> 8 * i));
  return joined({bytes, bytes_of(text)});
}

Bytes npy_header_of(const Extents& extents) { return npy_header(DType::f32, extents); }

mode_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(lstat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

std::ptrdiff_t files_in(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), {});
}

/// This thread's processor time, whatever else the machine does: the least of three.
double seconds_to_parse(const Bytes& file) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const double begin = now();
    parse_safetensors(file, "m");
    least = std::min(least, now() - begin);
  }
  return least;
}

Bytes file_of_tensors(int count) {
  std::string header = "{";
  for (int i = 0; i < count; ++i)
    header += fmt::format(R"({}"t{}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
                          i == 0 ? "" : ",", i);
  return safetensors_header(header + "}");
}

}  // namespace

TEST_CASE("files are read plain and as gzip", "[files]") {
  const Folder folder;
  write_plain(folder / "plain", content);
  write_gzip(folder / "packed", content);
  CHECK(read_file(folder / "plain", most) == content);
  CHECK(read_file(folder / "packed", most) == content);
  const Bytes large(5 << 20, 7);
  write_plain(folder / "large", large);
  write_gzip(folder / "large.gz", large);
  CHECK(read_file(folder / "large", most) == large);
  CHECK(read_file(folder / "large.gz", most) == large);
  write_plain(folder / "empty", {});
  CHECK(read_file(folder / "empty", most).empty());
}

TEST_CASE("gzip files that are cut off or damaged are refused", "[files]") {
  const Folder folder;
  write_gzip(folder / "whole", bytes_of(std::string(300, 'x').append("and some more text")));
  const Bytes packed = read_plain(folder / "whole");
  // One byte is no gzip header yet, and a file like any other.
  for (std::size_t size = 2; size < packed.size(); ++size) {
    INFO("cut to " << size << " of " << packed.size() << " bytes");
    const auto end = packed.begin() + static_cast<std::ptrdiff_t>(size);
    write_plain(folder / "cut", Bytes(packed.begin(), end));
    REQUIRE_THROWS_AS(read_file(folder / "cut", most), FileError);
  }
  Bytes damaged = packed;
  damaged[damaged.size() - 6] ^= 1;  // in the checksum
  write_plain(folder / "damaged", damaged);
  require_refused([&] { read_file(folder / "damaged", most); }, folder / "damaged",
                  {"damaged: incorrect data check"});
}

TEST_CASE("what cannot be read or written is named", "[files]") {
  const Folder folder;
  require_refused([&] { read_file(folder / "none", most); }, folder / "none", {"No such file"});
  require_refused([&] { read_file(folder.path().string(), most); }, folder.path().string(),
                  {"directory"});
  const std::string inside = folder / "no/such/file";
  require_refused([&] { write_file(inside, {}); }, inside, {"cannot be created"});
  require_refused([&] { require_writable(inside); }, inside, {"cannot be created"});
  CHECK_NOTHROW(require_writable(folder / "new"));
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("writing replaces a file as a whole", "[files]") {
  const Folder folder;
  write_file(folder / "file", {bytes_of("one"), bytes_of(" two")});
  CHECK(read_plain(folder / "file") == bytes_of("one two"));
  fs::create_symlink(folder / "file", folder / "link");
  write_file(folder / "link", {bytes_of("three")});
  CHECK(read_plain(folder / "file") == bytes_of("three"));
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 2);
  CHECK_NOTHROW(write_file("/dev/null", {bytes_of("gone")}));
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("the magic number is checked before a gzip file is unpacked any further", "[files]") {
  const Folder folder;
  const std::string trap = folder / "trap.gz", bomb = folder / "bomb.gz";
  for (const Bytes& wrong : {bytes_of("\0\0\x07\x03"s), Bytes(64, 0xff)}) {
    write_trap(trap, wrong);
    write_bomb(bomb, wrong);
    for (const std::string& path : {trap, bomb}) {
      require_refused([&] { read_idx_images(path); }, path, {"byte 0: magic number"});
      require_refused([&] { read_idx_labels(path); }, path, {"byte 0: magic number"});
      require_refused([&] { read_npy(path); }, path, {"byte 0: starts with"});
    }
  }
  write_trap(trap, Bytes(64, 0xff));
  require_refused([&] { read_safetensors(trap); }, trap, {"header of 18446744073709551615 bytes"});
  write_bomb(folder / "zeros.gz", {});
  require_refused([&] { read_safetensors(folder / "zeros.gz"); }, folder / "zeros.gz",
                  {"not JSON"});
  require_refused([&] { read_file(folder / "zeros.gz", 1000); }, folder / "zeros.gz",
                  {"more than 1000 bytes"});
}

TEST_CASE("no more is unpacked than the header promises and a byte", "[files]") {
  const Folder folder;
  const Bytes images = bytes_of("\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x03"s.append("abcdef"));
  const Bytes labels = bytes_of("\0\0\x08\x01\0\0\0\x02\x07\x09"s);
  const Bytes array = joined({npy_header_of({1}), bytes_of("1234")});
  const Bytes tensors =
      joined({safetensors_header(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"),
              bytes_of("1234")});
  for (const auto& write : {write_trap, write_bomb}) {
    const std::string path = folder / "f.gz";
    write(path, images);
    require_refused([&] { read_idx_images(path); }, path, {"2 x 1 x 3", "more bytes follow"});
    write(path, labels);
    require_refused([&] { read_idx_labels(path); }, path, {"says 2 elements", "more bytes follow"});
    write(path, array);
    require_refused([&] { read_npy(path); }, path, {"shape (1) of f32", "more bytes follow"});
    write(path, tensors);
    require_refused([&] { read_safetensors(path); }, path, {"end at byte 4", "more bytes follow"});
  }
  // What is whole is read, and its checksum with it.
  write_gzip(folder / "whole.gz", images);
  CHECK(read_idx_images(folder / "whole.gz").pixels == bytes_of("abcdef"));
  Bytes damaged = read_plain(folder / "whole.gz");
  damaged[damaged.size() - 6] ^= 1;
  write_plain(folder / "whole.gz", damaged);
  require_refused([&] { read_idx_images(folder / "whole.gz"); }, folder / "whole.gz",
                  {"damaged: incorrect data check"});
}

TEST_CASE("a header that promises gigabytes over a small file is refused with both sizes",
          "[files]") {
  const Folder folder;
  const Bytes images = bytes_of("\0\0\x08\x03\x80\0\0\0\0\0\0\x02\0\0\0\x02"s.append("abcd"));
  const Bytes array = joined({npy_header_of({1 << 20, 1 << 11}), bytes_of("1234")});
  const Bytes tensors = joined({safetensors_header(R"({"t":{"dtype":"F32","shape":[2147483648],)"
                                                   R"("data_offsets":[0,8589934592]}})"),
                                bytes_of("1234")});
  const Bytes long_header = joined({bytes_of("\x93NUMPY\x02\x00\xff\xff\xff\xff"s), bytes_of("{")});
  const auto refused = [&](const auto& read, const Bytes& bytes,
                           std::initializer_list<const char*> plain,
                           std::initializer_list<const char*> packed) {
    // Were it allocated, that would be refused too, but not in these words.
    write_plain(folder / "f", bytes);
    require_refused([&] { read(folder / "f"); }, folder / "f", plain);
    write_gzip(folder / "f.gz", bytes);
    require_refused([&] { read(folder / "f.gz"); }, folder / "f.gz", packed);
  };
  refused(read_idx_images, images, {"2147483648 x 2 x 2", "4 bytes follow"},
          {"2147483648 x 2 x 2", "no more than", "bytes can follow"});
  refused(read_npy, array, {"shape (1048576, 2048) of f32", "4 bytes follow"},
          {"shape (1048576, 2048) of f32", "no more than", "bytes can follow"});
  refused(read_safetensors, tensors, {"'t'", "byte 8589934592", "has 4"},
          {"'t'", "byte 8589934592", "no more than"});
  refused(read_npy, long_header, {"a header of 4294967295 bytes"},
          {"a header of 4294967295 bytes"});
}

TEST_CASE("the time to read a safetensors header grows as its tensors do", "[files]") {
  // Eight times as many: eight times as long and something for the cache. It was 64 times.
  const Bytes few = file_of_tensors(2000), many = file_of_tensors(16000);
  REQUIRE(parse_safetensors(many, "m").tensors.size() == 16000);
  CHECK(seconds_to_parse(many) < 24 * seconds_to_parse(few));
}

TEST_CASE("what is replaced keeps its mode and its owner, what is new follows the umask",
          "[files]") {
  const Folder folder;
  const mode_t before = umask(027);
  write_text(folder / "new", "1");
  umask(before);
  CHECK(mode_of(folder / "new") == 0640);
  for (const mode_t mode : {0600, 0640, 0755, 0666}) {
    REQUIRE(chmod((folder / "new").c_str(), mode) == 0);
    write_text(folder / "new", "2");
    CHECK(mode_of(folder / "new") == mode);
  }
  if (geteuid() == 0) {
    REQUIRE(chown((folder / "new").c_str(), 65534, 65534) == 0);
    write_text(folder / "new", "3");
    struct stat status {};
    REQUIRE(stat((folder / "new").c_str(), &status) == 0);
    CHECK(status.st_uid == 65534);
    CHECK(status.st_gid == 65534);
  }
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a link at the name of the temporary file is not written through", "[files]") {
  const Folder folder;
  write_plain(folder / "victim", bytes_of("kept"));
  fs::create_symlink(folder / "victim", folder / "planted");
  fs::create_symlink(folder / "nothing", folder / "dangling");
  for (const char* name : {"planted", "dangling", "victim"}) {
    INFO(name);
    errno = 0;
    CHECK(create_new_file(folder / name, 0600) == -1);
    CHECK(errno == EEXIST);
  }
  CHECK(read_plain(folder / "victim") == bytes_of("kept"));
  CHECK_FALSE(fs::exists(folder / "nothing"));
  // Two at work on the same file have names of their own.
  ReplacementFile one(folder / "target"), other(folder / "target");
  CHECK(files_in(folder.path()) == 5);
  one.write("1"), one.commit();
  other.write("2"), other.commit();
  CHECK(read_plain(folder / "target") == bytes_of("2"));
  CHECK(files_in(folder.path()) == 4);
}

TEST_CASE("links stay links, and one that dangles gets its file", "[files]") {
  const Folder folder;
  fs::create_directory(folder / "sub");
  fs::create_symlink("sub/there", folder / "link");
  fs::create_symlink("link", folder / "to_link");
  for (const char* text : {"new", "old"}) {
    write_text(folder / "to_link", text);
    CHECK(read_plain(folder / "sub/there") == bytes_of(text));
    CHECK(fs::read_symlink(folder / "link") == "sub/there");
    CHECK(fs::read_symlink(folder / "to_link") == "link");
    CHECK(files_in(folder / "sub") == 1);
  }
  fs::create_symlink("no/folder", folder / "nowhere");
  fs::create_symlink("circle", folder / "circle");
  for (const char* name : {"nowhere", "circle"}) {
    const std::string path = folder / name;
    require_refused([&] { write_text(path, "x"); }, path, {"cannot be created"});
    require_refused([&] { require_writable(path); }, path, {"cannot be created"});
    CHECK(fs::is_symlink(path));
  }
}

TEST_CASE("where a file cannot be written the old one stays and nothing is left", "[files]") {
  const Folder folder;
  const std::string file = folder / "file";
  write_text(file, "old");
  {
    const SmallDisk disk(4096);
    require_refused([&] { write_file(file, {Bytes(1 << 20)}); }, file,
                    {"cannot be written: File too large"});
  }
  require_refused([] { write_text("/dev/full", "x"); }, "/dev/full", {"No space left on device"});
  REQUIRE(chmod(folder.path().c_str(), 0555) == 0);
  REQUIRE(chmod(file.c_str(), 0666) == 0);
  {
    const Nobody nobody;
    require_refused([&] { write_text(file, "x"); }, file, {"cannot be created: Permission denied"});
    require_refused([&] { require_writable(file); }, file, {"Permission denied"});
  }
  REQUIRE(chmod(folder.path().c_str(), 0777) == 0);
  REQUIRE(chmod(file.c_str(), 0444) == 0);
  {
    const Nobody nobody;
    require_refused([&] { write_text(file, "x"); }, file, {"cannot be written: Permission denied"});
  }
  CHECK(read_plain(file) == bytes_of("old"));
  CHECK(files_in(folder.path()) == 1);
  // Names as long as they may be have room for the temporary one.
  const std::string longest = folder / std::string(255, 'n').c_str();
  write_text(longest, "new");
  CHECK(read_plain(longest) == bytes_of("new"));
  require_refused([] { write_text("", "x"); }, "", {"cannot be created"});
}

TEST_CASE("paths are shown as they are, or quoted where they are not readable", "[files]") {
  const Folder folder;
  CHECK(shown_path("a b/ü.npy") == "a b/ü.npy");
  CHECK(shown_path("a\nb") == "'a\\nb'");
  CHECK(shown_path(std::string(5000, 'x')).size() < 300);
  require_refused([&] { read_npy(folder / "a\033[2Jb"); }, "a\\x1b[2Jb'", {"No such file"});
}
