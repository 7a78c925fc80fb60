#!/usr/bin/env bash
# usage: field.sh PLUMB WRITES_HDF5 MPIRUN [OPTION...]   (ends with the option for the number of ranks)
set -euo pipefail
plumb=$1 hdf5=$2
run=("${@:3}")
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
cd -- "$work"

fail() {
  echo "plumb field: $*"
  exit 1
}

# field RANKS NAME OPTION...
field() {
  local out=()
  if [[ $hdf5 == yes ]]; then out=(--out "$2/u.h5"); fi
  mkdir -p -- "$2"
  "${run[@]}" "$1" "$plumb" field "${@:3}" "${out[@]}" --picture "$2/u.png" --verify | tee "$2/said"
  [[ $(tail -n 1 "$2/said") == "verified: $1 ranks give the bits of one" ]] || fail "$2: its last line"
}

for options in '--equation heat --size 24x20x28 --steps 30' \
  '--equation wave --dims 2 --size 50x40 --steps 31' \
  '--equation wave --size 20 --steps 30 --dtype f32'; do
  field 1 one $options --grid 1
  field 4 four $options --grid 2x2
  field 4 slabs $options --grid 4
  for file in one/*.*; do
    cmp "$file" "four/${file#*/}" || fail "$options: $file differs"
    cmp "$file" "slabs/${file#*/}" || fail "$options: $file differs"
  done
done
[[ $(od -A n -t x1 -N 4 one/u.png) == ' 89 50 4e 47' ]] || fail 'no PNG picture'
if [[ $hdf5 == yes ]]; then
  [[ $(od -A n -t x1 -N 4 one/u.h5) == ' 89 48 44 46' ]] || fail 'no HDF5 file'
  grep -q 'u.h5:/u' one/u.xdmf || fail 'the XDMF file does not name the field'
fi
# One bit that differs on one rank is found, and the code is not 0.
if "${run[@]}" 4 "$plumb" field --size 12 --steps 2 --grid 2x2 --plant --verify >planted; then
  fail 'a planted bit is not found'
fi
grep -q '^verified: the bits of 1 of 4 ranks are not those of one rank$' planted || fail 'what is said of a planted bit'
! "${run[@]}" 4 "$plumb" field --grid 5 --steps 1 2>/dev/null || fail 'a grid of 5 on 4 ranks is accepted'
