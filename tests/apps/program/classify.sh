#!/usr/bin/env bash
# plumb classify: its accuracy, its comparison of devices, and files of data or weights that are wrong.
# usage: classify.sh PROGRAM CASE   (a case is a function case_... below)
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"

case_classify() {
  has_data || return 0
  run classify --device cpu --limit 1000 --batch 300 --json classify.json
  printed '^device +cpu' && printed '^images +1000 in batches of 300' && printed '^accuracy +0\.'
  # conv1 pools all that there is, conv2 the first 2x2 of 4x4.
  printed '^conv1 .*ReLU, maximum of 2x2 ' && printed '^conv2 .*ReLU, maximum of 2x2 '
  for layer in resize conv1 conv2 pool2 linear1 linear2 softmax; do
    printed "^$layer .* [0-9.]+ +[0-9.]+$"
    grep -q "\"name\": \"$layer\"" classify.json || fail "no layer $layer in the JSON"
  done
  [[ $(json classify.json device) == cpu ]] || fail "device: $(json classify.json device)"
  for key in batch images correct accuracy load_seconds total_seconds op_seconds layer_seconds; do
    holds "$(json classify.json $key) > 0"
  done
  (($(grep -c op_seconds classify.json) == 7)) || fail "expected 7 layers"
  holds "$(json classify.json images) == 1000 && $(json classify.json batch) == 300"
  holds "$(json classify.json correct) / 1000 == $(json classify.json accuracy)"
  holds "$(json classify.json accuracy) >= 0.85"
  holds "$(json classify.json total_seconds) >= $(json classify.json load_seconds)"
  # The same from plain files, with another batch.
  local correct
  correct=$(json classify.json correct)
  first_images t10k 1000
  run classify --device cpu --images images --labels labels --json plain.json
  [[ $(json plain.json correct) == "$correct" ]] || fail "$(json plain.json correct), not $correct"
}

case_compare() {
  refuse 2 'compare' classify --compare cpu
  refuse 2 'exclude' classify --compare cpu,cpu --device cpu
  # Both devices are opened before anything is computed, and before a file is read.
  refuse 1 'cpu:7' classify --compare cpu,cpu:7 --limit 50
  [[ ! -s out ]] || fail "the first device worked before the second was opened"
  refuse 2 'abacus' classify --compare cpu,abacus --model nothing
  has_data || return 0
  run classify --compare cpu,cpu --limit 50 --json compare.json
  printed 'largest difference of the logits: 0\.000e\+00' && printed 'disagree: 0$'
  [[ $(json compare.json largest_logit_difference) == 0.0 ]] || fail "$(cat compare.json)"
  grep -q '"disagreements": \[\]' compare.json || fail "$(cat compare.json)"
}

case_data() {
  PLUMB_DATA_DIR=/nowhere refuse 1 '/nowhere/t10k-images-idx3-ubyte.gz.*PLUMB_DATA_DIR' classify
  has_data || return 0
  local images=$data/t10k-images-idx3-ubyte.gz labels=$data/t10k-labels-idx1-ubyte.gz
  head -c 100000 "$images" >cut.gz
  refuse 1 '^plumb: cut.gz: the gzip data is cut off after [0-9]+ ' classify --images cut.gz --labels "$labels"
  gzip -dc "$images" >images
  head -c 100000 images >cut
  refuse 1 '^plumb: cut: .*10000 x 28 x 28.* 99984 bytes' classify --images cut --labels "$labels"
  head -c 10 images >cut
  refuse 1 '^plumb: cut: ends after 10 bytes' classify --images cut --labels "$labels"
  refuse 1 'labels-idx1-ubyte.gz: byte 0: .*labels.*expected 0x00000803' classify --images "$labels" --labels "$labels"
  refuse 1 'images-idx3-ubyte.gz: byte 0: .*images.*expected 0x00000801' classify --images "$images" --labels "$images"
  refuse 1 '^plumb: none: .*No such file' classify --images none --labels "$labels"
  refuse 1 'is a directory' classify --images . --labels "$labels"
  first_images t10k 10
  refuse 1 'labels for the 10 images' classify --images images --labels "$labels"
}

# These tests themselves, where Fashion-MNIST is not there.
case_without_data() {
  local code expected require
  mkdir none
  for require in '' 1; do
    code=0 expected=77
    if [[ -n $require ]]; then expected=1; fi
    CI='' PLUMB_REQUIRE_DATA=$require PLUMB_DATA_DIR=$folder/none \
      bash "$script" "$program" data >out 2>err || code=$?
    ((code == expected)) || fail "exit code $code with PLUMB_REQUIRE_DATA='$require'"
    printed "Fashion-MNIST's .* are not in .*/none "
  done
}

case_model() {
  has_data || return 0
  run classify --device cpu --limit 1 --json figures.json
  (($(stat -c %s "$model") > 100000)) || fail "$model is no whole model"
  head -c $(($(stat -c %s "$model") / 2)) "$model" >half
  refuse 1 '^plumb: half: tensor .*(cut off|ends)' classify --model half
  head -c 100 "$model" >head
  refuse 1 '^plumb: head: ends after 100 bytes' classify --model head
  printf '\x02\0\0\0\0\0\0\0{}' >empty
  refuse 1 "^plumb: empty: no tensor 'conv1.weight'" classify --model empty
  sed 's/\[32,1024\]/[1024,32]/' "$model" >other
  refuse 1 "^plumb: other: tensor 'linear1.weight' is \[1024, 32\], expected \[32, 1024\]" classify --model other
  refuse 1 '^plumb: nothing: .*No such file' classify --model nothing
}

run_case
