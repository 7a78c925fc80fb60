// What every operator asks of sizes, windows and strides, so that nothing that is computed from
// them overflows. Each throws Error (invalid_argument) that names the value met and what was
// expected.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plumb/types.hpp"

namespace plumb {

/// "<operation>: <message>"
[[noreturn]] void refuse_argument(std::string_view operation, std::string_view message);

/// A size of at least `minimum`, and at most 2^48, which keeps every sum of a few of them, and
/// every product of one with a small number, far from overflow.
void check_size(std::string_view operation, std::string_view name, std::int64_t value,
                std::int64_t minimum);

/// That a window ("filter") of so many taps fits into the padded image, however far dilation
/// reaches. The sizes have been checked.
void check_window_fits(std::string_view operation, std::string_view window, std::int64_t taps,
                       std::int64_t dilation, std::int64_t padded, std::string_view side);

/// That there is a stride for each extent, that no extent is negative, and that no element lies
/// more than 2^58 elements from the one of index zero: byte offsets, and differences of two of
/// them, then fit into 64 bits.
void check_layout(std::string_view operation, std::string_view tensor, const Extents& extents,
                  const Strides& strides);

/// The same of what is written, which must not overlap itself either.
void check_output_layout(std::string_view operation, std::string_view tensor,
                         const Extents& extents, const Strides& strides);

}  // namespace plumb
