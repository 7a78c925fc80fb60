// The file of the tuning cache: where it is, reading it, and adding to it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "cache_text.hpp"

namespace plumb {

struct TuneCachePlace {
  std::string path;      ///< empty: there is none
  std::string sentence;  ///< why
};
/// As the environment has it now.
TuneCachePlace tune_cache_place();

struct TuneCacheFile {
  std::map<TuneKey, std::vector<TunedTime>> entries;
  std::string sentence;  ///< why it cannot be used; empty where it can
};
/// What is in the file, read again only when it has changed. Never throws because of the file.
std::shared_ptr<const TuneCacheFile> read_tune_cache_file(const std::string& path);

/// Adds an entry to what is in the file, or to nothing where that is damaged; times of the same
/// algorithm, and entries of other software for the same device and problem, give way. Several
/// processes may do so at once: each waits for its turn, and readers see the old file or the new.
/// Returns what was found damaged, or empty. Error (device_failure) says what could not be done;
/// a file that is something else than a tuning cache is left alone and such an error.
std::string add_to_tune_cache_file(const std::string& path, const TuneEntry& entry);

}  // namespace plumb
