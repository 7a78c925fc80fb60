// Fuzzes the reader of IDX files: what it accepts has the bytes that its extents ask for.
#include "formats/idx.hpp"

#include <cstdlib>

using namespace plumb::app;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes content(data, data + size);
  try {
    const IdxImages images = parse_idx_images(content, "fuzz");
    const auto pixels = static_cast<std::int64_t>(images.pixels.size());
    if (images.count * images.height * images.width != pixels || images.pixels.size() + 16 != size)
      std::abort();
  } catch (const FileError&) {
  }
  try {
    if (parse_idx_labels(content, "fuzz").size() + 8 != size) std::abort();
  } catch (const FileError&) {
  }
  return 0;
}
