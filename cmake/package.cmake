# What `cmake --install` puts where, find_package(plumb CONFIG), and plumb.pc. The installed tree may be
# moved: programs and modules find libplumb by $ORIGIN, and nothing in it names a folder outside, but for
# those of other libraries (Kokkos, OpenMP) that do not lie in the system's folders.
#
# Adding a component (find_package(plumb CONFIG COMPONENTS <name>)) is one call where it is built:
#
#   plumb_component(cuda)                            # a module: there is nothing to link
#   plumb_component(fortran TARGETS plumb_fortran)   # also installs plumb_fortran, as plumb::fortran
#   plumb_component(abacus TARGETS plumb_abacus NEEDS "Abacus 2.0")
#
# TARGETS  libraries that users link. plumb_<x> becomes plumb::<x>, in this build too, so that who
#          embeds Plumb writes the same. What they link of Plumb's has to be a target of the package.
# NEEDS    what users of the component need first, each as find_package takes it.
#
# Its name stands in plumb_all_components below: a package without it can then say so. Headers under
# core/include/plumb are installed anyway; other files (a Fortran .mod) take an install() of their own.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(plumb_all_components cuda kokkos c fortran mpi mpi_fortran)
set(plumb_cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/plumb)

# plumb_runs_from(<target> <folder>...): where the loader looks for what the target needs, from the
# target's own folder. The same in the build and the install tree: what CMake links with one path and
# changes to another when it installs it ends the first with a colon, an empty folder, for which the
# loader takes the working folder.
function(plumb_runs_from target)
  list(TRANSFORM ARGN PREPEND $ORIGIN/ OUTPUT_VARIABLE folders)
  list(TRANSFORM folders REPLACE "/[.]?$" "")
  list(REMOVE_DUPLICATES folders)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${folders}"
                        INSTALL_RPATH_USE_LINK_PATH ON BUILD_WITH_INSTALL_RPATH ON)
endfunction()

# plumb_install(<export set> <target>...)
function(plumb_install export)
  if(PLUMB_INSTALL)
    install(TARGETS ${ARGN} EXPORT ${export}
      RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
      INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    install(EXPORT ${export} FILE ${export}-targets.cmake NAMESPACE plumb::
            DESTINATION ${plumb_cmake_folder})
  endif()
endfunction()

# plumb_component(<name> [TARGETS <target>...] [NEEDS <arguments of find_package>...])
function(plumb_component name)
  cmake_parse_arguments(PARSE_ARGV 1 component "" "" "TARGETS;NEEDS")
  set_property(GLOBAL APPEND PROPERTY PLUMB_COMPONENTS ${name})
  if(component_NEEDS)
    set_property(GLOBAL APPEND_STRING PROPERTY PLUMB_COMPONENT_NEEDS
                 "set(plumb_${name}_needs \"${component_NEEDS}\")\n")
  endif()
  foreach(target IN LISTS component_TARGETS)
    string(REGEX REPLACE "^plumb_" "" short ${target})
    set_property(TARGET ${target} PROPERTY EXPORT_NAME ${short})
    if(NOT TARGET plumb::${short})
      add_library(plumb::${short} ALIAS ${target})
    endif()
  endforeach()
  if(component_TARGETS)
    plumb_install(plumb-${name} ${component_TARGETS})
  endif()
endfunction()

# plumb_static_needs(<arguments of find_package> <linker's flags>): what libplumb.a leaves to the
# programs that it is linked into; a shared libplumb and its modules bring theirs.
function(plumb_static_needs package flags)
  set_property(GLOBAL APPEND PROPERTY PLUMB_STATIC_NEEDS "${package}")
  set_property(GLOBAL APPEND_STRING PROPERTY PLUMB_STATIC_FLAGS " ${flags}")
endfunction()

# Once, after everything else: all that is not a component.
function(plumb_package)
  if(NOT PLUMB_INSTALL)
    return()
  endif()
  get_property(modules GLOBAL PROPERTY PLUMB_MODULES)
  get_property(components GLOBAL PROPERTY PLUMB_COMPONENTS)
  get_property(component_needs GLOBAL PROPERTY PLUMB_COMPONENT_NEEDS)
  set(all_components ${plumb_all_components})

  plumb_install(plumb plumb)
  if(modules)
    install(TARGETS ${modules} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/core/include/plumb ${PROJECT_BINARY_DIR}/include/plumb
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
  plumb_install_pages()

  set(needs "")
  set(link_flags "")
  set(compile_flags "")
  if(NOT BUILD_SHARED_LIBS)
    get_property(needs GLOBAL PROPERTY PLUMB_STATIC_NEEDS)
    get_property(link_flags GLOBAL PROPERTY PLUMB_STATIC_FLAGS)
    set(compile_flags " -DPLUMB_API=")
  endif()
  list(TRANSFORM needs REPLACE "(.+)" "\"\\1\"" OUTPUT_VARIABLE needs_quoted)
  list(JOIN needs_quoted " " needs_quoted)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/plumb-config.cmake.in
    ${PROJECT_BINARY_DIR}/package/plumb-config.cmake INSTALL_DESTINATION ${plumb_cmake_folder}
    NO_CHECK_REQUIRED_COMPONENTS_MACRO)
  set(compatibility SameMajorVersion)
  if(PROJECT_VERSION_MAJOR EQUAL 0)  # as the SONAME has it
    set(compatibility SameMinorVersion)
  endif()
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/plumb-config-version.cmake
                                   COMPATIBILITY ${compatibility})
  install(FILES ${PROJECT_BINARY_DIR}/package/plumb-config.cmake
                ${PROJECT_BINARY_DIR}/package/plumb-config-version.cmake
          DESTINATION ${plumb_cmake_folder})

  plumb_install_pkg_config("${link_flags}" "${compile_flags}")
endfunction()

# The pages and the examples, so that links between them lead somewhere. The records of measurements
# (docs/results) and the recipes for packagers stay in the sources.
function(plumb_install_pages)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/CHANGELOG.md
                ${PROJECT_SOURCE_DIR}/README.md
          DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR}
          FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png"
          PATTERN "results" EXCLUDE PATTERN "packaging" EXCLUDE)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
endfunction()

# plumb_install_pkg_config(<linker's flags> <compiler's flags>): plumb.pc, and plumb-fortran.pc where the
# module is built. The flags of a shared libplumb have a run path, unless it goes where the loader looks.
function(plumb_install_pkg_config link_flags compile_flags)
  foreach(kind IN ITEMS LIBDIR INCLUDEDIR)
    file(RELATIVE_PATH ${kind} ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_FULL_${kind}})
  endforeach()
  set(rpath "")
  if(BUILD_SHARED_LIBS AND NOT CMAKE_INSTALL_FULL_LIBDIR IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
    set(rpath "-Wl,-rpath,\${libdir}")
  endif()
  set(cxx_runtime "")
  if(NOT BUILD_SHARED_LIBS)  # which a linker for Fortran does not add
    set(cxx_runtime ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})
    list(FILTER cxx_runtime INCLUDE REGEX "c[+][+]")
    list(TRANSFORM cxx_runtime PREPEND " -l")
    list(JOIN cxx_runtime "" cxx_runtime)
  endif()
  set(files plumb.pc)
  if(PLUMB_HAVE_FORTRAN)
    list(APPEND files plumb-fortran.pc)
  endif()
  foreach(file IN LISTS files)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/${file}.in ${PROJECT_BINARY_DIR}/package/${file} @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/package/${file} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  endforeach()
endfunction()
