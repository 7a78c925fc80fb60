// IDX files, the format of MNIST and its relatives: big-endian, a magic number that gives element
// type and rank, the extents, then the elements. http://yann.lecun.com/exdb/mnist/
#pragma once

#include <cstdint>
#include <string>

#include "formats/file.hpp"

namespace plumb::app {

/// Grey images, one byte a pixel, 0 black to 255: count x height x width, dense.
struct IdxImages {
  std::int64_t count = 0, height = 0, width = 0;
  Bytes pixels;
};

/// A file's content as images, or as one label a byte. FileError where the magic number, the
/// extents or the number of bytes are not those of such a file; `name` is the file's, for it.
IdxImages parse_idx_images(const Bytes& content, const std::string& name);
Bytes parse_idx_labels(const Bytes& content, const std::string& name);

/// The same from a file, gzip or plain, of which no more is read than the header promises and a
/// byte.
IdxImages read_idx_images(const std::string& path);
Bytes read_idx_labels(const std::string& path);

}  // namespace plumb::app
