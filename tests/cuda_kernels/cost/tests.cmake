# The program of scripts/fit_costs, built on demand: the CUDA backend's own kernels and planners, with
# tables of costs that can be changed while it runs.
if(NOT PLUMB_HAVE_CUDA OR NOT BUILD_SHARED_LIBS OR NOT TARGET plumb_app_support)
  return()
endif()
add_executable(plumb_fit_costs EXCLUDE_FROM_ALL
               ${CMAKE_CURRENT_LIST_DIR}/fit_costs.cpp ${CMAKE_CURRENT_LIST_DIR}/records.cpp
               ${CMAKE_CURRENT_LIST_DIR}/regret.cpp ${CMAKE_CURRENT_LIST_DIR}/table_file.cpp
               $<TARGET_OBJECTS:plumb_cuda>)
target_include_directories(plumb_fit_costs PRIVATE ${CMAKE_CURRENT_LIST_DIR} ${PROJECT_SOURCE_DIR})
target_link_libraries(plumb_fit_costs PRIVATE plumb_compiler Eigen3::Eigen plumb_app_support
                      $<TARGET_PROPERTY:plumb_cuda,LINK_LIBRARIES>)
