// Labelled images.
#include "dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace plumb::app {
namespace {

constexpr const char* debian_folder = "/usr/share/datasets/fashion-mnist";

std::string find_default(const std::string& file) {
  const char* folder = secure_getenv("PLUMB_DATA_DIR");
  const std::string plain = fmt::format("{}/{}", folder ? folder : debian_folder, file);
  std::error_code ignored;
  for (const std::string& path : {plain + ".gz", plain})
    if (std::filesystem::exists(path, ignored)) return path;
  throw FileError(fmt::format("{}.gz: no such file; {}", shown_path(plain),
                              folder ? "PLUMB_DATA_DIR names that folder"
                                     : "Debian's package dataset-fashion-mnist gives it, or name "
                                       "the files with --images and --labels"));
}

}  // namespace

DatasetPaths find_dataset(DatasetPaths paths, Split split) {
  const char* prefix = split == Split::train ? "train" : "t10k";
  if (paths.images.empty())
    paths.images = find_default(fmt::format("{}-images-idx3-ubyte", prefix));
  if (paths.labels.empty())
    paths.labels = find_default(fmt::format("{}-labels-idx1-ubyte", prefix));
  return paths;
}

Dataset read_dataset(const DatasetPaths& paths, std::int64_t limit, std::int64_t classes) {
  Dataset dataset{read_idx_images(paths.images), read_idx_labels(paths.labels)};
  IdxImages& images = dataset.images;
  if (images.pixels.empty())
    throw FileError(fmt::format("{}: {} images of {}x{}, expected at least one pixel",
                                shown_path(paths.images), images.count, images.height,
                                images.width));
  if (static_cast<std::size_t>(images.count) != dataset.labels.size())
    throw FileError(fmt::format("{}: {} labels for the {} images of {}", shown_path(paths.labels),
                                dataset.labels.size(), images.count, shown_path(paths.images)));
  const auto wrong = std::find_if(dataset.labels.begin(), dataset.labels.end(),
                                  [&](std::uint8_t label) { return label >= classes; });
  if (wrong != dataset.labels.end())
    throw FileError(fmt::format("{}: label {} is {}, expected 0 to {}", shown_path(paths.labels),
                                wrong - dataset.labels.begin(), *wrong, classes - 1));
  if (limit > 0 && limit < images.count) {
    images.count = limit;
    images.pixels.resize(static_cast<std::size_t>(limit * images.height * images.width));
    dataset.labels.resize(static_cast<std::size_t>(limit));
  }
  return dataset;
}

}  // namespace plumb::app
