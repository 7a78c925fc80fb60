#!/usr/bin/env bash
# plumb conv: results worked by hand, and what it refuses.
# usage: conv.sh PROGRAM CASE   (a case is a function case_... below)
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"

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

run_case
