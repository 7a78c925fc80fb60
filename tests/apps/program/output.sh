#!/usr/bin/env bash
# What is written: where it cannot be written, and where a signal ends the program before its time.
# usage: output.sh PROGRAM CASE   (a case is a function case_... below)
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"

case_output() {
  local code small=(--device cpu --problem mb1ic1ih3oc1kh2) line
  npy f4 '1, 1, 3, 3' 1 2 3 4 5 6 7 8 9 >x.npy
  npy f4 '1, 1, 2, 2' 1 2 3 -4 >w.npy
  if has_data; then first_images train 60; fi
  while read -r line; do
    if [[ -n $missing && $line == @(classify|train\ --epochs)* ]]; then continue; fi
    for to in full closed; do
      code=0
      # shellcheck disable=SC2086
      if [[ $to == full ]]; then
        "$program" $line >/dev/full 2>err || code=$?
      else
        "$program" $line >&- 2>err || code=$?
      fi
      ((code == 1)) || fail "exit code $code from plumb $line with a $to standard output"
      (($(wc -l <err) == 1)) || fail "expected one line on stderr"
      grep -q '^plumb: standard output cannot be written' err || fail "no message about standard output"
    done
  done <<END
--help
--version
info
info --json info.json
train --help
bench --help
explain ${small[*]}
validate ${small[*]} --tier exact
tune ${small[*]} --no-cache --samples 2
bench ${small[*]} --samples 2
classify --device cpu --limit 1
conv --x x.npy --w w.npy --out y.npy
train --epochs 2 --images images --labels labels --test-images images --test-labels labels --out m
END
  # Nothing that was printed has come into a file that was opened in the place of the closed stream.
  valid_json info.json version auto backends
  npy f4 '1, 1, 2, 2' -3 -1 3 5 >expected
  cmp y.npy expected || fail "y.npy is not what was expected"
  refuse 1 'no/f.json: cannot be created' classify --limit 1 --json no/f.json
  echo before >kept.json
  if [[ -z $missing ]]; then refuse 1 'nothing' classify --limit 1 --model nothing --json kept.json; fi
  [[ $(cat kept.json) == before ]] || fail "a file was lost by a failure"
  # Modes, links, and what is left of a write that fails.
  echo before >private.json && chmod 600 private.json && ln -s private.json link.json
  run info --json link.json
  valid_json private.json version
  [[ $(stat -c %a private.json) == 600 && -L link.json ]] || fail "$(ls -l private.json link.json)"
  ln -s y2.npy dangling.npy
  run conv --x x.npy --w w.npy --out dangling.npy
  [[ -L dangling.npy ]] && cmp y2.npy expected || fail "a dangling link: $(ls -l)"
  echo before >kept.npy
  chmod 640 kept.npy
  run conv --x x.npy --w w.npy --out kept.npy
  [[ $(stat -c %a kept.npy) == 640 ]] || fail "$(ls -l kept.npy)"
  refuse 1 '^plumb: /dev/full: cannot be written: No space left' info --json /dev/full
  (($(find . -name '*.tmp-*' | wc -l) == 0)) || fail "a temporary file was left"
}

# begin COMMAND...: in the background, with its own SIGINT: a shell has it ignored there. Sets `process`.
begin() {
  env --default-signal=INT "$program" "$@" >out 2>err &
  process=$!
}

# until_in FILE PATTERN: waits until a line of the file matches, or the process is gone.
until_in() {
  while ! grep -qE -- "$2" "$1" 2>/dev/null; do
    kill -0 $process 2>/dev/null || fail "ended before '$2' was in $1"
    sleep 0.05
  done
}

# ended CODE: waits for the process, which must end with this code.
ended() {
  local code=0
  wait $process || code=$?
  ((code == $1)) || fail "exit code $code, expected $1"
}

# Many problems, so that there is work left whenever the signal comes.
many_problems() {
  local i
  for ((i = 1; i <= 5000; ++i)); do echo "mb2ic3ih$((8 + i % 50))oc4kh3ph1"; done >many
}

# It ends at the next batch, with the weights of the last whole epoch.
interrupted_training() {
  first_images train 600
  local files=(--images images --labels labels --test-images images --test-labels labels)
  begin train --epochs 100000 --batch 25 "${files[@]}" --out weights
  until_in out '^ +2 '
  kill -INT $process
  ended 130
  printed '^wrote weights$'
  grep -qE '^plumb: interrupted after [0-9]+ of 100000 epochs$' err || fail "nothing said"
  run classify --device cpu --model weights --images images --labels labels
}

case_interrupt() {
  many_problems
  local signal work
  export PLUMB_TUNE_CACHE=$folder/cache
  for signal in INT TERM; do
    begin validate --device cpu --problems many --json v.json
    until_in v.json '"problems_done": [1-9]'
    kill -$signal $process
    ended 130
    printed ' [1-9][0-9]* problems, .* 0 failures' && printed '^cpu\.conv\.direct\.fp32 '
    grep -qE '^plumb: interrupted after [0-9]+ of 5000 problems$' err || fail "nothing said of $signal"
    (($(wc -l <err) == 1)) || fail "expected one line on stderr"
    valid_json v.json complete problems_done summary records verdict
    [[ $(json v.json complete) == false ]] || fail "complete is $(json v.json complete)"
    holds "$(json v.json problems_done) >= 1 && $(json v.json problems_done) < 5000"
    rm v.json
  done
  begin bench --device cpu --problems many --samples 2 --json b.json --plot b.svg
  until_in b.json '"median_seconds"'
  kill -INT $process
  ended 130
  printed '^ +cpu\.conv\.' && printed 'of the roofline in the median'
  grep -qE '^plumb: interrupted after [0-9]+ of 5000 problems$' err || fail "nothing said"
  valid_json b.json complete records summary left_out
  [[ $(json b.json complete) == false ]] || fail "complete is $(json b.json complete)"
  grep -q '</svg>' b.svg || fail "no picture"
  begin tune --device cpu --problems many --samples 2 "${any_time[@]}" --json t.json --plot t.svg
  until_in t.json '"median_seconds"'
  kill -INT $process
  ended 130
  printed '^  cpu\.conv\.im2col\.fp32 '
  grep -qE '^plumb: interrupted after [0-9]+ of 5000 problems$' err || fail "nothing said"
  valid_json t.json complete problems algorithms median_seconds
  [[ $(json t.json complete) == false ]] || fail "complete is $(json t.json complete)"
  grep -q '</svg>' t.svg || fail "no picture"
  if has_data; then interrupted_training; fi
  # A second signal ends what a first one lets finish, here minutes of work on one problem.
  begin validate --device cpu --problem mb64ic64ih56oc64kh3ph1 --algorithm 'cpu.conv.im2col.*'
  sleep 1
  kill -INT $process
  sleep 0.5
  kill -0 $process 2>/dev/null || fail "the first signal ended it at once"
  kill -INT $process
  ended 130
  [[ ! -s out ]] || fail "the second signal did not end it at once"
}

killed_training() {
  first_images train 600
  local files=(--images images --labels labels --test-images images --test-labels labels)
  begin train --epochs 100000 --batch 25 "${files[@]}" --out weights
  until_in out '^ +3 '
  kill -KILL $process
  ended 137
  run classify --device cpu --model weights --images images --labels labels
}

case_killed() {
  many_problems
  export PLUMB_TUNE_CACHE=$folder/cache
  begin validate --device cpu --problems many --json v.json
  until_in v.json '"problems_done": [1-9]'
  kill -KILL $process
  ended 137
  valid_json v.json complete problems_done summary records verdict
  [[ $(json v.json complete) == false ]] || fail "complete is $(json v.json complete)"
  begin bench --device cpu --problems many --samples 2 --json b.json
  until_in b.json '"median_seconds"'
  kill -KILL $process
  ended 137
  valid_json b.json complete records summary left_out
  begin tune --device cpu --problems many --samples 2 "${any_time[@]}" --json t.json
  until_in t.json '"median_seconds"'
  kill -KILL $process
  ended 137
  valid_json t.json complete problems algorithms
  run info
  printed '^tuning .*cache' || fail "no cache"
  if has_data; then killed_training; fi
  # A pipe gets one record, at the end, and what a name leads to is asked once.
  printf 'mb2ic3ih8oc4kh3\nmb2ic3ih9oc4kh3\n' >two
  "$program" validate --device cpu --problems two --json /dev/stderr 2>&1 >out | cat >piped
  "$program" validate --device cpu --problems two --json /dev/stderr >out 2>file || fail "exit code $?"
  for record in piped file; do
    valid_json $record records
    [[ $(json $record complete) == true ]] || fail "complete is $(json $record complete) in $record"
  done
}

run_case
