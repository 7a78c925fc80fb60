# The field kernels' sources compiled for the host, where threads are fibers: a program of its own,
# since the module has functions of the same names.
set(emulation ${CMAKE_CURRENT_LIST_DIR}/emulation)
set(fields ${PROJECT_SOURCE_DIR}/cuda_kernels/fields)
file(GLOB field_planner CONFIGURE_DEPENDS ${fields}/field_*.cpp)
if(NOT PLUMB_SANITIZE MATCHES thread)  # it follows no fibers
  add_executable(plumb_emulated_fields
    ${emulation}/emulation.cpp ${emulation}/kernels_f32.cpp ${emulation}/kernels_f64.cpp
    ${emulation}/main.cpp ${emulation}/test_bits.cpp ${emulation}/test_emulation.cpp
    ${emulation}/test_fields.cpp ${emulation}/weights_tree_on_host.cpp
    ${field_planner})
  # Its headers take the place of the few that speak to the device.
  target_include_directories(plumb_emulated_fields BEFORE PRIVATE ${emulation}/shadows ${emulation})
  target_include_directories(plumb_emulated_fields PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR})
  target_link_libraries(plumb_emulated_fields PRIVATE plumb::plumb plumb_compiler Catch2::Catch2)
  # Warnings of kernels are the matter of their own compiler.
  set_source_files_properties(${emulation}/kernels_f32.cpp ${emulation}/kernels_f64.cpp
    ${emulation}/weights_tree_on_host.cpp PROPERTIES
    COMPILE_OPTIONS "-include;${emulation}/device_words.hpp;-w;-O1")
  catch_discover_tests(plumb_emulated_fields DISCOVERY_MODE PRE_TEST PROPERTIES SKIP_RETURN_CODE 4)
endif()

# The sweep over plans, built on demand, with the kernels themselves and not the module.
if(NOT PLUMB_HAVE_CUDA)
  return()
endif()
add_executable(plumb_sweep_fields EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/sweep.cu
  ${fields}/fields_f32.cu ${fields}/fields_f64.cu ${field_planner}
  ${PROJECT_SOURCE_DIR}/cuda_kernels/primitives/check.cpp
  ${PROJECT_SOURCE_DIR}/cuda_kernels/primitives/tensor_map.cpp)
target_include_directories(plumb_sweep_fields PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(plumb_sweep_fields PRIVATE plumb::plumb plumb_compiler fmt::fmt-header-only CUDA::cudart_static)
# The check reads the extents of a problem, which are std::array.
target_compile_options(plumb_sweep_fields PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
