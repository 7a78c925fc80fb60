#!/bin/bash
# The race on the GPU, in the folder of the program plumb_sweep_fields (here: sweep); results under $OUT.
#   race.sh check       about 1.5 min: correctness of every cut, memcheck, racecheck
#   race.sh time        about 4 min: the rows of issue 29, fp32 and fp64
#   race.sh suite       about 3 min: the suite, planned against best of queue/toeplitz/line
cd "$(dirname "$0")"; S=./sweep; OUT=${OUT:-/tmp}; nvidia-smi --query-gpu=name,clocks.sm --format=csv,noheader
rows=('mb1ic1ih8192oc1kh9ph4n"9x9"' 'mb1ic1id512oc1kd3pd1n"3^3"' 'mb1ic1id512oc1kd5pd2n"5^3"' 'mb1ic1id256oc1kd9pd4n"9^3"'
  'mb1ic1iw67108864oc1kw129pw64n"129"' 'mb1ic1ih4096oc1kh31ph15n"31x31"' 'mb1ic4id256oc4kd3pd1n"4to4"' 'mb1ic4id256oc8kd3pd1n"4to8"'
  'mb1ic3ih4096oc3kh5ph2n"3to3 5x5"' 'mb1ic1ih8192oc1kh5ph2n"5x5"' 'mb1ic1ih8192oc1kh7ph3n"7x7"' 'mb1ic1id511oc1kd3pd1n"511 3^3"'
  'mb1ic1id256oc1kd7pd3n"7^3"' 'mb1ic1ih16384oc1kh3ph1n"3x3"' 'mb100ic1ih530iw1430oc1kh30n"30x30"' 'mb1ic1ih4096oc1kh15ph7n"15x15"'
  'mb1ic1id512oc1kd3pd1padperiodicn"3^3 periodic"' 'mb1ic1id512oc1kd5pd2padclampn"5^3 clamp"')
small=('mb2ic1id20ih40iw300oc1kd3pd1' 'mb1ic2id12ih20iw301oc3kd3pd1padperiodic' 'mb1ic1id16ih24iw520oc1kd5pd2padclamp' 'mb1ic3ih60iw517oc4kh5ph2padreflect'
  'mb2ic1ih70iw515oc1kh7ph3' 'mb1ic1ih90iw1030oc1kh9ph4' 'mb1ic1id14ih20iw270oc1kd9pd4padsymmetric' 'mb1ic2ih100iw200oc2kh31ph15' 'mb2ic2iw20000oc2kw129pw64padperiodic')
case $1 in
check) # every cut of every kernel: "error" must stay below 1e-6 (f32) and 2e-15 (f64)
  for t in f32 f64; do $S --dtype $t --seconds 3 --lines 100000 "${small[@]}" > $OUT/check_$t.jsonl || echo FAILED $t
    python3 - $OUT/check_$t.jsonl $t <<'P'
import json,sys,collections
bad=collections.Counter(); n=collections.Counter()
for l in open(sys.argv[1]):
    d=json.loads(l); n[d['kernel']]+=1
    if not d['error'] < (1e-6 if sys.argv[2]=='f32' else 2e-15): bad[d['kernel']]+=1; print('BAD',l.strip()[:400]) if bad[d['kernel']]<4 else 0
print(sys.argv[2],'lines',dict(n),'bad',dict(bad))
P
  done
  for tool in memcheck racecheck; do for t in f32 f64; do for k in queue toeplitz line; do
    timeout 60 compute-sanitizer --tool $tool $S --dtype $t --kernel $k --seconds 0.5 --lines 1 "${small[@]}" 2>&1 | grep -E "ERROR SUMMARY|RACECHECK SUMMARY|Invalid|hazard" | head -3 | sed "s/^/$tool $t $k /"
  done; done; done;;
time) for t in f32 f64; do $S --dtype $t --seconds ${SECONDS_EACH:-4} --lines 4 "${rows[@]}" > $OUT/time_$t.jsonl; done; python3 table.py $OUT/time_f32.jsonl $OUT/time_f64.jsonl;;
suite) for t in f32 f64; do timeout 280 $S --suite fields --dtype $t --seconds ${SECONDS_EACH:-1.5} --lines 2 > $OUT/suite_$t.jsonl; done; python3 table.py $OUT/suite_f32.jsonl $OUT/suite_f64.jsonl;;
ncu) # bash race.sh ncu f32 queue PROBLEM
  ncu --clock-control none --set full --launch-skip 4 --launch-count 1 $S --dtype $2 --kernel $3 --seconds 0.2 --lines 1 "$4" > $OUT/ncu_$2_$3.txt; grep -E "Duration|Throughput|Eligible|No Eligible|Active Warps|Registers|Stall|Bank" $OUT/ncu_$2_$3.txt | head -60;;
esac
