#include <fmt/format.h>

#ifdef PLUMB_FMT_ONCE
FMT_BEGIN_NAMESPACE
namespace detail {
template PLUMB_FMT_ONCE;
}
FMT_END_NAMESPACE
#endif
