// What the values of options may be: every number on the command line comes through here.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace plumb::app {

/// A decimal integer from `least` to `most`, and nothing else. To be given to transform(): CLI11
/// would take 010 for 8, and -1 for the largest number without a sign.
CLI::Validator integer_in(std::int64_t least, std::uint64_t most);

/// A finite decimal number from `least` to `most`.
CLI::Validator number_in(double least, double most);
/// The same without `bound` itself.
CLI::Validator number_above(double bound, double most);

/// Bytes: a decimal integer, with a unit or without. K, KB and KiB are all 1024, likewise M, G, T.
CLI::Validator byte_count();

/// One of the names.
CLI::Validator one_of(std::vector<std::string> names);

namespace detail {
template <class T>
struct ElementOf {
  using type = T;
};
template <class T>
struct ElementOf<std::vector<T>> {
  using type = T;
};
}  // namespace detail

/// An option for an integer from `least` to what T can hold, or to `most`; for several where T is a
/// vector.
template <class T, class Element = typename detail::ElementOf<T>::type>
CLI::Option* add_integer(CLI::App& command, const std::string& name, T& value, std::int64_t least,
                         const std::string& help,
                         Element most = std::numeric_limits<Element>::max()) {
  static_assert(std::is_integral_v<Element>);
  return command.add_option(name, value, help)
      ->transform(integer_in(least, static_cast<std::uint64_t>(most)));
}

/// --reproducible.
CLI::Option* add_reproducible(CLI::App& command, bool& reproducible);
/// --seed.
CLI::Option* add_seed(CLI::App& command, std::uint64_t& seed, const std::string& help);

/// Every `of`-th piece of some work, beginning with the piece number `part`, which counts from 1:
/// `of` processes with the parts 1 to `of` do all of it.
struct Share {
  std::int64_t part = 1, of = 1;

  /// How many of `total` pieces are this part's.
  std::int64_t count(std::int64_t total) const { return (total - part + of) / of; }
  /// The number of this part's piece `i` among all, both counted from 0.
  std::int64_t piece(std::int64_t i) const { return part - 1 + i * of; }
};
std::string to_string(const Share& share);  ///< "2/4"
/// --share PART/OF.
CLI::Option* add_share(CLI::App& command, Share& share, const std::string& help);

/// A time in seconds: 0 or more, and no more than thirty years.
CLI::Option* add_seconds(CLI::App& command, const std::string& name, double& seconds,
                         const std::string& help);

}  // namespace plumb::app
