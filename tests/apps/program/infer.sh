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

case_infer_files() {
  # Twice the same image gives twice the same logits, and those of that image alone.
  { head -c 6000 /dev/zero && head -c 6288 /dev/zero | tr '\0' '?'; } >image  # 0 and 0.747
  { npy f4 '1, 3, 32, 32' && cat image; } >one.npy
  { npy f4 '2, 3, 32, 32' && cat image image; } >two.npy
  run infer --device cpu "${small[@]}" --images one.npy --logits logits_of_one.npy
  run infer --device cpu "${small[@]}" --batch 2 --images two.npy --logits logits_of_two.npy
  (($(stat -c %s logits_of_one.npy) == 128 + 4000)) || fail "expected 1000 logits"
  head -c 128 logits_of_two.npy | grep -q "'shape': (2, 1000)" || fail "expected a shape of 2, 1000"
  cmp <(tail -c 4000 logits_of_two.npy) <(tail -c 8000 logits_of_two.npy | head -c 4000) ||
    fail "the two images' logits differ"
  run infer --device cpu "${small[@]}" --seed 2 --images one.npy --logits other.npy
  cmp -s logits_of_one.npy other.npy && fail "other weights gave the same logits"
  refuse 1 'two\.npy: f32 \[2, 3, 32, 32\], expected f32 \[1, 3, 32, 32\]' infer --device cpu "${small[@]}" --images two.npy
  refuse 1 'no/y\.npy: cannot be created' infer --device cpu "${small[@]}" --logits no/y.npy
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
