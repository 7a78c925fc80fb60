// Bytes from outside, read from the front: no reader of a format holds more of them than the file's
// header has promised.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace plumb::app {

using Bytes = std::vector<std::uint8_t>;

/// How many bytes a source has still.
struct Remaining {
  std::uint64_t bytes = 0;
  bool exact = false;  ///< so many; otherwise no more than so many
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// The file's, fit for a message.
  const std::string& name() const { return name_; }
  std::uint64_t position() const { return position_; }

  /// Fills `to`; the number of bytes, fewer than it has only where the source ends. FileError where
  /// a file cannot be read, or its gzip data are cut off or damaged.
  std::size_t read(std::span<std::uint8_t> to) {
    const std::size_t count = read_some(to);
    position_ += count;
    return count;
  }
  virtual Remaining remaining() const = 0;

 protected:
  explicit ByteSource(std::string name) : name_(std::move(name)) {}

 private:
  virtual std::size_t read_some(std::span<std::uint8_t> to) = 0;

  std::string name_;
  std::uint64_t position_ = 0;
};

/// Bytes that are there already, and outlive it.
class MemorySource final : public ByteSource {
 public:
  MemorySource(std::span<const std::uint8_t> bytes, std::string name)
      : ByteSource(std::move(name)), rest_(bytes) {}
  Remaining remaining() const override { return {rest_.size(), true}; }

 private:
  std::size_t read_some(std::span<std::uint8_t> to) override;

  std::span<const std::uint8_t> rest_;
};

/// A file, uncompressed as it is read where it is gzip. Of a gzip file remaining() is what its
/// compressed bytes could become at most, of a pipe or a device there is no limit.
class FileSource final : public ByteSource {
 public:
  /// FileError names the path and what failed.
  explicit FileSource(const std::string& path);
  ~FileSource() override;
  Remaining remaining() const override;

 private:
  std::size_t read_some(std::span<std::uint8_t> to) override;

  struct Gzip;
  std::unique_ptr<Gzip> gzip_;
  std::optional<std::uint64_t> stored_bytes_;  ///< of a regular file
};

/// The next `bytes` bytes, or fewer where the source ends before. Memory grows with what is really
/// there. FileError where there is no memory for it.
Bytes read_up_to(ByteSource& source, std::uint64_t bytes);

/// The rest of a source, which must be `promised` bytes: nothing stands for more than 2^62. Where
/// that cannot be, it is refused before anything is allocated. FileError begins with the name and
/// `promise`, which says what promises it and how much.
Bytes read_promised(ByteSource& source, std::optional<std::uint64_t> promised,
                    const std::string& promise);

/// FileError as that of read_promised(), where `promised` bytes cannot follow, as far as that shows
/// without reading on.
void require_possible(const ByteSource& source, std::optional<std::uint64_t> promised,
                      const std::string& promise);

/// FileError as that of read_promised(), where anything follows.
void require_end(ByteSource& source, const std::string& promise);

}  // namespace plumb::app
