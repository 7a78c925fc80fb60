// File formats: round trips, files as NumPy and the safetensors library write them, and every way
// that a file can be cut off or lie about itself.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <functional>
#include <string>

#include "dataset.hpp"
#include "formats/idx.hpp"
#include "formats/npy.hpp"
#include "formats/safetensors.hpp"
#include "model.hpp"
#include "support/files.hpp"

using namespace plumb;
using namespace plumb::app;
using namespace plumb_test;
using namespace std::string_literals;

namespace {

/// Every shorter file is refused, and so is one with a byte too many.
void require_whole(const Bytes& content, const std::function<void(Bytes)>& parse) {
  REQUIRE_NOTHROW(parse(content));
  for (std::size_t size = 0; size < content.size(); ++size) {
    INFO("cut to " << size << " of " << content.size() << " bytes");
    const Bytes cut(content.begin(), content.begin() + static_cast<std::ptrdiff_t>(size));
    REQUIRE_THROWS_AS(parse(cut), FileError);
  }
  Bytes longer = content;
  longer.push_back(0);
  REQUIRE_THROWS_AS(parse(longer), FileError);
}

/// With any byte of it changed, the content is still a file or a FileError, and never anything
/// else.
void require_sturdy(const Bytes& content, const std::function<void(Bytes)>& parse) {
  int refused = 0;
  for (std::size_t at = 0; at < content.size(); ++at)
    for (const char value : "\x00\x01\x7f\x80\xff\"[{-9,"s) {
      Bytes changed = content;
      changed[at] = static_cast<std::uint8_t>(value);
      try {
        parse(changed);
      } catch (const FileError&) {
        ++refused;
      }
    }
  REQUIRE(refused > 0);
}

const Bytes two_images = bytes_of("\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x03"s + "abcdef");
const Bytes two_labels = bytes_of("\0\0\x08\x01\0\0\0\x02\x07\x09"s);

void parse_images(const Bytes& content) { parse_idx_images(content, "i.idx"); }
void parse_labels(const Bytes& content) { parse_idx_labels(content, "l.idx"); }
void parse_array(const Bytes& content) { parse_npy(content, "a.npy"); }
void parse_tensors(const Bytes& content) { parse_safetensors(content, "m.safetensors"); }

/// A version 1 file around a header text of any length, padded as NumPy pads it.
Bytes npy_file(const std::string& header, const std::string& data) {
  std::string text = header;
  text.resize((10 + text.size() + 64) / 64 * 64 - 11, ' ');
  text += '\n';
  return bytes_of("\x93NUMPY\x01"s + '\0' + static_cast<char>(text.size()) + '\0' + text + data);
}

Bytes safetensors_file(const std::string& header, const std::string& data) {
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  return bytes_of(length + header + data);
}

}  // namespace

TEST_CASE("IDX files hold images and labels", "[formats]") {
  const IdxImages images = parse_idx_images(two_images, "i.idx");
  CHECK(images.count == 2);
  CHECK(images.height == 1);
  CHECK(images.width == 3);
  CHECK(images.pixels == bytes_of("abcdef"));
  CHECK(parse_idx_labels(two_labels, "l.idx") == Bytes{7, 9});
}

TEST_CASE("IDX files that are cut off, changed, or lie are refused", "[formats]") {
  require_whole(two_images, parse_images);
  require_whole(two_labels, parse_labels);
  require_sturdy(two_images, parse_images);
  require_sturdy(two_labels, parse_labels);
  require_refused([] { parse_images(two_labels); }, "i.idx",
                  {"byte 0", "0x00000801", "labels", "expected 0x00000803"});
  require_refused([] { parse_labels(two_images); }, "l.idx",
                  {"0x00000803", "images", "expected 0x00000801"});
  Bytes huge = two_images;
  std::fill(huge.begin() + 4, huge.begin() + 16, std::uint8_t{0xff});
  require_refused([&] { parse_images(huge); }, "i.idx",
                  {"4294967295 x 4294967295 x 4294967295", "6 bytes"});
}

// The headers below are byte for byte what NumPy 2.4 wrote for these arrays.
TEST_CASE(".npy files as NumPy writes them", "[formats]") {
  const NpyArray v1 = parse_npy(
      bytes_of(
          "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"s +
          std::string(58, ' ') + "\n" +
          "\x00\x00\x80?\x00\x00 \xc0\x00\x00@@\x00\x00\x80@\x00\x00\xa0@\x00\x00\xc0@"s),
      "a.npy");
  CHECK(v1.dtype == DType::f32);
  CHECK(v1.extents == Extents{2, 3});
  const auto* floats = static_cast<const float*>(v1.view().data());
  CHECK(std::vector(floats, floats + 6) == std::vector<float>{1, -2.5, 3, 4, 5, 6});

  const NpyArray v2 = parse_npy(
      bytes_of(
          "\x93NUMPY\x02\x00t\x00\x00\x00{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }"s +
          std::string(58, ' ') + "\n" +
          "\x00\x00\x00\x00\x00\x00\xe0?\x00\x00\x00\x00\x00\x00\x00@"s),
      "a.npy");
  CHECK(v2.extents == Extents{2});
  const auto* doubles = static_cast<const double*>(v2.view().data());
  CHECK(std::vector(doubles, doubles + 2) == std::vector<double>{0.5, 2});

  const NpyArray v3 = parse_npy(
      bytes_of(
          "\x93NUMPY\x03\x00t\x00\x00\x00{'descr': '<f2', 'fortran_order': False, 'shape': (1, 2), }"s +
          std::string(56, ' ') + "\n" + "\x00\x38\x00\x40"s),
      "a.npy");
  const auto* halves = static_cast<const Half*>(v3.view().data());
  CHECK(static_cast<float>(halves[0]) == 0.5f);
  CHECK(static_cast<float>(halves[1]) == 2.0f);

  const NpyArray none =
      parse_npy(npy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }", ""), "a");
  CHECK(none.extents == Extents{0, 3});
}

TEST_CASE(".npy files round trip", "[formats]") {
  const Folder folder;
  const std::vector<double> values = {1, -2, 3.25, 1e300, 5, 6};
  for (const Extents& extents : {Extents{6}, Extents{2, 3}, Extents{1, 2, 1, 3}}) {
    write_npy(folder / "a.npy", {values.data(), extents});
    const NpyArray read = read_npy(folder / "a.npy");
    CHECK(read.dtype == DType::f64);
    CHECK(read.extents == extents);
    CHECK(std::memcmp(read.data.data(), values.data(), 48) == 0);
    CHECK(npy_header(DType::f64, extents).size() == 128);
  }
}

TEST_CASE(".npy files that Plumb cannot take are refused with the reason", "[formats]") {
  const auto refused = [](const std::string& header, std::initializer_list<const char*> texts) {
    INFO(header);
    require_refused([&] { parse_array(npy_file(header, "1234")); }, "a.npy", texts);
  };
  refused("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }",
          {"fortran_order is True", "C order"});
  refused("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", {"'>f4'", "big-endian"});
  refused("{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }", {"'<i4'", "'<f2'"});
  refused("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", {"structured"});
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", {"0 dimensions"});
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1), }",
          {"7 dimensions", "1 to 6"});
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", {"4 bytes follow"});
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }",
          {"4 bytes follow"});
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
          {"past 2^63"});
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", {"'-'", "integer"});
  refused("{'descr': '<f4', 'fortran_order': False, }", {"no key 'shape'"});
  refused("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", {"again"});
  refused("{'descr': '<f4', 'colour': 1}", {"'colour'"});
  refused("{'descr': '<f4", {"without an end"});
  refused("['descr']", {"expected '{'"});
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } more", {"more text"});
  require_refused([] { parse_array(two_images); }, "a.npy", {"expected a .npy file"});
  Bytes version = npy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "1234");
  version[6] = 4;
  require_refused([&] { parse_array(version); }, "a.npy", {"version 4", "1, 2 or 3"});
}

TEST_CASE(".npy files that are cut off or changed are refused", "[formats]") {
  const Bytes file = npy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "1234");
  require_whole(file, parse_array);
  require_sturdy(file, parse_array);
}

// Byte for byte what the safetensors library 0.8 wrote.
TEST_CASE("safetensors files as their library writes them", "[formats]") {
  const Safetensors file = parse_safetensors(
      safetensors_file(R"({"__metadata__":{"seed":"7"},"a":{"dtype":"F32","shape":[2,2],)"
                       R"("data_offsets":[0,16]},"b":{"dtype":"F16","shape":[1],)"
                       R"("data_offsets":[16,18]}}    )",
                       "\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00\x80@\x00\x38"s),
      "m.safetensors");
  CHECK(file.metadata.at("seed") == "7");
  REQUIRE(file.tensors.size() == 2);
  CHECK(file.tensors.at("a").dtype == DType::f32);
  CHECK(file.tensors.at("a").extents == Extents{2, 2});
  CHECK(file.tensors.at("a").data.size() == 16);
  CHECK(file.tensors.at("b").dtype == DType::f16);
  CHECK(file.tensors.at("b").data == Bytes{0x00, 0x38});
}

TEST_CASE("safetensors files round trip", "[formats]") {
  Safetensors file;
  file.metadata = {{"seed", "1"}, {"note", "\"quoted\" and \xc3\xa4"}};
  file.tensors["b"] = {DType::f64, {1}, Bytes(8, 1)};
  file.tensors["a"] = {DType::bf16, {2, 1}, Bytes(4, 2)};
  file.tensors["scalar"] = {DType::f32, {}, Bytes(4, 3)};
  file.tensors["none"] = {DType::f16, {0, 3}, {}};
  const Bytes content = safetensors_content(file);
  const Safetensors read = parse_safetensors(content, "m.safetensors");
  CHECK(read.metadata == file.metadata);
  REQUIRE(read.tensors.size() == file.tensors.size());
  for (const auto& [name, tensor] : file.tensors) {
    CHECK(read.tensors.at(name).dtype == tensor.dtype);
    CHECK(read.tensors.at(name).extents == tensor.extents);
    CHECK(read.tensors.at(name).data == tensor.data);
  }
  CHECK(safetensors_content(read) == content);
  require_whole(content, parse_tensors);
  require_sturdy(content, parse_tensors);
}

TEST_CASE("safetensors files that lie are refused with the tensor's name", "[formats]") {
  const auto refused = [](const std::string& header, std::initializer_list<const char*> texts) {
    INFO(header);
    require_refused([&] { parse_tensors(safetensors_file(header, "12345678")); }, "m.safetensors",
                    texts);
  };
  const auto tensor = [](const char* dtype, const char* shape, const char* offsets) {
    return R"({"dtype":)"s + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  const auto one = [&](const char* dtype, const char* shape, const char* offsets) {
    return R"({"t":)" + tensor(dtype, shape, offsets) + "}";
  };
  REQUIRE_NOTHROW(parse_tensors(safetensors_file(one(R"("F32")", "[2]", "[0,8]"), "12345678")));
  refused(one(R"("I32")", "[2]", "[0,8]"), {"'t'", "'I32'", "F32, F64, F16 or BF16"});
  refused(one("3", "[2]", "[0,8]"), {"'t'", "no dtype"});
  refused(one(R"("F32")", "[3]", "[0,8]"), {"'t'", "[3]", "8 bytes"});
  refused(one(R"("F32")", "[2]", "[8,0]"), {"'t'", "[begin, end]"});
  refused(one(R"("F32")", "[2]", "[0,8,9]"), {"'t'", "[begin, end]"});
  refused(one(R"("F32")", "[2]", "[8,16]"), {"'t'", "byte 16", "has 8"});
  refused(one(R"("F32")", "[1]", "[4,8]"), {"'t'", "begins at byte 4"});
  refused(one(R"("F32")", "[1]", "[0,4]"), {"end at byte 4", "8 bytes follow"});
  refused(one(R"("F32")", "[-2]", "[0,8]"), {"'t'", "'-2'"});
  refused(one(R"("F32")", "[2.0]", "[0,8]"), {"'t'", "'2.0'"});
  refused(one(R"("F32")", "[2e999]", "[0,8]"), {"number", "double"});
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  refused(one(R"("F32")", deep.c_str(), "[0,8]"), {"'t'", "array"});
  refused(one(R"("F32")", "[4611686018427387904,4]", "[0,8]"), {"'t'"});
  refused(one(R"("F32")", "[2305843009213693952,4]", "[0,8]"), {"'t'"});
  refused(one(R"("F32")", "[1,1,1,1,1,1,2]", "[0,8]"), {"'t'", "7 dimensions"});
  refused(R"({"a":)" + tensor(R"("F32")", "[2]", "[0,8]") + R"(,"b":)" +
              tensor(R"("F32")", "[1]", "[4,8]") + "}",
          {"'b'", "begins at byte 4", "expected 8"});
  refused(R"({"a":)" + tensor(R"("F32")", "[2]", "[0,8]") + R"(,"a":)" +
              tensor(R"("F32")", "[2]", "[0,8]") + "}",
          {"'a'", "twice"});
  refused(R"({"t":{"dtype":"F32","dtype":"F64","shape":[2],"data_offsets":[0,8]}})",
          {"'t'", "'dtype' stands twice"});
  refused(R"({"t":[1]})", {"'t'", "array"});
  refused(R"({"__metadata__":{"seed":1}})", {"'seed'", "not a string"});
  refused("[1]", {"array, expected an object"});
  refused(R"({"t":)", {"byte", "not JSON"});
  require_refused([] { parse_tensors(Bytes(20, 0xff)); }, "m.safetensors", {"header of 18446744"});
  require_refused([] { parse_tensors(two_labels); }, "m.safetensors", {"header of"});
}

TEST_CASE("a model round trips, and another network's is refused", "[formats]") {
  const Folder folder;
  NetworkShape shape;
  shape.resized = 20, shape.filter = 3, shape.hidden = 5;
  Model model;
  const PerParameter<Extents> extents = parameter_extents(shape);
  for (int i = 0; i < parameter_count; ++i)
    model.values[i].assign(static_cast<std::size_t>(element_count(extents[i])),
                           0.5f + static_cast<float>(i));
  model.metadata["seed"] = "3";
  const std::string path = folder / "m.safetensors";
  write_model(path, model, shape);
  const Model read = read_model(path, shape);
  CHECK(read.values == model.values);
  CHECK(read.metadata == model.metadata);

  require_refused([&] { read_model(path, NetworkShape{}); }, path,
                  {"'conv1.weight'", "[4, 1, 3, 3]", "expected [4, 1, 7, 7]"});
  Safetensors file = read_safetensors(path);
  file.tensors["extra"] = {DType::f32, {1}, Bytes(4)};
  write_safetensors(path, file);
  require_refused([&] { read_model(path, shape); }, path, {"'extra'"});
  file.tensors.erase("extra");
  file.tensors.erase("conv2.bias");
  write_safetensors(path, file);
  require_refused([&] { read_model(path, shape); }, path, {"no tensor 'conv2.bias'"});
}

TEST_CASE("images and labels must belong together", "[formats]") {
  const Folder folder;
  const DatasetPaths paths{folder / "images", folder / "labels"};
  write_plain(paths.images, two_images);
  write_gzip(paths.labels, two_labels);
  const Dataset both = read_dataset(paths, 0, 10);
  CHECK(both.images.count == 2);
  CHECK(both.labels == Bytes{7, 9});
  const Dataset first = read_dataset(paths, 1, 10);
  CHECK(first.images.count == 1);
  CHECK(first.images.pixels == bytes_of("abc"));
  CHECK(first.labels == Bytes{7});
  CHECK(read_dataset(paths, 3, 10).images.count == 2);

  require_refused([&] { read_dataset(paths, 0, 9); }, paths.labels, {"label 1 is 9", "0 to 8"});
  write_plain(paths.labels, bytes_of("\0\0\x08\x01\0\0\0\x01\x07"s));
  require_refused([&] { read_dataset(paths, 0, 10); }, paths.labels, {"1 labels", "2 images"});
  write_plain(paths.images, bytes_of("\0\0\x08\x03\0\0\0\0\0\0\0\x01\0\0\0\x03"s));
  require_refused([&] { read_dataset(paths, 0, 10); }, paths.images, {"0 images"});
}
