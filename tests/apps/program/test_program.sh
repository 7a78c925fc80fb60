#!/usr/bin/env bash
# Runs the program as its users do: what it prints, its exit codes, and one line for each error.
# usage: test_program.sh PROGRAM CASE   (a case is a function case_... below)
# Exit code 77 stands for a skip: something that the case needs is not there.
set -euo pipefail

program=$1
case=$2
script=$(readlink -f "${BASH_SOURCE[0]}")
model=$(cd "$(dirname "$script")/../../../apps/models" && pwd)/lenet_fashion_mnist.safetensors
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
data=${PLUMB_DATA_DIR:-/usr/share/datasets/fashion-mnist}

fail() {
  echo "FAILED: $*"
  for file in out err; do
    if [[ -s $file ]]; then echo "-- $file:" && cat "$file"; fi
  done
  exit 1
}

# has_data: whether Fashion-MNIST is there. Where not, a case does what it can without and ends as a
# skip, or fails where the data are required.
missing=
has_data() {
  local set
  for set in train t10k; do
    if [[ -r $data/$set-images-idx3-ubyte.gz && -r $data/$set-labels-idx1-ubyte.gz ]]; then continue; fi
    missing="Fashion-MNIST's $set-*.gz are not in $data (package dataset-fashion-mnist; PLUMB_DATA_DIR)"
    [[ -z ${CI:-}${PLUMB_REQUIRE_DATA:-} ]] || fail "$missing"
    return 1
  done
}

# run ARGUMENT...: must succeed, and say nothing on stderr, which is no terminal here.
run() {
  "$program" "$@" >out 2>err || fail "exit code $? from plumb $*"
  [[ ! -s err ]] || fail "plumb $* wrote to stderr"
}

# refuse CODE PATTERN ARGUMENT...: must fail with this exit code and one line that matches.
refuse() {
  local code=0 expected=$1 pattern=$2
  shift 2
  "$program" "$@" >out 2>err || code=$?
  ((code == expected)) || fail "exit code $code from plumb $*, expected $expected"
  (($(wc -l <err) == 1)) || fail "expected one line on stderr from plumb $*"
  grep -q '^plumb: ' err || fail "expected 'plumb: ' on stderr"
  grep -qE -- "$pattern" err || fail "expected '$pattern' on stderr from plumb $*"
}

printed() { grep -qE -- "$1" out || fail "expected '$1' on stdout"; }

# json FILE KEY: the value of a key that stands on one line.
json() { sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$1" | head -n 1; }
holds() { awk "BEGIN { exit !($1) }" || fail "$1"; }

# numbers BYTES MANTISSA_BITS BIAS INTEGER...: integers as little-endian floating point.
numbers() {
  local bytes=$1 mantissa=$2 bias=$3 value
  shift 3
  for value; do
    local word=0 magnitude=${value#-} exponent=0 i
    if ((magnitude > 0)); then
      while ((magnitude >> (exponent + 1))); do ((++exponent)); done
      word=$((((exponent + bias) << mantissa) | ((magnitude - (1 << exponent)) << (mantissa - exponent))))
    fi
    if [[ $value == -* ]]; then word=$((word | 1 << (8 * bytes - 1))); fi
    for ((i = 0; i < bytes; ++i)); do printf "\\x$(printf %02x $((word >> (8 * i) & 255)))"; done
  done
}

# npy TYPE SHAPE INTEGER...: a .npy file as NumPy writes it; TYPE is f2, f4 or f8.
npy() {
  local text="{'descr': '<$1', 'fortran_order': False, 'shape': ($2), }" type=$1
  shift 2
  printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$text"
  case $type in
    f2) numbers 2 10 15 "$@" ;;
    f4) numbers 4 23 127 "$@" ;;
    f8) numbers 8 52 1023 "$@" ;;
  esac
}

# first_images PREFIX COUNT: the first images and labels of a set, plain, as `images` and `labels`.
first_images() {
  local count=$2 bytes
  bytes=$(printf '\\x%02x\\x%02x' $((count >> 8)) $((count & 255)))
  # Read to the end: head closing the pipe early would be an error of gzip's.
  gzip -dc "$data/$1-images-idx3-ubyte.gz" >whole
  { head -c 4 whole && printf "\0\0$bytes" && tail -c +9 whole | head -c $((8 + count * 784)); } >images || true
  gzip -dc "$data/$1-labels-idx1-ubyte.gz" >whole
  { head -c 4 whole && printf "\0\0$bytes" && tail -c +9 whole | head -c "$count"; } >labels || true
}

# Of plumb tune: no time is unsteady. Tests run beside others, and with sanitizers.
any_time=(--scatter-limit 1e9 --estimate-limit 1e9)

case_help() {
  run --version
  printed '^plumb [0-9]+\.[0-9]+\.[0-9]+$'
  run --help
  printed 'info.*' && printed 'classify' && printed 'train' && printed 'conv' && printed 'Exit codes'
  printed 'validate' && printed 'bench' && printed 'tune' && printed 'pipeline' && printed 'ladder'
  printed 'explain'
  for command in info explain classify train conv validate bench tune pipeline ladder; do
    run $command --help
    printed 'Example'
    # What an option does begins with what it is or does, in words: no "Of each", no "Their labels".
    if cut -c31- out | grep -E '^(Of|Their|So|For|Beside|Given|Adam|Times|Only names)\b'; then
      fail "a description of plumb $command --help has to be read twice"
    fi
  done
  run bench --help
  printed 'Crop images to at most this height and width, but never to less than the filter covers'
  printed 'Seed of the data'
}

case_info() {
  run info --json info.json
  printed '^plumb +[0-9]' && printed '^cuda' && printed '^cpu +.*Eigen' && printed '^ +cpu  .*threads'
  printed '^auto' && printed '^tuning '
  for key in version auto backends name reason sentence devices device instruction_set memory_bytes; do
    grep -q "\"$key\":" info.json || fail "no key $key in $(cat info.json)"
  done
}

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

case_devices() {
  has_data || return 0
  refuse 2 'abacus' classify --device abacus
  refuse 2 'cpu:x|cpu' classify --device cpu:x
  refuse 1 'cpu:7' classify --device cpu:7
  # A wrong name, whether there is a driver or not.
  refuse 2 "^plumb: device 'cuda:x': 'x' is no index; .* as in cuda:0" classify --device cuda:x
  refuse 2 "no backend 'cdua'; .*; did you mean 'cuda'\?" classify --device cdua
  refuse 2 "did you mean 'kokkos'\?" classify --device kokos:serial
  # A build without the backend says which has it.
  PLUMB_BACKEND_PATH=/nowhere refuse 1 "kokkos.*; a build where CMake finds Kokkos \(PLUMB_KOKKOS=ON, Kokkos_ROOT .*docs/kokkos.md\) has it" \
    classify --device kokkos
  PLUMB_BACKEND_PATH=/nowhere refuse 1 'a build where CMake finds nvcc \(PLUMB_CUDA=ON\) has it' classify --device cuda
  refuse 2 'abacus' classify --compare cpu,abacus --limit 1
  PLUMB_DEVICE=abacus refuse 2 'abacus' classify --limit 1
  PLUMB_DEVICE=abacus run classify --device cpu --limit 1
  "$program" info >out
  if grep -qE '^ +cuda:0 ' out; then
    run classify --device cuda --limit 100 --batch 32
    printed '^device +cuda:0'
    refuse 1 'cuda:99' classify --device cuda:99
  else
    refuse 1 'cuda' classify --device cuda
    refuse 1 'cuda' classify --compare cpu,cuda --limit 1
  fi
}

case_usage() {
  refuse 2 'subcommand'
  refuse 2 "'paint': expected a subcommand: info, classify, train, conv" paint
  refuse 2 '--colour: classify has no such option' classify --colour red
  # What is nearly right says what is, also where it hides that something is missing.
  refuse 2 "^plumb: --padding: conv has no such option; did you mean '--pad'\?" conv --x x --w w --out y --padding 1
  refuse 2 "^plumb: --output: .* did you mean '--out'\?" conv --x x --w w --output=y
  refuse 2 "^plumb: --limt: .* did you mean '--limit'\?" classify --limt 3
  refuse 2 "^plumb: 'clasify': .* did you mean 'classify'\?" clasify
  refuse 2 "^plumb: --verison: .* did you mean '--version'\?" --verison
  refuse 2 "^plumb: --device: plumb has no such option" --device cpu info
  refuse 2 "did you mean 'few200'\?" bench --suite few20
  refuse 2 "did you mean 'nhwc'\?" bench --layout nwhc
  refuse 2 "did you mean 'ece408_l1'\?" ladder --device cpu --layer ece408_11
  refuse 2 "nothing of cpu matches .*; did you mean 'cpu.conv.direct.fp32'\?" \
    bench --device cpu --suite four --algorithm cpu.conv.dirct.fp32
  refuse 2 '--batch' classify --batch 0
  refuse 2 '--batch' classify --batch many
  refuse 2 '--limit' classify --limit -1
  refuse 2 "--side: '0', expected an integer of 1 or more" validate --suite four --side 0
  refuse 2 '--labels' classify --images "$data/t10k-images-idx3-ubyte.gz"
  refuse 2 '--out' train --epochs 1
  refuse 2 '--epochs' train --epochs 0 --out m
  refuse 2 '--math' conv --x x --w w --out y --math fp8
  refuse 2 '--pad: 3 values' conv --x x --w w --out y --pad 1,2,3
  refuse 2 "--stride: '0', expected an integer of 1 or more" conv --x x --w w --out y --stride 0
  refuse 2 "--pad: '-1', expected an integer of 0" conv --x x --w w --out y --pad -1
  refuse 2 "--groups: '9{20}'" conv --x x --w w --out y --groups 99999999999999999999
}

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
  (($(json share.json problems) == 2)) || fail "$(json share.json problems) problems are in share 40/200"
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

case_conv() {
  # Worked by hand: x is 1 to 9 in a square.
  npy f4 '1, 1, 3, 3' 1 2 3 4 5 6 7 8 9 >x.npy
  npy f4 '1, 1, 2, 2' 1 2 3 -4 >w.npy
  npy f4 '1,' -6 >b.npy
  run conv --x x.npy --w w.npy --bias b.npy --device cpu --out y.npy
  printed '^y +\[1, 1, 2, 2\] f32' && printed '^algorithm +cpu\.conv\.' && printed '^op +[0-9.]+ s'
  # 1+4+12-20-6, 2+6+15-24-6, 4+10+21-32-6, 5+12+24-36-6
  npy f4 '1, 1, 2, 2' -9 -7 -3 -1 >expected
  cmp y.npy expected || fail "plain: y.npy is not what was expected"
  npy f4 '1,' 5 >b.npy
  run conv --x x.npy --w w.npy --bias b.npy --activation relu --out y.npy
  npy f4 '1, 1, 2, 2' 2 4 8 10 >expected
  cmp y.npy expected || fail "relu: y.npy is not what was expected"
  run conv --x x.npy --w w.npy --bias b.npy --pool max_2x2 --out y.npy
  npy f4 '1, 1, 1, 1' 10 >expected
  cmp y.npy expected || fail "pool: y.npy is not what was expected"
  # One row of zeros above and two columns right, each side its own; stride 2 along the width.
  run conv --x x.npy --w w.npy --pad 1,0,0,2 --stride 1,2 --math fp32 --out y.npy
  # Row 0 sees zeros and 1 2 3 0 0; its filter row is 3 -4. Row 1: 1 2 3 0 0 and 4 5 6 0 0.
  # 3-8, 9-0; 1+4+12-20, 3+0+18-0; 4+10+21-32, 6+0+27-0
  npy f4 '1, 1, 3, 2' -5 9 -3 21 3 33 >expected
  cmp y.npy expected || fail "padding: y.npy is not what was expected"
  # One number is every side and both directions, as two and four that are equal are.
  npy f4 '1, 1, 2, 2' -4 -6 -20 5 >expected
  for options in '--pad 1 --stride 2' '--pad 1,1 --stride 2,2' '--pad 1,1,1,1 --stride 2'; do
    run conv --x x.npy --w w.npy $options --out y.npy
    cmp y.npy expected || fail "$options: y.npy is not what was expected"
  done
  # Two groups and dilation 2, in double and in half precision: taps are the four corners.
  for type in f8 f2; do
    npy $type '1, 2, 3, 3' 1 2 3 4 5 6 7 8 9 10 20 30 40 50 60 70 80 90 >x.npy
    npy $type '2, 1, 2, 2' 1 1 1 1 1 0 0 -1 >w.npy
    run conv --x x.npy --w w.npy --groups 2 --dilation 2 --out y.npy
    npy $type '1, 2, 1, 1' 20 -80 >expected
    cmp y.npy expected || fail "groups in $type: y.npy is not what was expected"
  done
  # The same in NHWC files, and their result: two images of 2x2 with two channels, three filters of 1x2.
  npy f4 '2, 2, 2, 2' 1 10 2 20 3 30 4 40 5 50 6 60 7 70 8 80 >x.npy
  npy f4 '3, 1, 2, 2' 1 0 0 1 0 1 1 0 1 1 1 1 >w.npy
  run conv --layout nhwc --x x.npy --w w.npy --out y.npy
  printed '^y +\[2, 2, 1, 3\] f32'
  npy f4 '2, 2, 1, 3' 21 12 33 43 34 77 65 56 121 87 78 165 >expected
  cmp y.npy expected || fail "nhwc: y.npy is not what was expected"
  npy f4 '2, 2, 2, 2' 1 2 3 4 10 20 30 40 5 6 7 8 50 60 70 80 >x.npy
  npy f4 '3, 2, 1, 2' 1 0 0 1 0 1 1 0 1 1 1 1 >w.npy
  run conv --layout nchw --x x.npy --w w.npy --out y.npy
  npy f4 '2, 3, 2, 1' 21 43 12 34 33 77 65 87 56 78 121 165 >expected
  cmp y.npy expected || fail "nchw: y.npy is not what was expected"
  # No images, no work.
  npy f4 '0, 1, 3, 3' >x.npy
  npy f4 '1, 1, 2, 2' 1 2 3 4 >w.npy
  run conv --x x.npy --w w.npy --out y.npy
  npy f4 '0, 1, 2, 2' >expected
  cmp y.npy expected || fail "no images: y.npy is not what was expected"
}

case_conv_errors() {
  npy f4 '1, 1, 3, 3' 1 2 3 4 5 6 7 8 9 >x.npy
  npy f4 '1, 1, 2, 2' 1 2 3 4 >w.npy
  npy f8 '1, 1, 2, 2' 1 2 3 4 >double.npy
  npy f4 '1, 2, 2, 2' 1 2 3 4 5 6 7 8 >deep.npy
  npy f4 '1, 1, 4, 1' 1 2 3 4 >tall.npy
  npy f4 '2, 2' 1 2 3 4 >flat.npy
  npy f4 '2,' 1 2 >bias.npy
  head -c 140 x.npy >cut.npy
  refuse 1 'f64' conv --x x.npy --w double.npy --out y.npy
  refuse 1 '\[1, 2, 2, 2\]' conv --x x.npy --w deep.npy --out y.npy
  refuse 1 '4' conv --x x.npy --w tall.npy --out y.npy
  refuse 1 'flat.npy: shape \[2, 2\], expected four' conv --x x.npy --w flat.npy --out y.npy
  refuse 1 'bias' conv --x x.npy --w w.npy --bias bias.npy --out y.npy
  refuse 1 '2' conv --x x.npy --w w.npy --groups 2 --out y.npy
  refuse 1 'cut.npy: byte 128: .* 12 bytes follow' conv --x cut.npy --w w.npy --out y.npy
  refuse 1 'w.txt' conv --x x.npy --w w.txt --out y.npy
  refuse 2 "did you mean 'cpu.conv.direct.fp32'\?" \
    conv --x x.npy --w w.npy --device cpu --algorithm cpu.conv.dirct.fp32 --out y.npy
  refuse 1 'flat.npy: shape \[2, 2\], expected four dimensions, K R S C/G' conv --layout nhwc --x x.npy --w flat.npy --out y.npy
  refuse 2 'layout' conv --layout chwn --x x.npy --w w.npy --out y.npy
  # Channels of another number of groups.
  npy f4 '1, 4, 2, 2' 1 2 3 4 5 6 7 8 1 2 3 4 5 6 7 8 >four.npy
  npy f4 '2, 2, 1, 1' 1 2 3 4 >pairs.npy
  refuse 1 'w is \[2, 2, 1, 1\].*groups=2 would fit' conv --x four.npy --w pairs.npy --out y.npy
  refuse 1 'groups=2 would fit' conv --x four.npy --w pairs.npy --groups 3 --out y.npy
  run conv --x four.npy --w pairs.npy --groups 2 --out grouped.npy
  # An input is not written over, by whatever name.
  cp x.npy kept.npy && ln -s x.npy link.npy && ln x.npy hard.npy && ln -s . here
  npy f4 '1,' 1 >one.npy
  local name
  for name in x.npy ./x.npy "$folder/x.npy" link.npy hard.npy here/x.npy; do
    refuse 2 '^plumb: --out: .* is the file of --x, x.npy; expected another file' conv --x x.npy --w w.npy --out $name
    refuse 2 '^plumb: --out: x.npy is the file of --x,' conv --x $name --w w.npy --out x.npy
  done
  refuse 2 'is the file of --w' conv --x kept.npy --w w.npy --out w.npy
  refuse 2 'is the file of --bias' conv --x kept.npy --w w.npy --bias one.npy --out one.npy
  cmp x.npy kept.npy || fail "an input was written over"
  refuse 2 'cpu.conv.none.*cpu.conv.im2col.fp32' conv --x x.npy --w w.npy --device cpu --algorithm cpu.conv.none --out y.npy
  refuse 1 'cpu.conv.im2col.fp32' conv --x double.npy --w double.npy --device cpu --algorithm cpu.conv.im2col.fp32 --out y.npy
  refuse 1 'no/y.npy: cannot be created' conv --x x.npy --w w.npy --out no/y.npy
  [[ ! -e y.npy ]] || fail "an output was written after an error"
}

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

# valid_json FILE KEY...: parses, where there is a parser, and has each key.
valid_json() {
  local file=$1 key
  shift
  if command -v python3 >/dev/null; then python3 -m json.tool "$file" >/dev/null || fail "$file is no JSON"; fi
  for key; do grep -q "\"$key\":" "$file" || fail "no key $key in $(cat "$file")"; done
}

case_bench() {
  local small=(--device cpu --problem 'mb5ic3ih12oc4kh3ph1n"small"')
  run bench "${small[@]}" --algorithm '*' --json bench.json
  printed '^cpu .*copy [0-9.]+ GB/s' && printed '^small .*f32 nchw'
  printed '^ +cpu\.conv\.direct\.fp32 +fp32 +[0-9]+ +[0-9.]+ ' && printed 'cpu\.conv\.im2col\.fp64 +fp64'
  valid_json bench.json version date ceilings records refused problem device algorithm math dtype \
    layout samples median_seconds min_seconds gflop_per_second bytes_per_second roofline_fraction \
    max_error_over_bound sm_clock_mhz
  holds "$(json bench.json samples) >= 20"
  holds "$(json bench.json median_seconds) >= $(json bench.json min_seconds)"
  holds "$(json bench.json min_seconds) > 0 && $(json bench.json roofline_fraction) > 0"
  holds "$(json bench.json max_error_over_bound) > 0 && $(json bench.json max_error_over_bound) <= 1"
  # 2 N K P Q C R S operations
  holds "($(json bench.json gflop_per_second) * 1e9 * $(json bench.json median_seconds) / 155520 - 1) ^ 2 < 1e-12"
  (($(grep -c '"median_seconds"' bench.json) == $(grep -c '^  [a-z]*\.conv\..*%' out))) || fail "rows and records differ"
  printf 'mb2ic2ih7oc3kh3\n# a comment\ng2mb1ic4ih9oc2kh2sh2_poolmax2x2\n' >list
  run bench --device cpu --problems list --dtype f16 --layout nhwc --samples 2 --json list.json \
    --plot list.svg
  printed 'mb2ic2.*f16 nhwc' && printed '^g2mb1ic4.*_poolmax2x2 +f16'
  printed '^2 problems: [0-9.]+ % of the roofline in the median, [0-9.]+ % at the least \('
  (($(grep -c '"median_seconds"' list.json) == 2)) || fail "expected a record for each problem of the list"
  valid_json list.json summary roofline_fraction median least
  grep -q 'share of the roofline: median' list.svg || fail "no picture: $(head -c 300 list.svg)"
  run bench "${small[@]}" --algorithm '*' --samples 2 --plot all.svg
  for name in cpu.conv.direct.fp32 cpu.conv.panels.fp32 cpu.conv.im2col.fp64 small; do
    grep -q ">$name<" all.svg || fail "no $name in the picture: $(grep '<text' all.svg)"
  done
  (($(grep -cE '>[0-9.e-]+ ms, [0-9]+ %' all.svg) == $(grep -c '^  [a-z]*\.conv\..*%' out))) || fail "bars without figures"
  run bench --device cpu --problems list --batch 3 --samples 2
  printed '^g1mb3ic2' && printed '^g2mb3ic4'
  # Images are cropped, but not to less than filters need: 9 rows and 2 of padding for 11 taps.
  run bench --device cpu --problem mb9ic2ih40iw50oc3kh11kw5ph1 --batch 1 --side 7 --samples 1
  printed '^g1mb1ic2ih9iw7oc3oh1ow5'
  run validate --device cpu --suite few200 --batch 1 --side 9 --algorithm cpu.conv.im2col.fp32 \
    --tier exact
  printed '200 problems, 1 algorithms, 200 runs validated, 0 failures'
  run bench --device cpu --suite four --batch 1 --samples 2 --math fp64
  printed '^eecs471_l2 .*mb1ic12' && printed 'fp64.*fp64'
  run bench --device cpu --suite four --batch 1 --samples 2 --limit 0 --json limit.json
  printed '1 of 4 problems: the limit of 0 s was reached'
  (($(json limit.json left_out) == 3)) || fail "left_out is $(json limit.json left_out)"
  run bench "${small[@]}" --samples 2 --seconds 0 --json seconds.json
  (($(json seconds.json samples) == 2)) || fail "samples is $(json seconds.json samples)"
  run bench "${small[@]}" --algorithm 'cpu.conv.*' --samples 2 --packed-filters --json packed.json
  printed '^ +cpu\.conv\.direct\.fp32 .*filters packed before' && printed 'filters were packed before'
  for kind in 'bench.json counted' 'bench.json none' 'packed.json before' 'packed.json none'; do
    grep -q "\"filter_packing\": \"${kind#* }\"" "${kind% *}" || fail "no packing of kind $kind"
  done
  # Beside oneDNN, where this program was built with it.
  if "$program" bench "${small[@]}" --peer onednn --json peer.json >out 2>err; then
    printed 'x as fast as onednn\.conv\.'
    valid_json peer.json peer speed_over_peer
  else
    grep -q 'PLUMB_PEERS=ON' err || fail "onednn"
  fi
  refuse 2 "nothing of cpu matches 'none\*'" bench "${small[@]}" --algorithm 'none*'
  refuse 1 '^plumb: --peer: cpu has no cudnn\.conv\.\*; .*PLUMB_PEERS=ON' bench "${small[@]}" --peer cudnn
  refuse 2 'peer' bench "${small[@]}" --peer abacus
  refuse 2 'suite' bench --suite five
  refuse 2 'exclude' bench "${small[@]}" --suite four
  refuse 2 'seconds' bench "${small[@]}" --seconds -1
  refuse 2 'one is required' bench --device cpu
  refuse 1 'ih is 0|h' bench --device cpu --problem mb1ic1ih0oc1kh1
  refuse 1 'no/b.json: cannot be created' bench "${small[@]}" --json no/b.json
  printf '# nothing\n' >list
  refuse 1 'list: holds no problem' bench --device cpu --problems list
}

case_tune() {
  export PLUMB_TUNE_CACHE=$folder/cache
  # Threads that wait for each other would be slow beside other tests, and their times not kept.
  export OMP_NUM_THREADS=1
  local small=(--device cpu --problem mb2ic3ih9oc4kh3 "${any_time[@]}")
  local bench=(--device cpu --problem mb2ic3ih9oc4kh3)
  run tune "${small[@]}" --samples 3 --no-cache
  printed 'not written' && [[ ! -e cache ]] || fail "a cache was written with --no-cache"
  run tune "${small[@]}" --samples 3 --plot tune.svg --json tune.json
  printed ' fastest$' && printed "^cache +$folder/cache: 1 problems tuned"
  grep -q '</svg>' tune.svg || fail "no picture"
  grep -q 'cpu.conv.im2col.fp64' tune.svg || fail "an algorithm is missing in the picture"
  valid_json tune.json version date device cache problems algorithm reason estimate_seconds \
    median_seconds samples max_error_over_bound
  head -n 1 cache | grep -qx 'plumb tune cache 1' || fail "no cache: $(cat cache)"
  run info --json info.json
  valid_json info.json tuning
  # Later runs choose by it, and say so.
  PLUMB_VERBOSE=1 "$program" bench "${bench[@]}" --samples 2 >out 2>err || fail "exit code $?"
  grep -q 's tuned' err || fail "the plan was not chosen by its time"
  # What is damaged is not used, and tuning again replaces it.
  head -c 60 cache >cut && mv cut cache
  PLUMB_VERBOSE=1 "$program" bench "${bench[@]}" --samples 2 >out 2>err || fail "exit code $?"
  grep -q 'is ignored' err || fail "nothing said of the damaged cache"
  run tune "${small[@]}" --samples 2
  printed 'was damaged and has been replaced'
  PLUMB_TUNE_CACHE=/dev/null refuse 1 'the times are not kept: .*not a regular file' tune "${small[@]}" --samples 2
  PLUMB_TUNE_CACHE='' XDG_CACHE_HOME='' HOME='' refuse 1 'HOME' tune "${small[@]}" --samples 2
  refuse 2 'one is required' tune
  refuse 2 '--samples' tune "${small[@]}" --samples 0
}

case_explain() {
  export PLUMB_TUNE_CACHE=$folder/cache
  local small=(--device cpu --problem mb2ic3ih9oc4kh3)
  run explain "${small[@]}" --json explain.json
  printed '^g1mb2ic3ih9iw9oc4.*  f32 nchw  on cpu$' && printed '^> cpu\.conv\.[a-z0-9_]+\.fp32 .* chosen$'
  printed '^  cpu\.conv\.im2col\.fp64 +fp64 +[0-9.e-]+ +- +[0-9.e-]+  yes$' && printed '^No tuned times: '
  (($(grep -c '^> ' out) == 1)) || fail "expected one algorithm to be marked"
  valid_json explain.json version device auto_why problems problem chosen tuning algorithms algorithm \
    eligible reason sentence remedy math deterministic estimate_seconds measured_seconds workspace_bytes
  # Why not, and what would change it, once for all that it holds for.
  run explain "${small[@]}" --math fp64 --json explain.json
  printed '^math: computes in fp32; fp64 is asked for$'
  printed '^  To change it: allow its arithmetic: ConvOptions::math, --math\.$'
  printed '^  cpu\.conv\.direct\.fp32, .*cpu\.conv\.im2col\.fp32$'
  grep -q '"reason": "math"' explain.json || fail "no reason in the JSON"
  run explain "${small[@]}" --algorithm cpu.conv.im2col.fp32 --workspace-limit 1
  printed 'workspace_limit: needs [0-9]+ bytes of workspace; at most 1 are allowed' && printed '^Nothing can run it'
  printed "^not_forced: 'cpu\.conv\.im2col\.fp32' is forced"
  # Tuned times, and no line wider than the terminal, from 60 columns on.
  OMP_NUM_THREADS=1 run tune "${small[@]}" --samples 2 "${any_time[@]}"
  for columns in 120 80 60; do
    COLUMNS=$columns run explain "${small[@]}" --math fp64
    (($(grep -v '^g1mb' out | wc -L) <= columns)) || fail "a line is wider than $columns columns"
  done
  printed '^  +fp64 +[0-9.e-]+ +[0-9.e-]+ +[0-9.e-]+  chosen$'
  run explain --device cpu --suite four --batch 1
  (($(grep -c '^> ' out) == 4)) || fail "expected four layers"
  refuse 2 'one is required' explain --device cpu
  refuse 2 "nothing of cpu matches 'none'" explain "${small[@]}" --algorithm none
  refuse 1 'no/e.json: cannot be created' explain "${small[@]}" --json no/e.json
  PLUMB_BACKEND_PATH=/nowhere run explain --problem mb2ic3ih9oc4kh3
  printed ' cuda .* module_missing$|^  cuda$' && printed '^module_missing: '
}

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

case_pipeline() {
  local small=(--device cpu --problem 'mb5ic3ih12oc4kh3ph1n"small"')
  run pipeline "${small[@]}" --streams 1,2 --json pipeline.json --plot pipeline.svg
  printed '^small .*f32 nchw' && printed '^  pageable +1 +1 +5 ' && printed '^  pinned +2>1 +1 +5 '
  valid_json pipeline.json version date records memory streams segments images_per_segment \
    memory_budget_bytes median_seconds images_per_second copy_in_alone_seconds kernel_alone_seconds \
    copy_out_alone_seconds over_slowest_stage max_error_over_bound
  (($(grep -c '"median_seconds"' pipeline.json) == 4)) || fail "expected 2 kinds of memory x 2 streams"
  holds "$(json pipeline.json median_seconds) > 0"
  holds "$(json pipeline.json max_error_over_bound) > 0 && $(json pipeline.json max_error_over_bound) <= 1"
  grep -q '</svg>' pipeline.svg && grep -q '>kernel<' pipeline.svg || fail "no timeline"
  run pipeline "${small[@]}" --algorithm cpu.conv.im2col.fp64 --memory pinned --streams 1 --layout nhwc --budget 1GB
  printed 'nhwc' && printed 'cpu\.conv\.im2col\.fp64'
  refuse 2 "names [2-9] algorithms, expected one" pipeline "${small[@]}" --algorithm '*'
  refuse 1 'expected images without gaps' pipeline "${small[@]}" --layout strided
  refuse 2 'memory' pipeline "${small[@]}" --memory paper
  refuse 2 "streams: '0'" pipeline "${small[@]}" --streams 0
  refuse 2 'one is required' pipeline --device cpu
  refuse 1 'no/p.svg: cannot be created' pipeline "${small[@]}" --plot no/p.svg
}

case_ladder() {
  run ladder --device cpu --batch 2 --samples 1 --layer ece408_l2 --batches --json ladder.json --plot ladder.svg
  printed '^ece408_l2 .*mb2ic4ih40' && printed '^ +1  direct +missing: not on cpu$'
  printed '^ +9  a kernel .* cpu\.conv\.direct\.fp32 ' && printed '^ +19  tuning .*cpu\.conv\.'
  printed '^ +18  streams, with the copies ' && printed '^ece408_l2 +2 +[0-9.]+ '
  valid_json ladder.json version date layers name problem roofline_seconds rungs rung title missing \
    variants algorithm median_seconds roofline_fraction max_error_over_bound layer_time batches n \
    op_seconds one_stream_seconds pipeline_seconds
  (($(grep -c '"rung":' ladder.json) == 19)) || fail "expected nineteen rungs"
  holds "$(json ladder.json max_error_over_bound) > 0 && $(json ladder.json max_error_over_bound) <= 1"
  grep -q '</svg>' ladder.svg && grep -q 'roofline' ladder.svg || fail "no picture"
  # The picture has what a CPU has, by name, and no rung that only CUDA has.
  for rung in '8  shared and registers' '10  unroll, product, permute' '11  fused unroll and product'; do
    grep -q ">$rung<" ladder.svg || fail "no rung $rung in the picture"
  done
  # Which precision is faster in one sample is chance.
  for name in direct im2col panels; do
    grep -qE " $name\.fp(32|64)<" ladder.svg || fail "no bar has the name $name"
  done
  if grep -q '>12  tensor cores' ladder.svg; then fail "a rung that no CPU has is in the picture"; fi
  printed '^ +8  shared and registers +cpu\.conv\.direct\.fp' && printed '^ +11 .* cpu\.conv\.panels\.fp'
  refuse 2 "'ece408_l3', expected one of: ece408_l1, ece408_l2, eecs471_l1, eecs471_l2" \
    ladder --device cpu --layer ece408_l3
  refuse 2 'batch' ladder --batch 0
  refuse 1 'no/l.json: cannot be created' ladder --device cpu --json no/l.json
}

# Every option of every command that takes a number refuses what is none, and what it cannot hold. The
# options are those that --help shows, so that a new one is tried too.
case_numbers() {
  local command option kind bad seen=' ' values
  for command in info explain classify train conv validate bench tune pipeline ladder; do
    run $command --help
    grep -oE '^ +--[a-z-]+ (INT|UINT|FLOAT)[^ ]*' out >numbers || true
    while read -r option kind; do
      values=(nan inf -1 1e400 '' -0.5 0x10 ' 1' 1x '1 2' 9999999999999999999999 -9223372036854775809)
      if [[ $kind == INT ]]; then values=("${values[@]/#-1/-1x}"); fi  # may be below zero
      if [[ $kind == FLOAT* ]]; then values=(nan inf -inf NAN -1 1e400 -1e400 '' 1e-400 0x1p3 ' 1' 1x); fi
      for bad in "${values[@]}"; do
        local given=$bad
        if [[ $option == --*-strides || $option == --padding ]]; then given=${bad:=nothing},1,1,1; fi
        refuse 2 "^plumb: $option: '$bad', expected (an integer|a number|bytes|[0-9]+ bytes)" \
          "$command" "$option" "$given"
      done
      seen+="$command$option "
    done <numbers
  done
  # What is there today; those that --help would not show as numbers are missed here.
  for option in classify--batch classify--limit train--epochs train--seed train--batch \
    train--learning-rate conv--stride conv--dilation conv--pad conv--groups validate--batch \
    validate--side validate--seed validate--random validate--threads \
    validate--seconds validate--failures validate--products validate--x-strides validate--offset bench--samples bench--seconds bench--limit bench--seed tune--samples \
    explain--workspace-limit pipeline--streams pipeline--budget pipeline--segment pipeline--seed \
    ladder--batch ladder--samples; do
    [[ $seen == *" $option "* ]] || fail "$option was not tried, of$seen"
  done
  refuse 2 "^plumb: --stride: 'nan', expected" conv --stride 1,nan
  refuse 2 "^plumb: --streams: '-1', expected" pipeline --streams 1,-1
  refuse 2 "^plumb: --seconds: '1e22', expected a number from 0, 1000000000 at most" bench --seconds 1e22
  refuse 2 "^plumb: --samples: '2147483648', expected an integer from 1 to 2147483647" bench --samples 2147483648
  refuse 2 "^plumb: --budget: '16E', expected 9223372036854775807 bytes at most" pipeline --budget 16E
  refuse 2 "^plumb: --budget: '1X', expected bytes" pipeline --budget 1X
  # Decimal, whatever stands in front; and the largest seed there is.
  refuse 2 "^plumb: --x-strides: '-9223372036854775809', expected an integer from" validate --x-strides 1,2,3,-9223372036854775809
  npy f4 '1, 1, 3, 3' 1 2 3 4 5 6 7 8 9 >x.npy
  npy f4 '1, 1, 2, 2' 1 2 3 -4 >w.npy
  refuse 1 'expected.*8|8' conv --x x.npy --w w.npy --pad 0 --groups 08 --out y.npy
  run validate --device cpu --problem mb1ic1ih3oc1kh2 --algorithm cpu.conv.im2col.fp32 --tier exact \
    --seed 18446744073709551615 --json v.json
  grep -q '"seed": 18446744073709551615' v.json || fail "the seed is another one"
  local small=(--device cpu --problem 'mb5ic3ih12oc4kh3ph1' --streams 1 --memory pinned)
  for bad in 1m 1MB 1MiB '1 mb' 1048576; do run pipeline "${small[@]}" --budget "$bad"; done
}

# What a user or a file says is shown quoted, escaped and cut: one readable line of bounded length.
case_echoes() {
  local long raw=$'\033[2J\a\x80\n\xe2\x80\xae' value
  long=$(head -c 100000 /dev/zero | tr '\0' x)
  readable() {
    local most=$1 code=0
    shift
    "$program" "$@" >out 2>err </dev/null || code=$?
    ((code == 1 || code == 2)) || fail "exit code $code, expected an error"
    (($(wc -l <err) == 1)) || fail "expected one line on stderr"
    (($(wc -c <err) <= most)) || fail "$(wc -c <err) bytes on stderr, expected $most at most"
    if LC_ALL=C grep -q '[^ -~]' err; then fail "raw bytes on stderr: $(od -c err | head)"; fi
  }
  npy f4 '1, 1, 3, 3' 1 2 3 4 5 6 7 8 9 >x.npy
  for value in "$raw" "$long"; do
    readable 1000 "$value"
    readable 1000 classify "$value"
    readable 1000 classify "--$value"
    readable 1000 classify "--batch=$value"
    readable 1000 classify --batch "$value"
    readable 1000 bench --seconds "$value"
    readable 1000 pipeline --budget "$value"
    readable 1000 conv --stride "1,$value"
    readable 1000 conv --math "$value"
    readable 1000 validate --suite "$value"
    readable 1000 validate --tier "exact,$value"
    readable 1000 bench --peer "$value"
    readable 1000 bench --device cpu --suite four --algorithm "$value"
    readable 1000 ladder --device cpu --layer "$value"
    readable 3000 classify --model "$value"
    readable 3000 classify --images "$value" --labels "$value"
    readable 3000 classify --limit 1 --json "$value/j"
    readable 3000 conv --x "$value" --w w.npy --out y.npy
    readable 3000 conv --x x.npy --w "x.npy" --out y.npy --device cpu --algorithm "$value"
    readable 3000 bench --problems "$value"
    # The library's own words, which the program bounds.
    readable 9000 classify --device "$value" --limit 1
    readable 9000 bench --device cpu --problem "$value"
    PLUMB_DEVICE=$value readable 9000 classify --limit 1
    PLUMB_DATA_DIR=$value readable 3000 classify --limit 1
    PLUMB_TUNE_CACHE=/proc/$value/c readable 9000 tune --device cpu --problem mb1ic1ih3oc1kh2 --samples 2
  done
  printf 'mb1ic1%s\n' "$raw" >list
  readable 9000 bench --device cpu --problems list
  printf "\x93NUMPY\x01\x00\x20\x00{'%s': 1}%-20s\n" "$raw" '' >bad.npy
  readable 1000 conv --x bad.npy --w x.npy --out y.npy
  value="{\"\\u001b[2J$long\":[1]}"
  printf '%b%s' "$(printf '\\x%02x' $((${#value} & 255)) $((${#value} >> 8 & 255)) $((${#value} >> 16)))\\0\\0\\0\\0\\0" "$value" >bad
  readable 1000 classify --model bad
}

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

# on_one_core CODE ARGUMENT...: on a problem that is worth two threads, which wait for each other on one
# core and do not sleep while they do, as beside a busy neighbour. OpenMP would have them sleep if it
# knew: they are bound to the core when it has started, and waits for the problem.
on_one_core() {
  local code=0 expected=$1
  shift
  rm -f problem && mkfifo problem
  OMP_NUM_THREADS=2 OMP_WAIT_POLICY=active "$program" "$@" --device cpu --problems problem --samples 5 >out 2>err &
  exec 3>problem
  taskset -acp "${cores[0]}" $! >/dev/null
  echo mb1ic16ih14oc16kh3ph1 >&3
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

"case_$case"
if [[ -n $missing ]]; then
  echo "skipped, or a part of it: $missing"
  exit 77
fi
echo "passed: $case"
