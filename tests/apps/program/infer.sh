#!/usr/bin/env bash
# plumb infer: its table and its JSON, two devices held against each other, and options that are wrong.
# usage: infer.sh PROGRAM CASE   (a case is a function case_... below)
# shellcheck source-path=SCRIPTDIR source=support.sh
source "$(dirname "$0")/support.sh"

small=(--side 32 --samples 1)

case_infer() {
  run infer --device cpu "${small[@]}" --batch 2 --json infer.json
  printed '^cpu .*: resnet50 of 32x32, batch 2, f32 nchw$'
  printed '^conv1 +64 filters 7x7, stride 2, ReLU +[0-9.]+ +[0-9.]+  cpu\.conv\.'
  printed '^layer1\.0\.conv3 +256 filters 1x1, residual, ReLU '
  printed '^maxpool .* pool$' && printed '^all layers ' && printed ' images per second$'
  (($(grep -c ' cpu\.conv\.' out) == 54)) || fail "expected 54 convolutions"
  valid_json infer.json version model batch side dtype layout math runs device images_per_second layers \
    algorithm flop seconds
  (($(grep -c '"algorithm"' infer.json) == 56)) || fail "expected 56 layers"
  # Each type in its layout, and the same results from the same seed.
  run infer --compare cpu,cpu "${small[@]}" --dtype f16 --json compare.json
  printed 'f16 nhwc$' && printed '^compare   cpu with cpu: largest difference of the logits 0\.000e\+00, bound '
  holds "$(json compare.json bound) > 0"
}

case_infer_errors() {
  refuse 2 "'vgg16', expected one of: resnet50" infer --model vgg16
  refuse 2 "--side: '31', expected an integer of 32 or more" infer --side 31
  refuse 2 'compare' infer --compare cpu
  refuse 2 'exclude' infer --compare cpu,cpu --device cpu
  refuse 1 '^plumb: nothing: .*No such file' infer --device cpu --weights nothing
  refuse 1 "no tensor 'conv1\.bias'|'conv1\.weight' is" infer --device cpu --weights "$model"
  refuse 1 'no/f.json: cannot be created' infer --json no/f.json
}

run_case
