# How libplumb is loaded, and from where it loads: without memory, again and again, after the working
# folder changed, in a setuid program; and that no file of the tree searches the working folder.
add_test(NAME "rules: run paths of the build tree"
         COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/../rules/check_runpath ${PROJECT_BINARY_DIR}/bin
                 ${PROJECT_BINARY_DIR}/lib ${CMAKE_CURRENT_BINARY_DIR})
add_test(NAME "rules: the check of run paths finds each breach"
         COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/../rules/check_runpath_test ${CMAKE_CXX_COMPILER})
if(NOT BUILD_SHARED_LIBS)
  return()
endif()

# A program that opens libplumb, which it is not linked to.
function(loading_program source)
  cmake_path(GET source STEM name)
  add_executable(loading_${name} ${CMAKE_CURRENT_LIST_DIR}/${source})
  target_include_directories(loading_${name} PRIVATE
    $<TARGET_PROPERTY:plumb,INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_libraries(loading_${name} PRIVATE plumb_compiler ${CMAKE_DL_LIBS})
  add_dependencies(loading_${name} plumb)
endfunction()

loading_program(reopen.cpp)
add_test(NAME "loading: opened, used on two threads and closed, a thousand times"
         COMMAND loading_reopen $<TARGET_FILE:plumb> 1000)

if(PLUMB_SANITIZE)  # they have a malloc of their own, and want to be loaded first
  return()
endif()
loading_program(out_of_memory.cpp)
add_executable(loading_out_of_memory_linked loading/out_of_memory.cpp)
target_link_libraries(loading_out_of_memory_linked PRIVATE -Wl,--no-as-needed plumb::plumb
                      plumb_compiler ${CMAKE_DL_LIBS})
# Libraries call the malloc and the dlopen of these two.
set_target_properties(loading_out_of_memory loading_out_of_memory_linked PROPERTIES
                      ENABLE_EXPORTS ON)
add_test(NAME "loading: memory runs out in a thread's first calls"
         COMMAND loading_out_of_memory $<TARGET_FILE:plumb>)
add_test(NAME "loading: memory runs out in a thread's first calls, linked"
         COMMAND loading_out_of_memory_linked $<TARGET_FILE:plumb>)

add_library(loading_third_party SHARED loading/third_party.cpp)
target_link_libraries(loading_third_party PRIVATE plumb_compiler)
target_link_libraries(plumb_fake_third_party PRIVATE -Wl,--no-as-needed loading_third_party)
add_test(NAME "loading: memory runs out in a thread's first calls, a module"
         COMMAND loading_out_of_memory $<TARGET_FILE:plumb> cuda
                 $<TARGET_FILE_DIR:plumb_fake_third_party>)
if(TARGET plumb_kokkos)
  add_test(NAME "loading: memory runs out in a thread's first calls, Kokkos"
           COMMAND loading_out_of_memory $<TARGET_FILE:plumb> kokkos $<TARGET_FILE_DIR:plumb_kokkos>)
endif()

loading_program(no_memory.c)
add_test(NAME "loading: no memory at all in a thread's first call, from C"
         COMMAND loading_no_memory $<TARGET_FILE:plumb>)

loading_program(no_keys.c)
add_test(NAME "loading: without a key for a thread's message the status is right, from C"
         COMMAND loading_no_keys $<TARGET_FILE:plumb>)

loading_program(open_device.cpp)
add_library(loading_hostile_module MODULE loading/hostile_module.cpp)
target_link_libraries(loading_hostile_module PRIVATE plumb_compiler)
foreach(case IN ITEMS relative variable setuid)
  add_test(NAME "loading: module folders (${case})"
           COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/check_folders ${case}
                   $<TARGET_FILE:loading_open_device> $<TARGET_FILE:plumb>
                   $<TARGET_FILE:plumb_fake_fake> $<TARGET_FILE:loading_hostile_module>)
  set_tests_properties("loading: module folders (${case})" PROPERTIES SKIP_RETURN_CODE 4)
endforeach()

loading_program(shortage.cpp)
add_test(NAME "loading: what memory or files ran out for can be had afterwards"
         COMMAND loading_shortage $<TARGET_FILE:plumb> cuda)
set_tests_properties("loading: what memory or files ran out for can be had afterwards" PROPERTIES
  ENVIRONMENT PLUMB_BACKEND_PATH=$<TARGET_FILE_DIR:plumb_fake_fake>)
