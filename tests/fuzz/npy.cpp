// Fuzzes the reader of .npy files: what it accepts is the same array after it is written again.
#include "formats/npy.hpp"

#include <cstdlib>

using namespace plumb::app;

namespace {

void require_round_trip(const NpyArray& array) {
  // A FileError here is not caught: what is written must be accepted.
  Bytes written = npy_header(array.dtype, array.extents);
  written.insert(written.end(), array.data.begin(), array.data.end());
  const NpyArray again = parse_npy(std::move(written), "fuzz");
  if (again.dtype != array.dtype || again.extents != array.extents || again.data != array.data)
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  NpyArray array;
  try {
    array = parse_npy(Bytes(data, data + size), "fuzz");
  } catch (const FileError&) {
    return 0;
  }
  require_round_trip(array);
  return 0;
}
