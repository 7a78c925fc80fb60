// Safetensors files: the header's length, a JSON header, then the tensors' bytes.
// https://github.com/huggingface/safetensors#format
#pragma once

#include <map>
#include <string>
#include <vector>

#include "formats/file.hpp"
#include "plumb/tensor.hpp"

namespace plumb::app {

/// One tensor of a file, dense and little-endian.
struct StoredTensor {
  DType dtype = DType::f32;
  Extents extents;  ///< of rank 0 for a scalar
  Bytes data;
};

/// Its elements, rounded to float where they are wider.
std::vector<float> as_floats(const StoredTensor& tensor);

struct Safetensors {
  std::map<std::string, std::string> metadata;  ///< what stands under "__metadata__"
  std::map<std::string, StoredTensor> tensors;
};

/// A file's content. FileError, naming the file by `name` and the tensor or byte, where the
/// header is no such JSON, an element type is other than F32, F64, F16 or BF16, or the tensors do
/// not fill the rest of the file, one after another, without gaps.
Safetensors parse_safetensors(const Bytes& content, const std::string& name);
Safetensors read_safetensors(const std::string& path);

/// The content of a file with these tensors, in the order of their names; the same tensors and
/// metadata give the same bytes.
Bytes safetensors_content(const Safetensors& file);
void write_safetensors(const std::string& path, const Safetensors& file);

}  // namespace plumb::app
