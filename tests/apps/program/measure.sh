#!/usr/bin/env bash
# The subcommands that take times: bench, pipeline, ladder, tune, and explain, which shows tuned times.
# usage: measure.sh PROGRAM CASE   (a case is a function case_... below)
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"

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
  # Beside oneDNN, where it is installed: never what a plan chooses, although it is in the list.
  run bench "${small[@]}" --peer onednn --json peer.json
  if grep -q '"algorithm": "onednn.*"median_seconds"' <(tr -d '\n' <peer.json); then
    printed 'x as fast as onednn\.conv\.'
    valid_json peer.json peer speed_over_peer
  else
    printed 'onednn\.conv\..*provider_'
  fi
  refuse 2 "nothing of cpu matches 'none\*'" bench "${small[@]}" --algorithm 'none*'
  refuse 1 '^plumb: --peer: cpu has no cudnn\.conv\.\*; it computes on a CUDA device' bench "${small[@]}" --peer cudnn
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
  local one_axis=mb5ic3iw20oc4kw3pw1 three_axes=mb5ic3id6ih7oc4kd3kh3pd1ph1
  run pipeline --device cpu --problem $one_axis --boundary periodic --memory pageable --streams 1 --json pipeline.json
  printed '_padperiodic  f32' && printed '^  pageable +1 +1 +5 '
  holds "$(json pipeline.json max_error_over_bound) > 0 && $(json pipeline.json max_error_over_bound) <= 1"
  run pipeline --device cpu --problem $three_axes --boundary reflect,zeros,clamp --memory pageable --streams 1 --json pipeline.json
  printed '_padreflect/zeros/clamp  f32'
  holds "$(json pipeline.json max_error_over_bound) > 0 && $(json pipeline.json max_error_over_bound) <= 1"
  run pipeline "${small[@]}" --direction all --memory pageable --streams 1 --json pipeline.json
  (($(grep -c '"median_seconds"' pipeline.json) == 3)) || fail "expected three directions"
  printed '_dirbwd_d.*f32 nchw' && printed '_dirbwd_w.*f32 nchw'
  for direction in forward backward_data backward_weights; do
    grep -q "\"direction\": \"$direction\"" pipeline.json || fail "no $direction"
  done
  refuse 2 "names ([2-9]|[1-9][0-9]+) algorithms, expected one" pipeline "${small[@]}" --algorithm '*'
  refuse 1 'expected images without gaps' pipeline "${small[@]}" --layout strided
  refuse 2 'memory' pipeline "${small[@]}" --memory paper
  refuse 2 "streams: '0'" pipeline "${small[@]}" --streams 0
  refuse 2 'one is required' pipeline --device cpu
  refuse 1 'no/p.svg: cannot be created' pipeline "${small[@]}" --plot no/p.svg
}

case_ladder() {
  run ladder --device cpu --batch 2 --samples 1 --layer ece408_l2 --batches --json ladder.json --plot ladder.svg
  printed '^ece408_l2 .*mb2ic4ih40' && printed '^ +1  direct +missing: not on cpu$'
  printed '^ +9  a kernel .* cpu\.conv\.(direct|channels)\.fp32 ' && printed '^ +19  tuning .*cpu\.conv\.'
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

# eligible FILE [KEY VALUE]: how many algorithms that can run the JSON has, or those of them with this
# value under a key that stands behind "eligible".
eligible() {
  awk -v key="\"${2:-eligible}\": ${3:-true}" '/"eligible":/ { can = /true/ } can && index($0, key) { ++count }
    END { print count + 0 }' "$1"
}

case_explain() {
  export PLUMB_TUNE_CACHE=$folder/cache
  local small=(--device cpu --problem mb2ic3ih9oc4kh3)
  run explain "${small[@]}" --json explain.json
  printed '^g1mb2ic3ih9iw9oc4.*  f32 nchw  on cpu$' && printed '^> cpu\.conv\.[a-z0-9_]+\.fp32 .* chosen$'
  printed '^  cpu\.conv\.im2col\.fp64 +fp64 run +[0-9.e-]+ +- +[0-9.e-]+  yes$' && printed '^No tuned times: '
  (($(grep -c '^> ' out) == 1)) || fail "expected one algorithm to be marked"
  valid_json explain.json version device auto_why problems problem chosen tuning algorithms algorithm \
    eligible reason sentence remedy math deterministic estimate_seconds measured_seconds workspace_bytes
  # Why not, and what would change it, once for all that it holds for.
  run explain "${small[@]}" --math fp64 --json explain.json
  printed '^math: computes in fp32; fp64 is asked for$'
  printed '^  To change it: allow its arithmetic: ConvOptions::math, --math\.$'
  printed '^  cpu\.conv\.fields\.fp32, cpu\.conv\.fields_spec\.fp32, cpu\.conv\.direct\.fp32,$'
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
  printed '^  +fp64 [a-z]+ +[0-9.e-]+ +[0-9.e-]+ +[0-9.e-]+  chosen$'
  run explain --device cpu --suite four --batch 1
  (($(grep -c '^> ' out) == 4)) || fail "expected four layers"
  # Who knows the boundary, the depth and the sum, and who has a pass before or after for it.
  grep -q '"copies_input": false' explain.json || fail "nothing is said of copies in the JSON"
  local deep=(--device cpu --problem mb2ic3id6ih9oc4kd3kh3pd1ph1_padperiodic --accumulate)
  COLUMNS=120 run explain "${deep[@]}" --json explain.json
  printed '_padperiodic  f32' && printed '  can run +how$'
  (($(grep -cE '^[> ] cpu\.conv\..* (chosen|yes) +(itself|copies x|adds after|copies x, adds after)$' out) ==
    $(eligible explain.json))) || fail "it is not said of every algorithm how"
  # Those of another direction have nothing to say but that.
  printed '^  cpu\.conv\.weights\.fp32 +fp32 [a-z]+ +- +- +-  direction$'
  printed '^direction: forward; expected backward weights$'
  printed '^  To change it: ask for the direction that the algorithm computes\.$'
  # The others are of another direction, or of another type.
  (($(grep -cE '"reason": "(direction|dtype)"' explain.json) + $(eligible explain.json) ==
    $(grep -c '"algorithm": "cpu' explain.json))) || fail "not all the others are of another direction or type"
  # A word is explained where it is used, and the JSON has the same.
  local word words=0
  for word in itself 'copies x' 'adds after'; do
    if grep -qE "^[> ] cpu.* $word(,|$)" out; then printed "^$word: the kernel " && ((++words)); fi
  done
  ((words > 0)) || fail "no word is explained"
  (($(grep -cE '^[> ] cpu.* copies x(,|$)' out) == $(eligible explain.json copies_input true))) ||
    fail "the JSON says otherwise of copies"
  (($(grep -cE '^[> ] cpu.* adds after$' out) == $(eligible explain.json accumulate_fused false))) ||
    fail "the JSON says otherwise of sums"
  (($(grep -c '"copies_input": true' explain.json) == $(eligible explain.json copies_input true))) ||
    fail "what cannot run copies x"
  valid_json explain.json copies_input accumulate_fused pool_fused
  COLUMNS=120 run explain "${small[@]}" --direction backward_weights
  printed '^[> ] cpu\.conv\.weights\.fp32 .* (chosen|yes) '
  for columns in 120 80 60; do
    COLUMNS=$columns run explain "${deep[@]}"
    (($(grep -v '^g1mb' out | wc -L) <= columns)) || fail "a line is wider than $columns columns"
  done
  run explain --device cpu --problem mb2ic3ih9oc4kh3ph1 --boundary reflect,clamp
  printed '_padreflect/clamp  f32' && printed ' how$'
  run explain --device cpu --problem mb2ic3ih9oc4kh3 --boundary clamp  # which no window sees
  if grep -q 'how$' out; then fail "a boundary is explained that there is not"; fi
  refuse 2 '^plumb: --boundary: 3 values, expected 1 \(all axes\) or 2 \(height, width\)' \
    explain --device cpu --problem mb2ic3ih9oc4kh3ph1 --boundary zeros,zeros,clamp
  refuse 2 'one is required' explain --device cpu
  refuse 2 "nothing of cpu matches 'none'" explain "${small[@]}" --algorithm none
  refuse 1 'no/e.json: cannot be created' explain "${small[@]}" --json no/e.json
  PLUMB_BACKEND_PATH=/nowhere run explain --problem mb2ic3ih9oc4kh3
  printed ' cuda .* module_missing$|^  cuda$' && printed '^module_missing: '
}

run_case
