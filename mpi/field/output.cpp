#include "output.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "plumb/error.hpp"
#ifdef PLUMB_FIELD_HDF5
#include <hdf5.h>
#endif

namespace plumb::field {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw Error(ErrorCode::device_failure, fmt::format("{}: {}", path, what));
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  if (!file.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush())
    fail(path, "cannot be written");
}

/// A chunk of a PNG file: length, name and data, checksum.
void add_chunk(std::string& png, const std::string& name, const std::string& data) {
  const auto add_number = [&](std::uint32_t number) {
    for (int shift = 24; shift >= 0; shift -= 8) png += static_cast<char>(number >> shift & 255);
  };
  add_number(static_cast<std::uint32_t>(data.size()));
  const std::string summed = name + data;
  png += summed;
  add_number(static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(summed.data()), static_cast<uInt>(summed.size()))));
}

/// Rows of red, green and blue, each behind a filter type of 0.
std::string png_of(const std::string& rows, std::int64_t width, std::int64_t height) {
  std::string png = "\x89PNG\r\n\x1a\n", header;
  for (const std::int64_t size : {width, height})
    for (int shift = 24; shift >= 0; shift -= 8) header += static_cast<char>(size >> shift & 255);
  header += std::string("\x08\x02\x00\x00\x00", 5);  // 8 bits of three colours
  add_chunk(png, "IHDR", header);
  uLongf size = compressBound(rows.size());
  std::string packed(size, 0);
  if (compress(reinterpret_cast<Bytef*>(packed.data()), &size,
               reinterpret_cast<const Bytef*>(rows.data()), rows.size()) != Z_OK)
    throw Error(ErrorCode::out_of_memory, "no memory to compress a picture");
  packed.resize(size);
  add_chunk(png, "IDAT", packed);
  add_chunk(png, "IEND", {});
  return png;
}

std::string coloured(const std::vector<double>& plane, std::int64_t width, std::int64_t height) {
  double largest = 1e-300;
  for (const double value : plane) largest = std::max(largest, std::abs(value));
  std::string rows;
  for (std::int64_t i = 0; i < height; ++i) {
    rows += '\0';
    for (std::int64_t j = 0; j < width; ++j) {
      const double share = plane[static_cast<std::size_t>(i * width + j)] / largest;
      const auto faded = static_cast<char>(static_cast<int>(255 * (1 - std::abs(share))));
      const auto full = static_cast<char>(255);
      rows += share >= 0 ? full : faded;
      rows += faded;
      rows += share >= 0 ? faded : full;
    }
  }
  return rows;
}

}  // namespace

void write_picture(MPI_Comm communicator, const std::string& path, const FieldBlock& block) {
  const std::int64_t middle = block.whole[0] / 2, height = block.whole[1], width = block.whole[2];
  std::vector<double> own(static_cast<std::size_t>(width * height)), plane(own.size());
  const std::int64_t at = middle - block.begin[0];
  if (at >= 0 && at < block.extents[0]) {
    const ConstTensorView view(block.values->data(), block.dtype,
                               {block.extents[0], block.extents[1], block.extents[2]});
    for (std::int64_t i = 0; i < block.extents[1]; ++i)
      for (std::int64_t j = 0; j < block.extents[2]; ++j)
        own[static_cast<std::size_t>((block.begin[1] + i) * width + block.begin[2] + j)] =
            load_element(view, (at * block.extents[1] + i) * block.extents[2] + j);
  }
  MPI_Reduce(own.data(), plane.data(), static_cast<int>(own.size()), MPI_DOUBLE, MPI_SUM, 0,
             communicator);
  int rank = 0;
  MPI_Comm_rank(communicator, &rank);
  if (rank == 0) write_file(path, png_of(coloured(plane, width, height), width, height));
}

#ifdef PLUMB_FIELD_HDF5
bool writes_hdf5() { return true; }

namespace {

/// An identifier of HDF5's that is closed with the scope.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t), const std::string& path, const char* what)
      : id_(id), close_(close) {
    if (id < 0) fail(path, what);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { close_(id_); }
  operator hid_t() const { return id_; }  // NOLINT: serves as it

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

std::string xdmf_of(const std::string& path, const FieldBlock& block) {
  const auto& [d, h, w] = block.whole;
  const std::string name = path.substr(path.find_last_of('/') + 1);
  return fmt::format(R"(<?xml version="1.0"?>
<Xdmf Version="3.0"><Domain><Grid Name="u" GridType="Uniform">
  <Topology TopologyType="3DCoRectMesh" Dimensions="{0} {1} {2}"/>
  <Geometry GeometryType="ORIGIN_DXDYDZ">
    <DataItem Format="XML" Dimensions="3">0 0 0</DataItem>
    <DataItem Format="XML" Dimensions="3">1 1 1</DataItem>
  </Geometry>
  <Attribute Name="u" AttributeType="Scalar" Center="Node">
    <DataItem Format="HDF" NumberType="Float" Precision="{3}" Dimensions="{0} {1} {2}">{4}:/u</DataItem>
  </Attribute>
</Grid></Domain></Xdmf>
)",
                     d, h, w, size_in_bytes(block.dtype), name);
}

}  // namespace

void write_hdf5(MPI_Comm communicator, const std::string& path, const FieldBlock& block) {
  int rank = 0;
  MPI_Comm_rank(communicator, &rank);
  hsize_t whole[3], begin[3], extents[3];
  for (std::size_t i = 0; i < 3; ++i) {
    whole[i] = static_cast<hsize_t>(block.whole[i]);
    begin[i] = static_cast<hsize_t>(block.begin[i]);
    extents[i] = static_cast<hsize_t>(block.extents[i]);
  }
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // what is wrong is said once
  const hid_t stored = block.dtype == DType::f64 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE;
  const hid_t native = block.dtype == DType::f64 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT;
  {
    const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, path, "no property list");
    H5Pset_fapl_mpio(access, communicator, MPI_INFO_NULL);
    const Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose, path,
                      "cannot be made by HDF5");
    const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, path, "no property list");
    H5Pset_obj_track_times(creation, 0);  // the same field is the same file
    const Handle space(H5Screate_simple(3, whole, nullptr), H5Sclose, path, "no space");
    const Handle dataset(H5Dcreate2(file, "u", stored, space, H5P_DEFAULT, creation, H5P_DEFAULT),
                         H5Dclose, path, "the dataset u cannot be made");
    const Handle memory(H5Screate_simple(3, extents, nullptr), H5Sclose, path, "no space");
    H5Sselect_hyperslab(space, H5S_SELECT_SET, begin, nullptr, extents, nullptr);
    const Handle transfer(H5Pcreate(H5P_DATASET_XFER), H5Pclose, path, "no property list");
    H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
    if (H5Dwrite(dataset, native, memory, space, transfer, block.values->data()) < 0)
      fail(path, "cannot be written by HDF5");
  }
  const std::size_t dot = path.find_last_of('.');
  if (rank == 0) write_file(path.substr(0, dot) + ".xdmf", xdmf_of(path, block));
}
#else
bool writes_hdf5() { return false; }

void write_hdf5(MPI_Comm, const std::string&, const FieldBlock&) {
  throw Error(ErrorCode::unsupported,
              "--out: built without parallel HDF5; scripts/deps hdf5 installs it");
}
#endif

}  // namespace plumb::field
