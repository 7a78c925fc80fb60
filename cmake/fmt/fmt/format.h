// fmt's headers without vformat_to(), which every source that formats would compile again: 4 s of
// g++ 12 at -O2, 9 s with sanitizers. fmt_once.cpp has it.
#pragma once
#include_next <fmt/format.h>

#if FMT_VERSION / 10000 == 9
#define PLUMB_FMT_ONCE                                          \
  void vformat_to<char>(buffer<char>&, basic_string_view<char>, \
                        basic_format_args<buffer_context<char>>, locale_ref)
FMT_BEGIN_NAMESPACE
namespace detail {
extern template PLUMB_FMT_ONCE;
}
FMT_END_NAMESPACE
#endif
