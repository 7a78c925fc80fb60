// Convolution problems are read and written as text, in the notation of oneDNN's benchdnn:
//
//   g32mb1ic32ih112oc32oh112kh3sh1ph1dh0n"name"
//
// g groups, mb N, ic C, ih iw H W, oc K, oh ow P Q, kh kw R S, sh sw stride, ph pw padding at the
// top and left, dh dw dilation less one (0 means none), n a name, which ends the text; id od kd sd
// pd dd are the same along a depth. Underscores between are passed over. Left out: g 1, mb 2,
// stride 1, dilation 0; a height copies its depth, and a width its height; no depths make a 2-D
// problem, and no heights either a 1-D problem (H = R = P = 1); an output follows from padding (0
// if that is left out too), and padding from an output. What od, oh and ow ask for beyond the
// symmetric padding is padding at the back, bottom and right. Three fields are Plumb's own, and no
// other reader of the notation takes them: poolmax2x2, the pooling of the outputs, which oh and ow
// do not count; what lies in the padding: padperiodic, padreflect, padsymmetric or padclamp along
// all axes, or one for each of the last two or three, padperiodic/zeros/clamp; and the direction,
// dirfwd (if it is left out too), dirbwd_d or dirbwd_w, which benchdnn's --dir names FWD_B, BWD_D
// and BWD_W.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plumb/conv.hpp"
#include "plumb/export.h"

namespace plumb {

/// A problem and what it is called.
struct NamedProblem {
  std::string name = {};     ///< empty where the text has none
  ConvProblem problem = {};  ///< checked
};

/// Parses a problem, which is dense NCHW, of f32, and checked; without mb the batch is 2, as in
/// benchdnn. Throws Error (invalid_argument) that says at which character, what was met and what
/// was expected.
PLUMB_API NamedProblem parse_problem(std::string_view text);

/// Parses a list of problems: each line has one, `#` starts a comment. Errors name the line.
PLUMB_API std::vector<NamedProblem> parse_problems(std::string_view text);

/// Writes the problem's sizes in the same notation, everything but dtype and strides. Padding at
/// the bottom or right that no window reaches is not written.
PLUMB_API std::string to_string(const ConvProblem&);

}  // namespace plumb
