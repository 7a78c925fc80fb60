# What the scripts share: where the tree is, how a step is announced, how a preset is built.
# Sourced, not run.

root=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)

# CUDA's installer leaves nvcc off the PATH.
if ! command -v nvcc >/dev/null && [[ -x /usr/local/cuda/bin/nvcc ]]; then
  PATH=$PATH:/usr/local/cuda/bin
fi

step() { printf '\n== %s\n' "$*"; }

# use_ccache BUILD: for a build folder. Paths are hashed relative to the tree, so that a clone elsewhere finds what an
# earlier one compiled. CMake takes the launchers from the environment into a folder that has none. One where something
# was compiled without stays so: with another command every object would be compiled again.
use_ccache() {
  if command -v ccache >/dev/null; then
    export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=true
    export CCACHE_SLOPPINESS=pch_defines,time_macros  # what precompiled headers ask for
    if [[ ! -e $1/.ninja_log ]] || grep -q '^CMAKE_CXX_COMPILER_LAUNCHER:[A-Z]*=ccache$' "$1/CMakeCache.txt"; then
      export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
    fi
  fi
}

# build_preset PRESET [OPTION OF cmake...]
build_preset() {
  local preset=$1
  shift
  use_ccache "$root/build/$preset"
  step "Configure build/$preset"
  cmake -S "$root" --preset "$preset" "$@"
  step "Build build/$preset"
  cmake --build "$root/build/$preset"
}
