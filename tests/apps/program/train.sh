#!/usr/bin/env bash
# plumb train.
# usage: train.sh PROGRAM CASE   (a case is a function case_... below)
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"

case_train() {
  has_data || return 0
  first_images train 60
  local files=(--images images --labels labels --test-images images --test-labels labels)
  run train --epochs 2 --batch 25 --seed 7 "${files[@]}" --out one.safetensors
  printed '^epoch +loss +train +test +seconds$'
  printed '^ +1 +[0-9.]+ +0\.[0-9]+ +0\.[0-9]+ +[0-9.]+$' && printed '^ +2 ' && printed 'wrote one.safetensors'
  head -c 2000 one.safetensors | grep -aq '"seed":"7"' || fail "no seed in the metadata"
  run train --epochs 2 --batch 25 --seed 7 "${files[@]}" --out two.safetensors
  cmp one.safetensors two.safetensors || fail "the same seed gave other weights"
  run classify --device cpu --model one.safetensors --images images --labels labels
  printed '^accuracy'
  refuse 1 'no/m: cannot be created' train --epochs 1 --out no/m
  refuse 1 'loss is' train --epochs 3 --learning-rate 1e30 "${files[@]}" --out bad
  refuse 1 'weight is|loss is' train --epochs 1 --batch 60 --learning-rate 1e38 "${files[@]}" --out bad
  refuse 2 "^plumb: --learning-rate: 'nan', expected a number above 0" train --epochs 1 --learning-rate nan "${files[@]}" --out bad
  [[ ! -e bad ]] || fail "weights that are no numbers were written"
}

run_case
