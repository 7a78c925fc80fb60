# What the scripts share: where the tree is, how a step is announced, how a preset is built.
# Sourced, not run.

root=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)

# CUDA's installer leaves nvcc off the PATH.
if ! command -v nvcc >/dev/null && [[ -x /usr/local/cuda/bin/nvcc ]]; then
  PATH=$PATH:/usr/local/cuda/bin
fi

step() { printf '\n== %s\n' "$*"; }

# CMake reads the launchers from the environment when a build folder is first made. Paths are hashed
# relative to the tree, so that a clone elsewhere finds what an earlier one compiled.
use_ccache() {
  if command -v ccache >/dev/null; then
    export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
    export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=true
    export CCACHE_SLOPPINESS=pch_defines,time_macros  # what precompiled headers ask for
  fi
}

# build_preset PRESET [OPTION OF cmake...]
build_preset() {
  local preset=$1
  shift
  use_ccache
  step "Configure build/$preset"
  cmake -S "$root" --preset "$preset" "$@"
  step "Build build/$preset"
  cmake --build "$root/build/$preset"
}
