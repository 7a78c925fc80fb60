// A file written as a whole: beside the one that it replaces, and renamed into its place at the
// end. Compiled into the program too, whose files are written in the same way.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>

namespace plumb {

/// Where a file written to `path` lies: at the end of its symbolic links, which need not be there
/// yet. Links that the system does not follow for this user are an error, and so is a circle of
/// them. std::system_error says what could not be done.
std::string followed_links(const std::string& path);

/// Opens a file for writing that is not there yet. -1 and errno as open(2): EEXIST where the name
/// is taken, be it by a symbolic link.
int create_new_file(const std::string& path, mode_t mode) noexcept;

/// A new file beside the target, under a name that nobody can foresee. It takes the target's place
/// or goes away: whoever reads the target sees the old content or the new, and on failure the old
/// file is as it was. The target is what `path` leads to through symbolic links, so that links stay
/// links and a dangling one gets its file. Mode, owner and group of an old file are kept; where the
/// user may not give it that group, the group has no rights. A new one is made under the umask.
/// Errors are std::system_error whose what() is a sentence without the path.
class ReplacementFile {
 public:
  explicit ReplacementFile(const std::string& path);
  ~ReplacementFile();
  ReplacementFile(const ReplacementFile&) = delete;
  ReplacementFile& operator=(const ReplacementFile&) = delete;

  void write(std::string_view bytes);
  /// Written to the disk, then renamed.
  void commit();

 private:
  void create(mode_t mode);

  std::string target_, temporary_;
  int descriptor_ = -1;
};

/// All of it to an open file. std::system_error as above.
void write_all(int descriptor, std::string_view bytes);

}  // namespace plumb
