# The kernels of backward weights compiled for the host, where threads are fibers: a program of its own,
# as that of fields, whose emulation it shares.
set(emulation ${CMAKE_CURRENT_LIST_DIR}/emulation)
set(fibers ${PROJECT_SOURCE_DIR}/tests/cuda_kernels/fields/emulation)
set(kernels ${PROJECT_SOURCE_DIR}/cuda_kernels)
if(PLUMB_SANITIZE MATCHES thread)  # it follows no fibers
  return()
endif()
add_executable(plumb_emulated_weights
  ${emulation}/kernels.cpp ${emulation}/test_weights.cpp ${fibers}/emulation.cpp ${fibers}/main.cpp
  ${kernels}/weights/weights_plan.cpp ${kernels}/cost/weights.cpp ${kernels}/cost/kernel_model.cpp
  ${kernels}/cost/machine.cpp ${kernels}/cost/tables.cpp ${kernels}/conv/conv_support.cpp)
# Its headers take the place of the few that speak to the device.
target_include_directories(plumb_emulated_weights BEFORE PRIVATE ${emulation}/shadows ${fibers}/shadows ${fibers} ${emulation})
target_include_directories(plumb_emulated_weights PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR})
target_link_libraries(plumb_emulated_weights PRIVATE plumb::plumb plumb_compiler fmt::fmt-header-only Catch2::Catch2)
# Warnings of kernels are the matter of their own compiler.
set_source_files_properties(${emulation}/kernels.cpp PROPERTIES
  COMPILE_OPTIONS "-include;${fibers}/device_words.hpp;-w;-O1")
catch_discover_tests(plumb_emulated_weights DISCOVERY_MODE PRE_TEST PROPERTIES SKIP_RETURN_CODE 4)
