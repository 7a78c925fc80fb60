#!/usr/bin/env bash
# plumb train: its files, checkpoints, and the comparison of two devices.
# usage: train.sh PROGRAM CASE   (a case is a function case_... below)
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"

# small_set: 60 images, as options in `files`.
small_set() {
  first_images train 60
  files=(--images images --labels labels --test-images images --test-labels labels)
}

case_train() {
  has_data || return 0
  small_set
  run train --device cpu --epochs 2 --batch 25 --seed 7 "${files[@]}" --out one.safetensors --plot curve.svg --json one.json
  printed '^device +cpu  ' && printed '^epoch +loss +train +test loss +test +seconds$'
  printed '^ +1 +[0-9.]+ +0\.[0-9]+ +[0-9.]+ +0\.[0-9]+ +[0-9.]+$' && printed '^ +2 ' && printed 'wrote one.safetensors'
  head -c 2000 one.safetensors | grep -aq '"seed":"7"' || fail "no seed in the metadata"
  grep -q 'after 2 of 2 epochs' curve.svg && grep -q '<polyline' curve.svg || fail "no learning curve in the picture"
  valid_json one.json epochs loss test_accuracy complete
  [[ $(json one.json device) == cpu && $(grep -c '"epoch"' one.json) == 2 ]] || fail "$(cat one.json)"
  OMP_NUM_THREADS=1 run train --device cpu --epochs 2 --batch 25 --seed 7 "${files[@]}" --out two.safetensors
  cmp one.safetensors two.safetensors || fail "one thread gave other weights"
  run classify --device cpu --model one.safetensors --images images --labels labels
  printed '^accuracy'
  refuse 1 'no/m: cannot be created' train --epochs 1 --out no/m
  refuse 2 '--out is required' train --epochs 1
  refuse 2 'abacus' train --device abacus --out bad
  run train --device cpu --epochs 2 --batch 25 --seed 7 --no-average "${files[@]}" --out last.safetensors
  ! cmp -s one.safetensors last.safetensors || fail "--no-average gave the weights of an average"
  refuse 2 "^plumb: --final-rate: '2', expected" train --epochs 1 --final-rate 2 "${files[@]}" --out bad
  refuse 1 'loss is' train --device cpu --epochs 3 --learning-rate 1e30 "${files[@]}" --out bad
  refuse 1 'weight is|loss is' train --device cpu --epochs 1 --batch 60 --learning-rate 1e38 "${files[@]}" --out bad
  refuse 2 "^plumb: --learning-rate: 'nan', expected a number above 0" train --epochs 1 --learning-rate nan "${files[@]}" --out bad
  refuse 2 "^plumb: --momentum: '1', expected" train --epochs 1 --momentum 1 "${files[@]}" --out bad
  [[ ! -e bad ]] || fail "weights that are no numbers were written"
}

case_checkpoint() {
  has_data || return 0
  small_set
  local train=(train --device cpu "${files[@]}")
  local options=(--epochs 12 --batch 25 --seed 7)
  run "${train[@]}" "${options[@]}" --out whole --checkpoint last
  "$program" "${train[@]}" "${options[@]}" --out cut --checkpoint first >/dev/null 2>&1 &
  local pid=$!
  until [[ -e first ]]; do
    kill -0 $pid || fail "no checkpoint was written"
    sleep 0.01
  done
  kill -TERM $pid || true
  local code=0
  wait $pid || code=$?
  if ((code == 130)); then
    run "${train[@]}" --resume first --out resumed --checkpoint first
    printed '^ +1 ' && printed '^ +12 '
    cmp whole resumed || fail "a training that went on gave other weights"
  else
    missing="the training was over, with exit code $code, before it could be interrupted"
  fi
  refuse 1 'last: its training is complete, 12 of 12 epochs' "${train[@]}" --resume last --out bad
  refuse 2 '--batch: 26, but last has 25; expected the same, or none' "${train[@]}" --resume last --batch 26 --out bad
  refuse 1 'whole: no checkpoint of plumb train: .*the weights alone' "${train[@]}" --resume whole --out bad
  head -c 9000 last >half
  refuse 1 'half: .*(cut off|ends)' "${train[@]}" --resume half --out bad
  refuse 1 'none: .*No such file' "${train[@]}" --resume none --out bad
  first_images train 50
  refuse 1 'last: made of a training set with the fingerprint' "${train[@]}" --resume last --out bad
  [[ ! -e bad ]] || fail "something was written"
}

case_drift() {
  has_data || return 0
  small_set
  run train --compare cpu,cpu --steps 4 --batch 25 "${files[@]}"
  printed '^loss a: cpu, loss b: cpu' && printed '^ +4 .* 0.000e\+00 +0.000e\+00$' && printed '^ most +0.000e\+00 +0.000e\+00$'
  run train --compare cpu,cpu.f64 --steps 4 --batch 25 "${files[@]}" --json drift.json --plot drift.svg
  printed '^loss a: cpu, loss b: cpu in f64' && printed '^ +4 .*[1-9]\.[0-9]+e-[01][0-9]$'
  valid_json drift.json steps loss_difference weights_difference
  grep -q 'Drift in 4 steps' drift.svg || fail "no picture of the drift"
  refuse 1 'cpu:7' train --compare cpu,cpu:7 "${files[@]}"
  refuse 2 'abacus' train --compare cpu,abacus.f64 "${files[@]}"
  refuse 2 'exclude' train --compare cpu,cpu --out bad
  refuse 2 'compare' train --compare cpu
  refuse 2 'compare' train --steps 4 --out bad
}

run_case
