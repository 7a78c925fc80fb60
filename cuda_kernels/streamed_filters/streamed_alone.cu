// Warps multiply streamed filters each for itself (PTX mma.sync, sm_80): these are the kernels for
// devices without wgmma, and for a single n8 tile of columns.
#include "cuda_kernels/streamed_filters/streamed_launch.cuh"

namespace plumb::cuda {

template <class Scheme, class Stored>
void launch_streamed_alone(const ConvLaunch& call, const WindowTiles& tile,
                           const PackedWindows& packed) {
  AloneN8Tiles<Scheme>::with(packed.n8_tiles, [&]<int n8_tiles>() {
    launch_windows<Scheme, StreamedTerms<false>, streamed_rows<Scheme, n8_tiles>, n8_tiles, Stored>(
        call, tile, packed);
  });
}

template void launch_streamed_alone<SplitWindows, float>(const ConvLaunch&, const WindowTiles&,
                                                         const PackedWindows&);
template void launch_streamed_alone<Tf32Windows, float>(const ConvLaunch&, const WindowTiles&,
                                                        const PackedWindows&);
template void launch_streamed_alone<Fp16Windows, float>(const ConvLaunch&, const WindowTiles&,
                                                        const PackedWindows&);
template void launch_streamed_alone<Fp16Windows, __half>(const ConvLaunch&, const WindowTiles&,
                                                         const PackedWindows&);
template void launch_streamed_alone<Bf16Windows, __nv_bfloat16>(const ConvLaunch&,
                                                                const WindowTiles&,
                                                                const PackedWindows&);

}  // namespace plumb::cuda
