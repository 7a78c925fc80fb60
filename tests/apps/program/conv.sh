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

case_conv_axes() {
  # One axis: 1 to 5 under 1 10 100, with what each boundary shows beyond the ends.
  npy f8 '1, 1, 5' 1 2 3 4 5 >x.npy
  npy f8 '1, 1, 3' 1 10 100 >w.npy
  local boundary ends
  while read -r boundary ends; do
    run conv --x x.npy --w w.npy --pad 1 --boundary $boundary --out y.npy
    printed '^y +\[1, 1, 5\] f64'
    npy f8 '1, 1, 5' ${ends%,*} 321 432 543 ${ends#*,} >expected
    cmp y.npy expected || fail "$boundary: y.npy is not what was expected"
  done <<'END'
zeros 210,54
periodic 215,154
reflect 212,454
symmetric 211,554
clamp 211,554
END
  # Two sides; then added to what a file holds, which may be the one that is written.
  run conv --x x.npy --w w.npy --pad 2,0 --boundary periodic --stride 2 --out y.npy
  npy f8 '1, 1, 3' 154 321 543 >expected
  cmp y.npy expected || fail "two sides: y.npy is not what was expected"
  npy f8 '1, 1, 3' -200 1 2 >y.npy
  run conv --x x.npy --w w.npy --pad 2,0 --boundary periodic --stride 2 --accumulate y.npy --out y.npy
  npy f8 '1, 1, 3' -46 322 545 >expected
  cmp y.npy expected || fail "accumulate: y.npy is not what was expected"
  run conv --x x.npy --w w.npy --pad 2,0 --boundary periodic --stride 2 --accumulate y.npy \
    --activation relu --out y.npy
  npy f8 '1, 1, 3' 108 643 1088 >expected
  cmp y.npy expected || fail "accumulate and relu: y.npy is not what was expected"
  # Three axes, each with numbers and a boundary of its own: the tap is one plane before, one row
  # below and one column before.
  npy f4 '1, 1, 2, 2, 3' 1 2 3 4 5 6 7 8 9 10 11 12 >x.npy
  npy f4 '1, 1, 2, 2, 2' 0 0 1 0 0 0 0 0 >w.npy
  run conv --x x.npy --w w.npy --pad 1,0,1,0,1,0 --boundary periodic,zeros,clamp --out y.npy
  printed '^y +\[1, 1, 2, 2, 3\] f32'
  npy f4 '1, 1, 2, 2, 3' 10 10 11 0 0 0 4 4 5 0 0 0 >expected
  cmp y.npy expected || fail "three axes: y.npy is not what was expected"
  run conv --x x.npy --w w.npy --pad 1,0,1 --stride 2,1,2 --boundary periodic,zeros,clamp --out y.npy
  npy f4 '1, 1, 2, 1, 2' 10 11 10 11 >expected
  cmp y.npy expected || fail "strides: y.npy is not what was expected"
  # The channels behind three axes, and behind one.
  npy f4 '1, 2, 1, 2, 2' 1 10 2 20 3 30 4 40 >x.npy
  npy f4 '3, 2, 1, 1, 2' 1 0 0 1 0 1 1 0 1 1 1 1 >w.npy
  run conv --layout nhwc --x x.npy --w w.npy --out y.npy
  printed '^y +\[1, 1, 1, 2, 3\] f32'
  npy f4 '1, 1, 1, 2, 3' 31 13 44 42 24 66 >expected
  cmp y.npy expected || fail "ndhwc: y.npy is not what was expected"
  npy f4 '1, 2, 2' 1 10 2 20 >x.npy
  npy f4 '3, 1, 2' 1 0 0 1 1 1 >w.npy
  run conv --layout nhwc --x x.npy --w w.npy --out y.npy
  npy f4 '1, 2, 3' 1 10 11 2 20 22 >expected
  cmp y.npy expected || fail "nwc: y.npy is not what was expected"

  npy f4 '1, 1, 3, 3' 1 2 3 4 5 6 7 8 9 >plate.npy
  npy f4 '1, 1, 2, 2' 1 2 3 4 >four.npy
  npy f4 '3, 3' 1 2 3 4 5 6 7 8 9 >field.npy
  npy f8 '1, 1, 2, 2' 1 2 3 4 >double.npy
  refuse 1 'field.npy: shape \[3, 3\], expected three to five dimensions, N C W, N C H W or N C D H W' \
    conv --x field.npy --w four.npy --out z.npy
  refuse 1 'expected three dimensions, K C/G S, as many as x has' conv --x x.npy --w four.npy --out z.npy
  refuse 2 '^plumb: --pad: 3 values, expected 1 \(all sides\), 2 \(height, width\) or 4 \(top, left, bottom, right\)' \
    conv --x plate.npy --w four.npy --pad 1,2,3 --out z.npy
  refuse 2 '^plumb: --stride: 2 values, expected 1 \(all axes\) \(see' conv --layout nhwc --x x.npy --w w.npy --stride 1,2 --out z.npy
  refuse 2 '^plumb: --boundary: 3 values, expected 1 \(all axes\) or 2 \(height, width\)' \
    conv --x plate.npy --w four.npy --boundary zeros,zeros,clamp --out z.npy
  refuse 2 "^plumb: --boundary: 'wrap', expected one of: zeros, periodic" \
    conv --x plate.npy --w four.npy --boundary wrap --out z.npy
  refuse 1 'double.npy: f64 \[1, 1, 2, 2\], expected f32 \[1, 1, 2, 2\] as the result has' \
    conv --x plate.npy --w four.npy --accumulate double.npy --out z.npy
  refuse 1 'accumulated and pooled' conv --x plate.npy --w four.npy --pad 1 --accumulate four.npy --pool max_2x2 --out z.npy
  npy f4 '1, 1, 1, 3' 1 2 3 >row.npy
  refuse 1 'H is 1, padded by 1 and 1; a boundary that reflects needs at least 2' \
    conv --x row.npy --w four.npy --out z.npy --pad 1 --boundary reflect
  [[ ! -e z.npy ]] || fail "an output was written after an error"
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

case_conv_gradients() {
  # Worked by hand: x is 1 to 9 in a square, w is 1 2 3 -4, dy is 1 0 2 1.
  npy f4 '1, 1, 3, 3' 1 2 3 4 5 6 7 8 9 >x.npy
  npy f4 '1, 1, 2, 2' 1 2 3 -4 >w.npy
  npy f4 '1, 1, 2, 2' 1 0 2 1 >dy.npy
  run conv --direction backward_data --dy dy.npy --w w.npy --out dx.npy
  printed '^dx +\[1, 1, 3, 3\] f32'
  # w at the upper left, twice w at the lower left, w at the lower right.
  npy f4 '1, 1, 3, 3' 1 2 0 5 1 2 6 -5 -4 >expected
  cmp dx.npy expected || fail "backward data: dx.npy is not what was expected"
  run conv --direction backward_weights --x x.npy --dy dy.npy --filter 2 --db db.npy --out dw.npy
  printed '^dw +\[1, 1, 2, 2\] f32' && printed '^db +\[1\] f32'
  # 1+2*4+5, 2+2*5+6, 4+2*7+8, 5+2*8+9
  npy f4 '1, 1, 2, 2' 14 18 26 30 >expected
  cmp dw.npy expected || fail "backward weights: dw.npy is not what was expected"
  npy f4 '1,' 4 >expected
  cmp db.npy expected || fail "backward weights: db.npy is not what was expected"
  # Where the ReLU's result is not above 0, dy does not count: the 2 is gone.
  npy f4 '1, 1, 2, 2' 5 1 0 3 >y.npy
  run conv --direction backward_weights --x x.npy --dy dy.npy --filter 2,2 --mask y.npy --accumulate dw.npy --out sum.npy
  npy f4 '1, 1, 2, 2' 20 26 38 44 >expected
  cmp sum.npy expected || fail "masked and added: sum.npy is not what was expected"
  npy f4 '1,' 10 >b.npy
  run conv --direction backward_data --dy dy.npy --w w.npy --mask y.npy --bias b.npy --activation relu --out dx.npy
  npy f4 '1, 1, 3, 3' 11 12 10 13 7 12 10 13 6 >expected
  cmp dx.npy expected || fail "masked, with a bias: dx.npy is not what was expected"
  # By two, and a row and a column more than need be, which nothing reaches; by its own name.
  npy f4 '1, 1, 5, 4' 1 2 0 0 3 -4 0 0 2 4 1 2 6 -8 3 -4 0 0 0 0 >expected
  run conv --direction backward_data --dy dy.npy --w w.npy --stride 2 --output-padding 1,0 --out dx.npy
  cmp dx.npy expected || fail "output padding: dx.npy is not what was expected"
  run conv --transposed --x dy.npy --w w.npy --stride 2 --output-padding 1,0 --out y.npy
  printed '^y +\[1, 1, 5, 4\] f32'
  cmp y.npy expected || fail "transposed: y.npy is not what was expected"
  # Channels last: two channels of one column, one filter; and one axis in double.
  npy f4 '1, 2, 1, 2' 1 10 2 20 >x.npy
  npy f4 '1, 1, 1, 3' 1 2 3 >dy.npy
  run conv --layout nhwc --direction backward_weights --x x.npy --dy dy.npy --filter 2,1 --out dw.npy
  npy f4 '3, 2, 1, 2' 1 10 2 20 2 20 4 40 3 30 6 60 >expected
  cmp dw.npy expected || fail "nhwc: dw.npy is not what was expected"
  run conv --layout nhwc --direction backward_data --dy dy.npy --w dw.npy --out dx.npy
  npy f4 '1, 2, 1, 2' 14 140 28 280 >expected
  cmp dx.npy expected || fail "nhwc: dx.npy is not what was expected"
  npy f8 '1, 1, 4' 1 2 3 4 >x.npy
  npy f8 '1, 1, 4' 1 0 0 1 >dy.npy
  run conv --direction backward_weights --x x.npy --dy dy.npy --filter 3 --pad 1 --boundary periodic --out dw.npy
  npy f8 '1, 1, 3' 7 5 3 >expected
  cmp dw.npy expected || fail "one axis: dw.npy is not what was expected"
  # Three axes: a depth of two planes of one pixel.
  npy f4 '1, 1, 2, 1, 1' 3 5 >x.npy
  npy f4 '1, 1, 1, 1, 1' 2 >dy.npy
  run conv --direction backward_weights --x x.npy --dy dy.npy --filter 2,1,1 --out dw.npy
  npy f4 '1, 1, 2, 1, 1' 6 10 >expected
  cmp dw.npy expected || fail "three axes: dw.npy is not what was expected"
}

case_conv_gradient_errors() {
  npy f4 '1, 1, 3, 3' 1 2 3 4 5 6 7 8 9 >x.npy
  npy f4 '1, 1, 2, 2' 1 2 3 4 >w.npy
  cp w.npy dy.npy
  npy f4 '1, 1, 2' 1 2 >row.npy
  npy f4 '1, 1, 3, 1' 1 2 3 >tall.npy
  local data='conv --direction backward_data' weights='conv --direction backward_weights'
  refuse 2 "direction: 'backwards'" conv --direction backwards --x x.npy --w w.npy --out y.npy
  refuse 2 '^plumb: --dy is required for --direction backward_data' $data --w w.npy --out y.npy
  refuse 2 '^plumb: --x: not for --direction backward_data, which reads --dy and --w' $data --x x.npy --w w.npy --dy dy.npy --out y.npy
  refuse 2 '^plumb: --w: not for --direction backward_weights' $weights --x x.npy --dy dy.npy --w w.npy --filter 2 --out y.npy
  refuse 2 '^plumb: --filter is required for --direction backward_weights' $weights --x x.npy --dy dy.npy --out y.npy
  refuse 2 '^plumb: --dy: not for --direction forward' conv --x x.npy --w w.npy --dy dy.npy --out y.npy
  refuse 2 '^plumb: --w is required for --direction forward' conv --x x.npy --out y.npy
  refuse 2 '^plumb: --mask: not for a transposed convolution' conv --transposed --x dy.npy --w w.npy --mask dy.npy --out y.npy
  refuse 2 '^plumb: --transposed: beside --direction backward_data' $data --transposed --dy dy.npy --w w.npy --out y.npy
  refuse 2 '^plumb: --output-padding: not for --direction forward' conv --x x.npy --w w.npy --output-padding 1 --out y.npy
  refuse 2 '^plumb: --bias: not for --direction backward_weights' $weights --x x.npy --dy dy.npy --filter 2 --bias row.npy --out y.npy
  refuse 2 '^plumb: --db: beside --accumulate' $weights --x x.npy --dy dy.npy --filter 2 --accumulate w.npy --db d.npy --out y.npy
  refuse 2 '^plumb: --filter: 3 values' $weights --x x.npy --dy dy.npy --filter 1,2,2 --out y.npy
  refuse 1 'dy is \[1, 1, 2, 2\]; expected \[1, 1, 1, 1\]' $weights --x x.npy --dy dy.npy --filter 3 --out y.npy
  refuse 1 'row.npy: shape \[1, 1, 2\], expected four dimensions, N K P Q, as many as x has' \
    $weights --x x.npy --dy row.npy --filter 2 --out y.npy
  refuse 1 'row.npy: shape \[1, 1, 2\], expected four dimensions, K C/G R S, as many as dy has' \
    $data --dy dy.npy --w row.npy --out y.npy
  refuse 1 'output_padding is 1 where the stride is 1' $data --dy dy.npy --w w.npy --output-padding 1 --out y.npy
  refuse 1 'tall.npy: f32 \[1, 1, 3, 1\], expected f32 \[1, 1, 2, 2\] as dy has' $data --dy dy.npy --w w.npy --mask tall.npy --out y.npy
  refuse 1 'tall.npy: f32 \[1, 1, 3, 1\], expected f32 \[1, 1, 2, 2\] as the result has' \
    $weights --x x.npy --dy dy.npy --filter 2 --accumulate tall.npy --out y.npy
  refuse 1 'pooling 2x2 in backward_data' $data --dy dy.npy --w w.npy --pool max_2x2 --out y.npy
  refuse 2 'is the file of --dy' $data --dy dy.npy --w w.npy --out dy.npy
  refuse 2 'is the file of --x' $weights --x x.npy --dy dy.npy --filter 2 --db x.npy --out y.npy
  printf x >d.npy
  refuse 2 '^plumb: --out: d.npy is the file of --db' $weights --x x.npy --dy dy.npy --filter 2 --db d.npy --out d.npy
  [[ ! -e y.npy ]] || fail "an output was written after an error"
}

run_case
