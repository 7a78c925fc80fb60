# Plumb installed, moved, and used by a project that is not Plumb's.
if(NOT PLUMB_INSTALL OR PLUMB_SANITIZE)  # sanitizers would have to be the users' too
  return()
endif()
get_property(components GLOBAL PROPERTY PLUMB_COMPONENTS)
get_property(modules GLOBAL PROPERTY PLUMB_MODULES)
get_target_property(abi plumb SOVERSION)
list(JOIN components "\\;" components)
list(JOIN modules " " modules)
set(kokkos_folder)
if(PLUMB_HAVE_KOKKOS)
  set(kokkos_folder $<TARGET_FILE_DIR:${PLUMB_KOKKOS_CORE}>)
endif()

# package_test(<name> <arguments of package/run> [properties of the test...])
function(package_test name arguments)
  add_test(NAME "package: ${name}"
           COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/run ${arguments})
  set_tests_properties("package: ${name}" PROPERTIES ${ARGN}
    ENVIRONMENT "PLUMB_SOURCE=${PROJECT_SOURCE_DIR};PLUMB_BUILD=${PROJECT_BINARY_DIR};PLUMB_VERSION=${PROJECT_VERSION};PLUMB_ABI=${abi};PLUMB_COMPONENTS=${components};PLUMB_KOKKOS_FOLDER=${kokkos_folder};PLUMB_MODULES=${modules};PLUMB_CXX=${CMAKE_CXX_COMPILER};PLUMB_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER};PLUMB_GENERATOR=${CMAKE_GENERATOR}")
endfunction()
package_test("install" "install;installed" FIXTURES_SETUP package_installed)
package_test("find_package" "find_package;installed" FIXTURES_REQUIRED package_installed)
package_test("pkg-config" "pkg_config;installed" FIXTURES_REQUIRED package_installed)
package_test("examples and pages" "examples;installed" FIXTURES_REQUIRED package_installed)
if(PLUMB_HAVE_FORTRAN)
  package_test("pkg-config from Fortran" "pkg_config_fortran;installed;${CMAKE_Fortran_COMPILER}"
               FIXTURES_REQUIRED package_installed)
endif()
if(PLUMB_KOKKOS_LANGUAGE STREQUAL "CXX")
  package_test("example for Kokkos" "kokkos_example;installed;found;${Kokkos_DIR}"
               FIXTURES_REQUIRED package_installed)
  if(TARGET trilinos_kokkoscore)
    package_test("example for upstream's Kokkos"
                 "kokkos_example;installed;upstream;none;${PLUMB_KOKKOS_HEADERS}"
                 FIXTURES_REQUIRED package_installed)
  endif()
endif()
find_program(PLUMB_OTHER_MPICXX mpicxx.mpich)
find_program(PLUMB_OTHER_MPIRUN mpirun.mpich)
if(BUILD_SHARED_LIBS AND PLUMB_OTHER_MPICXX AND PLUMB_OTHER_MPIRUN)
  package_test("libplumb_mpi for MPICH"
               "other_mpi;installed;${PLUMB_OTHER_MPICXX};${PLUMB_OTHER_MPIRUN}"
               FIXTURES_REQUIRED package_installed COST 800)  # takes long, and begins early
else()
  plumb_test_without(MPICH "package: libplumb_mpi for MPICH")
endif()
if(BUILD_SHARED_LIBS)
  package_test("from C" "language;installed;C;examples/first_convolution.c"
               FIXTURES_REQUIRED package_installed)
  if(PLUMB_HAVE_FORTRAN)
    package_test("from Fortran" "language;installed;Fortran;examples/heat.f90"
                 FIXTURES_REQUIRED package_installed)
  endif()
  if(PLUMB_KOKKOS_LANGUAGE STREQUAL "CXX")
    package_test("from Kokkos"
                 "from_kokkos;installed;${Kokkos_DIR};${PLUMB_KOKKOS_LIBRARY};${PLUMB_KOKKOS_HEADERS}"
                 FIXTURES_REQUIRED package_installed)
  endif()
  package_test("symbols and what is needed" "symbols;installed" FIXTURES_REQUIRED package_installed)
endif()
package_test("embedded, static" "embed;embedded" FIXTURES_SETUP package_embedded)
package_test("find_package, static" "find_package;embedded" FIXTURES_REQUIRED package_embedded)
package_test("pkg-config, static" "pkg_config;embedded" FIXTURES_REQUIRED package_embedded)
package_test("what is refused" "refusals;embedded" FIXTURES_REQUIRED package_embedded)
add_test(NAME "package: the check of libraries finds each breach"
         COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/check_library_test ${CMAKE_CXX_COMPILER})
add_test(NAME "package: the Python wheel, in a fresh environment" COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/wheel)
# With this build's compiler, and warnings as here, ccache finds what this build compiled. It takes longest, and begins first.
set_tests_properties("package: the Python wheel, in a fresh environment" PROPERTIES
  ENVIRONMENT "CXX=${CMAKE_CXX_COMPILER};CMAKE_ARGS=-DPLUMB_WERROR=${PLUMB_WERROR}"
  SKIP_RETURN_CODE 4 TIMEOUT 3600 COST 1000)
