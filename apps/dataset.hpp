// Labelled images, and where they are when nobody says.
#pragma once

#include <string>

#include "formats/idx.hpp"

namespace plumb::app {

struct Dataset {
  IdxImages images;
  Bytes labels;  ///< one for each image, below the number of classes
};

enum class Split { train, test };

/// Where the images and labels of a dataset are: given on the command line, or (both empty) those
/// of Fashion-MNIST as Debian's package dataset-fashion-mnist installs them. PLUMB_DATA_DIR names
/// another folder with files of the same names, .gz or plain.
struct DatasetPaths {
  std::string images, labels;
};
/// Fills in what is empty. FileError where the default files are not there.
DatasetPaths find_dataset(DatasetPaths paths, Split split);

/// The first `limit` images (all where it is 0) and their labels. FileError where the two files
/// do not belong together, hold no image, or hold a label of `classes` or more.
Dataset read_dataset(const DatasetPaths& paths, std::int64_t limit, std::int64_t classes);

}  // namespace plumb::app
