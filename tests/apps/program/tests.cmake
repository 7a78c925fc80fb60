# The program as its users run it: a test for each function case_... of the scripts in this folder.
if(NOT TARGET plumb_program)
  return()
endif()

# program_test(SCRIPT CASE)
function(program_test script case)
  add_test(NAME program.${case} COMMAND bash ${script} $<TARGET_FILE:plumb_program> ${case})
  set_tests_properties(program.${case} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()

file(GLOB scripts CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.sh)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${scripts})
foreach(script IN LISTS scripts)
  file(STRINGS ${script} cases REGEX "^case_[a-z_]+\\(\\)")
  foreach(case IN LISTS cases)
    string(REGEX REPLACE "^case_([a-z_]+).*" "\\1" case ${case})
    program_test(${script} ${case})
  endforeach()
endforeach()
# These measure times, or send a signal at a certain moment of a run.
set_tests_properties(program.bench program.interrupt program.killed program.tune program.unsteady
                     PROPERTIES RUN_SERIAL ON)
