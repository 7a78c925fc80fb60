// Reads an ELF file's own account of its size.
#include "module_file.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>

namespace plumb {
namespace {

template <class T>
bool read_at(std::ifstream& in, std::uint64_t offset, T& value) {
  in.seekg(static_cast<std::streamoff>(offset));
  return static_cast<bool>(in.read(reinterpret_cast<char*>(&value), sizeof value));
}

}  // namespace

std::string missing_part(const std::filesystem::path& file) {
  std::error_code failed;
  const std::uint64_t bytes = std::filesystem::file_size(file, failed);
  if (failed) return {};
  const auto cut_off = [&](std::uint64_t least) {
    return fmt::format("the file is cut off after {} bytes; it had {} or more", bytes, least);
  };
  std::ifstream in(file, std::ios::binary);
  Elf64_Ehdr header{};
  if (!read_at(in, 0, header)) return in.is_open() ? cut_off(sizeof header) : std::string();
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(Elf64_Phdr))
    return {};
  // The table of sections stands last in what linkers write, and what strips it sets it to zero.
  std::uint64_t least =
      std::max<std::uint64_t>(header.e_phoff + std::uint64_t{header.e_phnum} * header.e_phentsize,
                              header.e_shoff + std::uint64_t{header.e_shnum} * header.e_shentsize);
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    if (!read_at(in, header.e_phoff + i * sizeof part, part)) return cut_off(least);
    least = std::max(least, part.p_offset + part.p_filesz);
  }
  return bytes < least ? cut_off(least) : std::string();
}

}  // namespace plumb
