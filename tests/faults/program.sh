#!/usr/bin/env bash
# The program with devices, drivers and modules that do not work.
# usage: program.sh PROGRAM CASE   (a case is a function case_... below)
source "$(dirname "${BASH_SOURCE[0]}")/../apps/program/support.sh"

# right_on_cpu REASON: under `auto` the CPU has the right answer and the program says why; a device
# asked for by name is one clear error, and leaves no output.
right_on_cpu() {
  run conv --x x.npy --w w.npy --out y.npy
  printed '^device +cpu$' && printed "^ +passed over: cuda: .*\\($1\\)$"
  cmp y.npy expected || fail "$1: y.npy is not what was expected"
  refuse 1 "cuda" conv --device cuda --x x.npy --w w.npy --out z.npy
  [[ ! -e z.npy ]] || fail "$1: an output was written after an error"
}

explained() {
  run explain --problem mb1ic1ih3oc1kh2
  printed 'on cpu$' && printed "^$1:"
}

case_faults() {
  local fault reason
  export PLUMB_BACKEND_PATH=$PLUMB_FAKE_MODULES/fake
  npy f4 '1, 1, 3, 3' 1 2 3 4 5 6 7 8 9 >x.npy
  npy f4 '1, 1, 2, 2' 1 2 3 -4 >w.npy
  npy f4 '1, 1, 2, 2' -3 -1 3 5 >expected
  run conv --x x.npy --w w.npy --out y.npy
  printed '^device +cuda:0$' && cmp y.npy expected || fail "the fake does not work"
  for fault in no_driver driver_too_old no_device device_error no_code_for_device; do
    export PLUMB_FAKE_FAULT=$fault
    run info --json info.json
    printed "cuda.*\\($fault\\)$" && printed '^auto +cpu$'
    grep -q "\"reason\": \"$fault\"" info.json || fail "no $fault in $(cat info.json)"
    right_on_cpu "$fault"
    explained "$fault"
  done
  for fault in out_of_memory out_of_memory:2 launch kernel workspace; do
    export PLUMB_FAKE_FAULT=$fault
    reason=out_of_memory
    if [[ $fault == @(launch|kernel) ]]; then reason=device_error; fi
    right_on_cpu "$reason"
    has_data || continue
    run classify --limit 20 --batch 5 --json classify.json
    printed '^device +cpu' && printed "passed over: cuda: cuda:0 failed: .*\\($reason\\)$"
    holds "$(json classify.json accuracy) > 0.5"
  done
  for fault in out_of_memory launch kernel wrong; do
    PLUMB_FAKE_FAULT=$fault run info --json info.json
    printed 'does not work: .*\((out_of_memory|device_error)\)$'
    grep -q '"works": false' info.json || fail "$fault: $(cat info.json)"
  done
}

case_modules() {
  local module
  npy f4 '1, 1, 3, 3' 1 2 3 4 5 6 7 8 9 >x.npy
  npy f4 '1, 1, 2, 2' 1 2 3 -4 >w.npy
  npy f4 '1, 1, 2, 2' -3 -1 3 5 >expected
  mkdir cut
  head -c 9000 "$PLUMB_FAKE_MODULES/fake/libplumb_cuda.so" >cut/libplumb_cuda.so
  for module in nowhere:missing no_symbol:broken throws:broken other_version:version other_abi:version cut:broken; do
    export PLUMB_BACKEND_PATH=$PLUMB_FAKE_MODULES/${module%:*}
    if [[ $module == cut:* ]]; then PLUMB_BACKEND_PATH=$folder/cut; fi
    run info
    printed "^ +none: .*\\(module_${module#*:}\\)$" && printed '^auto +cpu$'
    right_on_cpu "module_${module#*:}"
    explained "module_${module#*:}"
  done
}

# The CUDA backend itself, with a driver in front of it that does not work.
case_drivers() {
  npy f4 '1, 1, 3, 3' 1 2 3 4 5 6 7 8 9 >x.npy
  npy f4 '1, 1, 2, 2' 1 2 3 -4 >w.npy
  npy f4 '1, 1, 2, 2' -3 -1 3 5 >expected
  broken_driver() {
    run info --json info.json
    printed "^ +none: .*$2.*\\($1\\)$" && printed '^auto +cpu$'
    grep -q "\"reason\": \"$1\"" info.json || fail "no $1 in $(cat info.json)"
    right_on_cpu "$1"
    explained "$1"
  }
  export LD_LIBRARY_PATH=$PLUMB_FAKE_DRIVER_FOLDER
  PLUMB_FAKE_DRIVER=34 broken_driver no_driver 'stub'
  PLUMB_FAKE_DRIVER_VERSION=11040 broken_driver driver_too_old 'for CUDA 11\.4; this build needs one for CUDA 1'
  PLUMB_FAKE_DRIVER=100 broken_driver no_device 'shows no GPU'
  CUDA_VISIBLE_DEVICES='' PLUMB_FAKE_DRIVER=100 broken_driver no_device "CUDA_VISIBLE_DEVICES is ''"
  PLUMB_FAKE_DRIVER=999 broken_driver device_error 'does not start'
  broken_driver device_error 'does not start'  # a driver that is not NVIDIA's
  mkdir empty && : >empty/libcuda.so.1
  LD_LIBRARY_PATH=$folder/empty broken_driver no_driver 'not installed'
  if [[ -e ${PLUMB_CUDA_STUB:-} ]]; then
    ln -s "$PLUMB_CUDA_STUB" stub.so && mkdir stub && mv stub.so stub/libcuda.so.1
    LD_LIBRARY_PATH=$folder/stub broken_driver no_driver 'stub'
  fi
}

# What only a machine with a GPU can show.
case_gpu_faults() {
  npy f4 '1, 1, 3, 3' 1 2 3 4 5 6 7 8 9 >x.npy
  npy f4 '1, 1, 2, 2' 1 2 3 -4 >w.npy
  npy f4 '1, 1, 2, 2' -3 -1 3 5 >expected
  run info
  if ! grep -qE '^ +cuda:0 ' out; then
    [[ ,${PLUMB_REQUIRE_BACKENDS:-}, != *,cuda,* ]] || fail "PLUMB_REQUIRE_BACKENDS names cuda"
    echo "skipped: no GPU"
    exit 77
  fi
  if grep -q 'does not work' out; then fail "the GPU does not work"; fi
  CUDA_VISIBLE_DEVICES='' run info
  printed "CUDA_VISIBLE_DEVICES is ''.*\\(no_device\\)" && printed '^auto +cpu$'
  CUDA_VISIBLE_DEVICES='' right_on_cpu no_device
  CUDA_VISIBLE_DEVICES='' explained no_device
  export PLUMB_BACKEND_PATH=$PLUMB_OTHER_ARCHITECTURE
  run info
  printed 'does not work: .*holds code for 7\.5 only.*\(no_code_for_device\)' && printed '^auto +cpu$'
  right_on_cpu no_code_for_device
  explained no_code_for_device
}

run_case
