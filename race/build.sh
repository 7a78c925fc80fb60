#!/bin/bash
# Builds OUT/sweep from the tree SRC without CMake: static cudart, libstdc++ and core sources, for sm_90a alone.
# usage: build.sh SRC OUT [f32|f64|core|driver|link ...]
set -e
SRC=$1 OUT=$2; shift 2; steps=${*:-core driver f32 f64 link}
mkdir -p $OUT; cd $SRC
export PATH=/usr/local/cuda/bin:$PATH
NV="nvcc -gencode arch=compute_90a,code=sm_90a -std=c++20 -O3 -I. -Icore/include -Icore -I${GEN:-$SRC/build/cpu/include} -DPLUMB_STATIC"
CXX="g++ -std=c++20 -O2 -I. -Icore/include -Icore -I${GEN:-$SRC/build/cpu/include} -DFMT_HEADER_ONLY"
for s in $steps; do case $s in
core) for f in conv_problem problem_text suites types tensor quote did_you_mean error sizes overlap support ranks; do [ -f core/src/$f.cpp ] && $CXX -c core/src/$f.cpp -o $OUT/core_$f.o; done
  $CXX -c race/stubs.cpp -o $OUT/stubs.o
  $CXX -c cuda_kernels/primitives/check.cpp -o $OUT/check.o;;
driver) for f in plan problem; do $CXX -c cuda_kernels/fields/field_$f.cpp -o $OUT/field_$f.o; done
  $NV --expt-relaxed-constexpr -c tests/cuda_kernels/fields/sweep.cu -o $OUT/sweep.o;;
f32|f64) ls cuda_kernels/fields/*_$s.cu | xargs -P1 -I{} sh -c "$NV -Xptxas -v -c {} -o $OUT/\$(basename {} .cu).o 2> $OUT/\$(basename {} .cu).log";;
link) nvcc -cudart static -Xcompiler -static-libstdc++,-static-libgcc -o $OUT/sweep $OUT/*.o; ls -l $OUT/sweep;;
esac; done
