# Sources of libplumb that are compiled once for each instruction set. libplumb must run on any machine of the
# architecture: only these sources are compiled for more, and they are called where the processor has it.

# <part>_<name>.cpp of the current folder with the options given. Optimised in every build type: an
# inline function that is not inlined becomes a symbol that the linker may prefer over another source's.
# Sanitizers take minutes over what -O3 makes of Eigen, and that of undefined behaviour half of what is left.
# Reproducible kernels count on products and sums becoming FMAs, to which g++ needs its expensive optimisations.
function(plumb_compile_for name part)
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/${part}_${name}.cpp)
  set(optimisation -O3)
  if(PLUMB_SANITIZE)  # takes minutes otherwise
    set(optimisation -O1 -fno-sanitize=undefined "$<$<CXX_COMPILER_ID:GNU>:-fexpensive-optimizations>")
  elseif(PLUMB_COVERAGE)  # an atomic count in each inner loop takes minutes too
    list(APPEND ARGN -fprofile-update=single)
  endif()
  target_sources(plumb PRIVATE ${source})
  # Loops begin on a cache line, so that their speed is not the luck of where they come to lie.
  # A loop that stores one vector of zeros is no call of memset.
  # g++ 12 and 13 take the intrinsics' own undefined registers for a mistake (GCC bug 105593).
  set_property(SOURCE ${source} TARGET_DIRECTORY plumb PROPERTY COMPILE_OPTIONS
    ${optimisation} ${ARGN} -ffp-contract=fast -fvisibility=hidden -fvisibility-inlines-hidden
    "$<$<CXX_COMPILER_ID:GNU>:-falign-loops=64;-fno-tree-loop-distribute-patterns;-Wno-maybe-uninitialized>")
  # Precompiled headers serve only sources with the options that they were compiled with.
  set_property(SOURCE ${source} TARGET_DIRECTORY plumb PROPERTY SKIP_PRECOMPILE_HEADERS ON)
  set_property(SOURCE ${source} TARGET_DIRECTORY plumb PROPERTY COMPILE_DEFINITIONS
    EIGEN_DONT_PARALLELIZE EIGEN_NO_DEBUG)
endfunction()

# <part>_baseline.cpp, and on x86-64 <part>_avx2.cpp and <part>_avx512.cpp, of the current folder.
function(plumb_compile_for_instruction_sets part)
  plumb_compile_for(baseline ${part})
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    plumb_compile_for(avx2 ${part} -mavx2 -mfma -mprfchw)
    plumb_compile_for(avx512 ${part} -mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma -mprfchw)
  endif()
endfunction()
