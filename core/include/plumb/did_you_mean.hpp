// A message about an unknown name suggests the one that was probably meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plumb/export.h"

namespace plumb {

/// Returns how a message about an unknown name ends: `; did you mean 'cuda'?` with the one of
/// `names` that is nearest to `given`, the first of equals, or an empty string where none is near.
/// A name is near where at most a third of the longer one's letters are missing, added, replaced or
/// swapped with their neighbour (the restricted distance of Damerau 1964, A technique for computer
/// detection and correction of spelling errors), or where one begins with the other. The first
/// letters have to agree; case has no effect. The function takes time and memory by the lengths of
/// `names`, however long `given` is. It throws std::bad_alloc.
PLUMB_API std::string did_you_mean(std::string_view given, std::span<const std::string_view> names);

}  // namespace plumb
