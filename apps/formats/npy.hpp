// NumPy's .npy files: a magic string, a header written as a Python dictionary, then the elements.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <string>

#include "formats/file.hpp"
#include "plumb/tensor.hpp"

namespace plumb::app {

/// One array in C order: f32, f64 or f16, of 1 to 6 dimensions.
struct NpyArray {
  DType dtype = DType::f32;
  Extents extents;
  Bytes data;

  ConstTensorView view() const { return {data.data(), dtype, extents}; }
};

/// A file's content (format versions 1, 2 and 3) as an array. FileError, naming the file by
/// `name`, for Fortran order, big-endian or other element types, and wherever the header cannot
/// be read or does not agree with the number of bytes.
NpyArray parse_npy(const Bytes& content, const std::string& name);
NpyArray read_npy(const std::string& path);

/// The file of a dense host tensor, version 1.
Bytes npy_header(DType dtype, const Extents& extents);
void write_npy(const std::string& path, const ConstTensorView& array);

}  // namespace plumb::app
