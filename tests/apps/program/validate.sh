#!/usr/bin/env bash
# plumb validate on random problems and on views.
# usage: validate.sh PROGRAM CASE   (a case is a function case_... below)
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"

case_random() {
  run validate --device cpu --random 300 --seed 3 --json random.json
  printed 'seed 3, 300 problems, [0-9]+ algorithms, [0-9]+ runs, 0 failures'
  (($(json random.json problems) == 300)) || fail "problems is $(json random.json problems)"
  valid_json random.json seed runs summary failures
  run validate --device cpu --random 1000000 --seconds 0.5 --json few.json
  (($(json few.json problems) < 1000000)) || fail "a limit of half a second was not kept"
  # The shares of three processes are the whole, and no problem is in two of them.
  local part total=0
  for part in 1 2 3; do
    run validate --device cpu --random 100 --seed 3 --share $part/3 --json share.json
    total=$((total + $(json share.json runs)))
    grep -q "\"share\": \"$part/3\"" share.json || fail "$(head -12 share.json)"
  done
  run validate --device cpu --random 100 --seed 3 --json whole.json
  ((total == $(json whole.json runs))) || fail "the shares ran $total, the whole $(json whole.json runs)"
  run validate --device cpu --quick --tier exact --share 40/200 --json share.json
  (($(json share.json problems) == 5)) || fail "$(json share.json problems) problems are in share 40/200"
  for bad in 0/2 3/2 1 1/ /2 1/2x x 1/-2; do
    refuse 2 "--share: '$bad', expected PART/OF with 1 <= PART <= OF" validate --quick --share "$bad"
  done
  refuse 2 "--random: '0'" validate --random 0
  refuse 2 '--random' validate --random 5 --problem mb1ic1ih1oc1kh1
  refuse 2 '--seconds' validate --seconds 5
  # Views that no name has, each given.
  local views=(--problem mb2ic3ih8oc4kh3 --x-strides=-192,64,0,-1 --w-strides=27,9,-3,1
    --y-strides=224,1,28,4 --padding 0,1,2,0 --offset 3)
  run validate --device cpu "${views[@]}" --guard behind --threads 2 --tier exact --json views.json
  printed '^cpu on .* 1 problems, [0-9]+ algorithms, [0-9]+ runs validated, 0 failures'
  grep -q '"problem": "g1mb2ic3ih8iw8oc4oh8ow7kh3kw3ph0pw1"' views.json || fail "$(head -20 views.json)"
  grep -q '"layout": "views"' views.json || fail "$(head -20 views.json)"
  run explain --device cpu "${views[@]}"
  printed 'f32 views  on cpu'
  refuse 1 'y of .* overlaps itself' validate --device cpu --problem mb2ic3ih8oc4kh3 --y-strides=0,36,6,1
  refuse 2 '--x-strides' validate --device cpu --suite four --x-strides=1,1,1,1
  refuse 2 '--x-strides' validate --device cpu --problem mb2ic3ih8oc4kh3 --x-strides=1,1
}

run_case
