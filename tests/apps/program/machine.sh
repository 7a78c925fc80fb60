#!/usr/bin/env bash
# What the machine has: cores that a process is bound to, too little memory, a busy neighbour.
# usage: machine.sh PROGRAM CASE   (a case is a function case_... below)
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"

# most_threads COMMAND...: the most threads that a process of this command has had at once.
most_threads() {
  local most=0 now
  "$@" >/dev/null 2>&1 &
  local process=$!
  while [[ -r /proc/$process/status ]]; do
    now=$(sed -n 's/^Threads:[[:space:]]*//p' /proc/$process/status 2>/dev/null || true)
    if ((${now:-0} > most)); then most=$now; fi
    sleep 0.01
  done
  wait $process || fail "exit code $? from $*"
  echo $most
}

# Processes that are each bound to a core leave the others alone; one that is not uses them.
case_bound() {
  local cores i
  mapfile -t cores < <(for core in $(seq 0 1023); do taskset -c $core true 2>/dev/null && echo $core; done)
  local work=("$program" bench --device cpu --problem mb16ic4ih40oc16kh7 --samples 5)
  unset OMP_NUM_THREADS
  for i in 0 1 2 3; do
    most_threads taskset -c ${cores[i % ${#cores[@]}]} "${work[@]}" >threads$i &
  done
  wait
  for i in 0 1 2 3; do (($(cat threads$i) == 1)) || fail "process $i had $(cat threads$i) threads"; done
  if ((${#cores[@]} > 1)); then
    i=$(most_threads "${work[@]}")
    ((i > 1)) || fail "unbound, it had $i threads; expected one for each of ${#cores[@]} cores"
  fi
}

# A problem that the machine has no memory for costs nothing but its own verdicts.
case_too_large() {
  local huge=mb1ic64ih100000iw100000oc1kh1 wanted='[0-9]{13,} bytes on cpu; [0-9]+ are free'
  export PLUMB_TUNE_CACHE=$folder/cache
  printf 'mb2ic3ih8oc4kh3\n%s\nmb2ic3ih9oc4kh3\n' $huge >list
  run validate --device cpu --problems list --json v.json
  printed '3 problems, .* 0 failures' && printed 'too_large [1-9]' && printed "$wanted"
  valid_json v.json records
  [[ $(json v.json complete) == true ]] || fail "complete is $(json v.json complete)"
  (($(grep -c '"verdict": "pass"' v.json) >= 16)) || fail "the problems beside it were not validated"
  grep -q '"reason": "too_large"' v.json && grep -qE "\"sentence\": \"validating needs $wanted" v.json ||
    fail "no reason: $(grep -A1 unsupported v.json)"
  refuse 1 'nothing was validated' validate --device cpu --problem $huge
  run bench --device cpu --problems list --samples 2 --json b.json
  printed "not run: .*not one image fits.* $wanted.*too_large"
  grep -q '"reason": "too_large"' b.json || fail "no reason: $(cat b.json)"
  (($(grep -c '"median_seconds"' b.json) == 2)) || fail "the problems beside it were not timed"
  run tune --device cpu --problems list --samples 2 "${any_time[@]}" --json t.json --plot t.svg
  printed "not run: .* $wanted.*too_large" && printed ': 2 problems tuned'
  grep -q '"reason": "too_large"' t.json || fail "no reason: $(cat t.json)"
  refuse 1 "$wanted.*too_large" tune --device cpu --problem $huge --samples 2
  # Of what memory there is, a limit of the process counts. The address sanitizer cannot start under one.
  local code=0
  if (ulimit -v 4000000 && ! "$program" --version >/dev/null 2>&1); then return 0; fi
  (ulimit -v 4000000 && "$program" validate --device cpu --problem mb1ic64ih4096iw4096oc1kh1 \
    --algorithm cpu.conv.im2col.fp32 --json limit.json >out 2>err) || code=$?
  ((code == 1)) || fail "exit code $code under a limit"
  grep -q 'nothing was validated' err || fail "$(cat err)"
  grep -qE '"reason": "(too_large|out_of_memory)"' limit.json || fail "$(cat limit.json)"
}

# on_one_core CODE ARGUMENT...: on a problem that every algorithm gives two threads, which wait for each other on one
# core and do not sleep while they do, as beside a busy neighbour. OpenMP would have them sleep if it
# knew: they are bound to the core when it has started, and waits for the problem.
on_one_core() {
  local code=0 expected=$1
  shift
  rm -f problem && mkfifo problem
  OMP_NUM_THREADS=2 OMP_WAIT_POLICY=active "$program" "$@" --device cpu --problems problem --samples 5 >out 2>err &
  exec 3>problem
  taskset -acp "${cores[0]}" $! >/dev/null
  echo mb1ic64ih20oc64oh10kh3sh2ph1 >&3
  exec 3>&-
  wait $! || code=$?
  ((code == expected)) || fail "exit code $code from plumb $*, expected $expected"
}

# No time that a busy neighbour disturbed is kept.
case_unsteady() {
  local cores why='(samples scatter:|the median is) '
  mapfile -t cores < <(for core in $(seq 0 1023); do taskset -c $core true 2>/dev/null && echo $core; done)
  if ((${#cores[@]} < 2)); then echo "one core alone: nothing to show" && exit 77; fi
  export PLUMB_TUNE_CACHE=$folder/cache
  on_one_core 1 tune --json t.json
  grep -qE '^plumb: the times are not kept: no time of .* is steady$' err || fail "nothing said"
  printed "cpu\.conv\.direct\.fp32 .* unsteady, not kept: $why" && printed '^[0-9]+ times are unsteady'
  valid_json t.json unsteady tries
  grep -qE "\"unsteady\": \"$why" t.json || fail "$(cat t.json)"
  [[ ! -e cache ]] || fail "unsteady times were kept: $(cat cache)"
  on_one_core 0 bench --json b.json
  printed "unsteady: $why" && printed '^1 times are unsteady'
  grep -qE "\"unsteady\": \"$why" b.json || fail "$(cat b.json)"
}

run_case
