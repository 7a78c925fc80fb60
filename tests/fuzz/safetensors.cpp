// Fuzzes the reader of safetensors files: what it accepts is the same after it is written again.
#include "formats/safetensors.hpp"

#include <algorithm>
#include <cstdlib>

using namespace plumb::app;

namespace {

bool same(const StoredTensor& a, const StoredTensor& b) {
  return a.dtype == b.dtype && a.extents == b.extents && a.data == b.data;
}

void require_round_trip(const Safetensors& file) {
  // A FileError here is not caught: what is written must be accepted.
  const Safetensors again = parse_safetensors(safetensors_content(file), "fuzz");
  if (again.metadata != file.metadata ||
      !std::equal(again.tensors.begin(), again.tensors.end(), file.tensors.begin(),
                  file.tensors.end(), [](const auto& a, const auto& b) {
                    return a.first == b.first && same(a.second, b.second);
                  }))
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Safetensors file;
  try {
    file = parse_safetensors(Bytes(data, data + size), "fuzz");
  } catch (const FileError&) {
    return 0;
  }
  require_round_trip(file);
  return 0;
}
