#!/usr/bin/env bash
# oneDNN as a provider, under the program: fakes of libdnnl in PLUMB_PROVIDER_PATH, and the real one where
# there is one.
# usage: onednn.sh PROGRAM CASE
# shellcheck source-path=SCRIPTDIR source=../apps/program/support.sh
source "$(dirname "${BASH_SOURCE[0]}")/../apps/program/support.sh"
unset PLUMB_PROVIDERS PLUMB_PROVIDER_PATH PLUMB_CONV_ALGORITHM
export OMP_NUM_THREADS=2 PLUMB_TUNE_CACHE=$folder/cache COLUMNS=200

small=(--device cpu --providers onednn --problem mb2ic3ih9oc4kh3)
forced=("${small[@]}" --algorithm onednn.conv.nchw)  # of bench, validate and pipeline

# A library of this folder, and what it is refused for.
refused_for() {
  export PLUMB_PROVIDER_PATH=$PLUMB_FAKE_LIBRARIES/$1
  run explain "${small[@]}" --json explain.json
  printed "^$2: .*$3"
  printed '^> cpu\.conv\.' || fail "nothing of Plumb's own was chosen"
  run info
  printed "cannot be used: .*$3.* \($2\)$"
  # Asked for by name it is an error, of one line, and no crash.
  refuse 1 "onednn\.conv\.nchw: .*$3.* \($2\)" pipeline "${forced[@]}"
}

# real: the library that is installed, or the case is a skip.
real() {
  run info --json info.json
  if grep -A5 '"name": "onednn"' info.json | grep -q '"reason": "none"'; then return; fi
  echo "no oneDNN that can be used:" && grep -A6 '"name": "onednn"' info.json
  exit 77
}

case_missing() {
  export PLUMB_PROVIDER_PATH=not/absolute
  run explain "${small[@]}"
  printed "^provider_missing: PLUMB_PROVIDER_PATH has 'not/absolute'; expected absolute folders"
  printed 'To change it: install the library'
  mkdir broken && echo 'no library' >broken/libdnnl.so.3
  export PLUMB_PROVIDER_PATH=$folder/broken
  run explain "${small[@]}"
  printed "^provider_missing: $folder/broken/libdnnl\.so\.3: "
  refuse 1 'provider_missing' pipeline "${forced[@]}"
}

case_unknown() {
  refuse 2 "providers has 'mkl'; expected cudnn and onednn, with commas between, or none" \
    explain --device cpu --problem ic3ih9oc4kh3 --providers mkl
  PLUMB_PROVIDERS=onednm refuse 2 "PLUMB_PROVIDERS has 'onednm'; .*did you mean 'onednn'" \
    explain --device cpu --problem ic3ih9oc4kh3
}

case_versions() {
  refused_for dnnl_newer provider_version 'oneDNN 4\.9\.0; expected 2\.6 or newer of 2, or 3'
  refused_for dnnl_older provider_version 'oneDNN 2\.5\.0; expected 2\.6'
  refused_for dnnl_without provider_version 'oneDNN 3\.9\.0, without dnnl_primitive_execute'
  refused_for dnnl_tbb provider_version 'its threads are of runtime 4, which cannot be told'
  refused_for dnnl_openmp provider_version 'its OpenMP is not to be found; expected the runtime'
  refused_for dnnl_engine provider_missing 'dnnl_engine_create: played by a fake'
}

case_statuses() {
  refused_for_problem() {
    export PLUMB_PROVIDER_PATH=$PLUMB_FAKE_LIBRARIES/$1
    refuse 1 "$2" pipeline "${forced[@]}"
  }
  refused_for_problem dnnl_unimplemented \
    'oneDNN has nothing .*: dnnl_convolution_forward_primitive_desc_create: unimplemented \(layout\)'
  refused_for_problem dnnl_absurd \
    'oneDNN asks for 1152921504606846976 bytes of scratch memory; the device has [0-9]+ \(too_large\)'
  refused_for_problem dnnl_memory 'out_of_memory'
  # What fails only when it runs is a failure of the run; what computes nothing is found out.
  export PLUMB_PROVIDER_PATH=$PLUMB_FAKE_LIBRARIES/dnnl_execute
  "$program" validate "${forced[@]}" --tier exact >out 2>err && fail "what fails is a failure"
  printed 'threw: dnnl_primitive_execute: played by a fake'
  export PLUMB_PROVIDER_PATH=$PLUMB_FAKE_LIBRARIES/dnnl_works
  "$program" validate "${forced[@]}" --tier exact >out 2>err && fail "what computes nothing is wrong"
  printed 'exact failed:'
  printed 'plumb validate --device cpu --algorithm onednn\.conv\.nchw .*--providers onednn'
}

# Whatever a fake does, tuned with it Plumb goes on with its own.
case_tuned_with_a_fake() {
  export PLUMB_PROVIDER_PATH=$PLUMB_FAKE_LIBRARIES/dnnl_works
  run tune "${small[@]}" --samples 2 --scatter-limit 1000 --estimate-limit 1000000
  printed 'onednn\.conv\.nchw +fp32 +failed: an output is off by'
  run explain "${small[@]}"
  printed '^> cpu\.conv\.'
}

case_real() {
  real
  run info
  printed '^onednn +oneDNN [23]\.[0-9]+\.[0-9]+ on cpu$' && printed '^ +/.*/libdnnl\.so\.[23]'
  # Without its name nothing of it is listed, and with it nothing is chosen by an estimate.
  run explain --device cpu --problem mb2ic3ih9oc4kh3
  ! grep -q onednn out || fail "onednn is listed, and nobody asked for it"
  run explain "${small[@]}" --json explain.json
  printed '^  onednn\.conv\.best .*not_measured$' && printed '^onednn\.\*: kernels of oneDNN '
  grep -q '"provider": "onednn"' explain.json || fail "the JSON does not say whose it is"
  run validate "${small[@]}" --json validate.json
  grep -q '"provider": "oneDNN [23]' validate.json || fail "validation does not say whose it is"
  # Every kind of problem, through what goes around an algorithm too.
  printf '%s\n' mb2ic16ih12oc16kh3ph1 g4mb3ic8ih11oc12kh3sh2ph1 g8mb2ic8ih9oc8kh5ph2 mb2ic3iw40oc5kw5 \
    mb2ic3id6ih7iw8oc4kd3pd1 mb1ic4ih9oc6kh3ph2_padperiodic mb2ic8ih10oc8kh3ph1_poolmax2x2 \
    mb2ic4ih13oc4kh3dh1ph2 >problems
  local layout
  for layout in nchw nhwc strided; do
    run validate --device cpu --providers onednn --problems problems --layout $layout \
      --algorithm 'onednn.*' --json validate.json
  done
  run validate --device cpu --providers onednn --problem mb2ic16ih12oc16kh3ph1 --algorithm 'onednn.*' \
    --bias --relu
  run validate --device cpu --providers onednn --problem mb2ic16ih12oc16kh3ph1 --algorithm 'onednn.*' \
    --accumulate
  # Gradients, beside ours: its entries give the same bits every time.
  run bench --device cpu --peer onednn --problem mb2ic3ih9oc4kh3 --direction backward_weights --samples 2 \
    --json bench.json
  printed '[0-9] x as fast as onednn\.conv\.'
  grep -q '"deterministic_peer": "onednn\.conv\.' bench.json || fail "the JSON names no deterministic peer"
  # Random problems, as for any other.
  run validate --device cpu --providers onednn --algorithm 'onednn.*' --random 300
}

# As many threads as the caller allows.
case_threads() {
  real
  local n
  for n in 1 2; do
    OMP_NUM_THREADS=$n run bench "${forced[@]}" --samples 2
  done
}

case_tuned() { tuned mb2ic32ih28oc32kh3ph1; }
case_tuned_gradient() { tuned mb2ic32ih14oc32kh3ph1dirbwd_w; }

# tuned PROBLEM: large and dense enough that each may win: what is chosen is the fastest of all times kept.
tuned() {
  real
  local problem=(--device cpu --providers onednn --problem "$1")
  run tune "${problem[@]}" --samples 5 --scatter-limit 1000 --estimate-limit 1000000
  grep -q '^seconds [0-9.e-]* onednn\.conv\.best of oneDNN ' cache || fail "no time of it is kept"
  run explain "${problem[@]}" --json explain.json
  local fastest
  fastest=$(sed -n 's/^seconds \([0-9.e+-]*\) \(cpu[^ ]*fp32\|cpu[^ ]*fp64\|onednn[^ ]*\).*/\1 \2/p' cache |
    sort -g | head -n 1 | cut -d' ' -f2)
  printed "^> ${fastest//./\\.} .*chosen( |$)"
}

run_case
