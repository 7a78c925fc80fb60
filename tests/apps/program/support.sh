# Shared by the tests of the program, which run it as its users do: what it prints, its exit codes, and
# one line for each error. A file of tests sources this first, with PROGRAM and CASE as its arguments,
# and ends with run_case.
# Exit code 77 stands for a skip: something that the case needs is not there.
set -euo pipefail

program=$1
case=$2
script=$(readlink -f "$0")
model=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../../apps/models" && pwd)/lenet_fashion_mnist.safetensors
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

# valid_json FILE KEY...: parses, where there is a parser, and has each key.
valid_json() {
  local file=$1 key
  shift
  if command -v python3 >/dev/null; then python3 -m json.tool "$file" >/dev/null || fail "$file is no JSON"; fi
  for key; do grep -q "\"$key\":" "$file" || fail "no key $key in $(cat "$file")"; done
}

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

# run_case: the case that was asked for. What missing data left out makes it a skip.
run_case() {
  "case_$case"
  if [[ -n $missing ]]; then
    echo "skipped, or a part of it: $missing"
    exit 77
  fi
  echo "passed: $case"
}
