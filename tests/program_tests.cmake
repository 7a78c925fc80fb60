# One test for each case of test_program.sh.
if(NOT TARGET plumb_program)
  return()
endif()
foreach(case help info classify bound compare devices usage data model conv conv_errors train bench tune explain
        pipeline ladder random output numbers echoes interrupt killed too_large unsteady)
  add_test(NAME program.${case}
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_program.sh
                   $<TARGET_FILE:plumb_program> ${case})
endforeach()
add_test(NAME "rules: README names what runs f16 in fp64"
         COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/rules/check_fp64_row ${PROJECT_SOURCE_DIR}/README.md
                 $<TARGET_FILE:plumb_program>)
set_tests_properties(program.unsteady PROPERTIES SKIP_RETURN_CODE 77)
