# Fails unless a page shows an example, to the letter: as a block of code, or (PART) a part of it as the
# page's first block in that language.
# usage: cmake -DROOT=... -DPAGE=README.md -DEXAMPLE=examples/x.cpp -DLANGUAGE=cpp [-DPART=ON] -P ...
include(${CMAKE_CURRENT_LIST_DIR}/code_block.cmake)
file(READ "${ROOT}/${EXAMPLE}" example)
if(PART)
  code_block(shown "${ROOT}/${PAGE}" ${LANGUAGE})
  string(FIND "${example}" "${shown}" found)
else()
  file(READ "${ROOT}/${PAGE}" page)
  string(FIND "${page}" "```${LANGUAGE}\n${example}```" found)
endif()
if(found EQUAL -1)
  message(FATAL_ERROR "${PAGE} does not show ${EXAMPLE} as it is")
endif()
