#!/usr/bin/env bash
# The command line: help, options and names that are wrong, numbers that are none, and what is echoed.
# usage: usage.sh PROGRAM CASE   (a case is a function case_... below)
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"

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

case_usage() {
  refuse 2 'subcommand'
  refuse 2 "'paint': expected a subcommand: info, classify, infer, train, conv" paint
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
  refuse 2 '--pad: 5 values' conv --x x --w w --out y --pad 1,2,3,4,5
  refuse 2 "--stride: '0', expected an integer of 1 or more" conv --x x --w w --out y --stride 0
  refuse 2 "--pad: '-1', expected an integer of 0" conv --x x --w w --out y --pad -1
  refuse 2 "--groups: '9{20}'" conv --x x --w w --out y --groups 99999999999999999999
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

run_case
