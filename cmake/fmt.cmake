# plumb_fmt: fmt as headers, but for its largest function, which is compiled once and not in every source that formats.
# libplumb hides its symbols: it has a copy of that function, and modules and programs link another.
find_package(fmt REQUIRED)
set(plumb_fmt_once ${PROJECT_SOURCE_DIR}/cmake/fmt/fmt_once.cpp)
add_library(plumb_fmt_headers INTERFACE)
target_include_directories(plumb_fmt_headers SYSTEM BEFORE INTERFACE ${PROJECT_SOURCE_DIR}/cmake/fmt)
target_link_libraries(plumb_fmt_headers INTERFACE fmt::fmt-header-only)
add_library(plumb_fmt_once STATIC EXCLUDE_FROM_ALL ${plumb_fmt_once})
target_link_libraries(plumb_fmt_once PRIVATE plumb_fmt_headers plumb_compiler)
set_target_properties(plumb_fmt_once PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
add_library(plumb_fmt INTERFACE)
target_link_libraries(plumb_fmt INTERFACE plumb_fmt_headers plumb_fmt_once)
