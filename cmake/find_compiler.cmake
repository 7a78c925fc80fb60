# plumb_find_compiler(<language>): check_language, which does not remember. By itself it keeps in the
# cache that there was no compiler, and one that is installed later is never found; a compiler that is
# gone since is looked for anew too.
include(CheckLanguage)
macro(plumb_find_compiler language)
  if(NOT CMAKE_${language}_COMPILER OR
     (IS_ABSOLUTE "${CMAKE_${language}_COMPILER}" AND NOT EXISTS "${CMAKE_${language}_COMPILER}"))
    unset(CMAKE_${language}_COMPILER)
    unset(CMAKE_${language}_COMPILER CACHE)
  endif()
  check_language(${language})
endmacro()
