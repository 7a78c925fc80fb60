// Costs of the kernel in wide_mma/: counted or guessed, but for `products_90`, which is fitted to
// 51 times on one H200, 48 of FP16: estimates missed them by 0.250 (the root mean square of
// logarithms) with the guess before, 1,230, and miss them by 0.130, also those of an eighth of the
// problems, fitted to the others.
#pragma once

namespace plumb::cuda {

struct WideMmaTable {
  // FMAs of fp16 of a multiprocessor by mma.sync, with sums in fp32; TF32 has half as many. On
  // sm_90 what the kernel reaches, of the 2,048 that wgmma has; on sm_80 counted from 312 TFLOP/s;
  // on other chips (8.6 to 8.9) counted from 71 TFLOP/s of 82 multiprocessors.
  double products_90 = 690;   ///< fixed
  double products_80 = 1024;  ///< fixed
  double products_86 = 256;   ///< fixed
  // Of fp64, over what the FP64 units have. Counted: 67 and 19.5 TFLOP/s of an H100 and an A100.
  double doubles = 2;               ///< fixed
  double share = 0.8;               ///< fixed: of the rates that are counted; guessed
  double l2_bytes_per_clock = 45;   ///< fixed: of a multiprocessor, as wide_patch has
  double of_step = 60;              ///< fixed: clocks of a block's barrier and addresses; guessed
  double of_tile = 1500;            ///< fixed: clocks of the first loads and the last sums; guessed
  double of_output = 0.03;          ///< fixed: clocks to store an output, in vectors of filters
  double shared_bytes = 227 << 10;  ///< fixed: of a multiprocessor of sm_90
  double read_share = 2.36;         ///< fixed: of the nominal rate of memory, for x, as wide has
  double write_share = 1.07;        ///< fixed: of it, for y, as the first H100 had it
  double sums_share = 1.46;         ///< fixed: of it, for sums of splits, as wide has
  double slower = 1.17;             ///< fixed: over what the parts add up to, as wide has
  double start = 0.67e-6;           ///< fixed: seconds until all blocks work, as wide has
};

}  // namespace plumb::cuda
