# One test for each case of test_program.sh.
if(NOT TARGET plumb_program)
  return()
endif()
foreach(case help info classify bound compare devices usage data model conv conv_errors train bench tune explain
        pipeline ladder random without_data output numbers echoes interrupt killed too_large unsteady)
  add_test(NAME program.${case}
           COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/test_program.sh
                   $<TARGET_FILE:plumb_program> ${case})
  set_tests_properties(program.${case} PROPERTIES SKIP_RETURN_CODE 77)
endforeach()
add_test(NAME "rules: docs/reference.md names what runs f16 in fp64"
         COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/../../rules/check_fp64_row ${PROJECT_SOURCE_DIR}/docs/reference.md
                 $<TARGET_FILE:plumb_program>)
