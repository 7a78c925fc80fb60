/// @file
// Convolution from C in one to three dimensions, with boundaries, accumulation and gradients.
// plumb.h includes this header; what it says holds here too.
//
//   y[n,k,z,p,q] = activation(bias[k] + y[n,k,z,p,q] where it accumulates + sum over c,t,r,s of
//                  x[n, g*C/G + c, z*stride_d + t*dilation_d - front,
//                    p*stride_h + r*dilation_h - top, q*stride_w + s*dilation_w - left]
//                  * w[k,c,t,r,s])
//
// D, T and Z are the depths of input, filter and output; images of two axes have D = T = 1, those
// of one axis also H = R = 1. A tap outside the image reads what the boundary of the axis shows.
//
// The structs here begin with their size, which plumb_*_nd_init() sets. A field that a later Plumb
// adds is at the end, and its zero is what was done without it: a program that was compiled before
// runs as it did, and one that sets a field this library does not know is
// PLUMB_INVALID_ARGUMENT. The structs and functions of plumb.h stay as they are; their problems are
// those of two axes, with zeros around them. plumb_plan_execute() and all else that takes a
// plumb_plan takes the plans made here.
#pragma once

#include "plumb/plumb.h"

#ifdef __cplusplus
extern "C" {
#endif

/// What lies in the padding along one axis, drawn for a row a b c d.
typedef int32_t plumb_boundary;
/// Values of plumb_boundary.
enum {
  PLUMB_ZEROS = 0,      ///< 0 0 | a b c d | 0 0: taps there are left out
  PLUMB_PERIODIC = 1,   ///< c d | a b c d | a b
  PLUMB_REFLECT = 2,    ///< c b | a b c d | c b: the edge is not repeated
  PLUMB_SYMMETRIC = 3,  ///< b a | a b c d | d c: the edge is repeated
  PLUMB_CLAMP = 4       ///< a a | a b c d | d d
};

/// Which of a layer's three convolutions. In a gradient the tensors keep their letters and extents,
/// and take other parts: what is convolved, the filters, and what is written are x, w and y; dy, w
/// and dx; or x, dy and dw.
typedef int32_t plumb_direction;
/// Values of plumb_direction.
enum {
  PLUMB_FORWARD = 0,          ///< y from x and w
  PLUMB_BACKWARD_DATA = 1,    ///< dx from dy and w: also the transposed convolution
  PLUMB_BACKWARD_WEIGHTS = 2  ///< dw from x and dy
};

/// The geometry says how the filter moves over the image, and what lies around it. What is along a
/// depth that the images lack is not looked at, nor what is along the height of tensors of rank 3.
typedef struct plumb_conv_geometry_nd {
  size_t struct_size;         ///< sizeof(plumb_conv_geometry_nd)
  int64_t stride_d;           ///< step along the depth, at least 1
  int64_t stride_h;           ///< step along the height, at least 1
  int64_t stride_w;           ///< step along the width, at least 1
  int64_t dilation_d;         ///< distance between taps along the depth, at least 1
  int64_t dilation_h;         ///< distance between taps along the height, at least 1
  int64_t dilation_w;         ///< distance between taps along the width, at least 1
  int64_t padding_front;      ///< planes before
  int64_t padding_top;        ///< rows above
  int64_t padding_left;       ///< columns before
  int64_t padding_back;       ///< planes behind
  int64_t padding_bottom;     ///< rows below
  int64_t padding_right;      ///< columns after
  int64_t groups;             ///< G; divides C and K
  plumb_boundary boundary_d;  ///< what lies in the padding along the depth
  plumb_boundary boundary_h;  ///< what lies in the padding along the height
  plumb_boundary boundary_w;  ///< what lies in the padding along the width
  plumb_conv_pool pool;       ///< of the activated outputs; not of images with a depth
} plumb_conv_geometry_nd;

/// A convolution without its data. plumb_conv_problem_nd_init() makes every size 1, and f32.
typedef struct plumb_conv_problem_nd {
  size_t struct_size;                      ///< sizeof(plumb_conv_problem_nd)
  int64_t n;                               ///< batch, may be 0
  int64_t c;                               ///< input channels
  int64_t d;                               ///< input depth
  int64_t h;                               ///< input height
  int64_t w;                               ///< input width
  int64_t k;                               ///< output channels
  int64_t t;                               ///< filter depth
  int64_t r;                               ///< filter height
  int64_t s;                               ///< filter width
  const plumb_conv_geometry_nd* geometry;  ///< how the filter moves; NULL: the plain geometry
  const int64_t* x_strides;                ///< five, of N C D H W, in elements; NULL: dense NCDHW
  const int64_t* w_strides;                ///< five, of K C/G T R S, in elements; NULL: dense
  const int64_t* y_strides;                ///< five, of N K Z P Q, in elements; NULL: dense
  plumb_dtype dtype;                       ///< of x, w, bias and y
  plumb_direction direction;               ///< which convolution
} plumb_conv_problem_nd;

/// plumb_conv_options_nd_init() sets PLUMB_FP32, no activation, no bias, any workspace. A program
/// that was compiled when `relu_mask` was the last field says so by struct_size, and is understood.
typedef struct plumb_conv_options_nd {
  size_t struct_size;            ///< sizeof(plumb_conv_options_nd)
  plumb_math math;               ///< the least accurate that may be chosen
  plumb_activation activation;   ///< after the bias, and after what y held
  int32_t bias;                  ///< not 0: a bias is added to each output channel (of dx in
                                 ///< backward data); in backward weights its gradient is computed
  int32_t deterministic;         ///< not 0: only algorithms that give the same bits every time
  size_t workspace_limit_bytes;  ///< algorithms that need more are not chosen
  const char* algorithm;         ///< only this one may run; NULL: Plumb chooses
  int32_t accumulate;            ///< not 0: the convolution is added to what y holds; not pooled
  int32_t relu_mask;             ///< not 0: in gradients dy counts where a ReLU's output is above 0
  int32_t reproducible;          ///< not 0: the bits that docs/numerics.md specifies, on any device
} plumb_conv_options_nd;

/// Sets strides, dilations and groups of 1, no padding, and zeros around.
PLUMB_API plumb_status plumb_conv_geometry_nd_init(plumb_conv_geometry_nd* geometry);
/// Sets `all` along every axis.
PLUMB_API plumb_status plumb_conv_geometry_nd_set_stride(plumb_conv_geometry_nd* geometry,
                                                         int64_t all);
/// Sets `all` along every axis.
PLUMB_API plumb_status plumb_conv_geometry_nd_set_dilation(plumb_conv_geometry_nd* geometry,
                                                           int64_t all);
/// Sets as much padding on each of the six sides.
PLUMB_API plumb_status plumb_conv_geometry_nd_set_padding(plumb_conv_geometry_nd* geometry,
                                                          int64_t every_side);
/// Sets what lies in the padding along every axis.
PLUMB_API plumb_status plumb_conv_geometry_nd_set_boundary(plumb_conv_geometry_nd* geometry,
                                                           plumb_boundary all);
/// Sets every size to 1, f32, the plain geometry, and dense tensors.
PLUMB_API plumb_status plumb_conv_problem_nd_init(plumb_conv_problem_nd* problem);
/// Sets PLUMB_FP32, no activation, no bias, any workspace, and Plumb's choice.
PLUMB_API plumb_status plumb_conv_options_nd_init(plumb_conv_options_nd* options);
/// Returns the extents of y: N K Z P Q, as the geometry gives them, pooled N K 1 P/2 Q/2.
PLUMB_API plumb_status plumb_conv_output_extents_nd(const plumb_conv_problem_nd* problem,
                                                    int64_t extents[5]);

/// Makes a plan, as plumb_plan_create() does; `options` may be NULL.
PLUMB_API plumb_status plumb_plan_create_nd(const plumb_device* device,
                                            const plumb_conv_problem_nd* problem,
                                            const plumb_conv_options_nd* options,
                                            plumb_plan** plan);
/// Explains every algorithm of the device, in its order. `options` may be NULL.
PLUMB_API plumb_status plumb_explain_nd(const plumb_device* device,
                                        const plumb_conv_problem_nd* problem,
                                        const plumb_conv_options_nd* options,
                                        plumb_explanation** explanation);
/// What one algorithm of an explanation does by itself, with `index` from 0. `copies_input` is not
/// 0 where x goes through workspace first, because the algorithm does not know its boundary or its
/// depth; `accumulate_fused` is not 0 where the kernel itself adds to what y holds, where the
/// options accumulate, and otherwise the sum is made from workspace.
PLUMB_API plumb_status plumb_explanation_stages(const plumb_explanation* explanation, size_t index,
                                                int32_t* copies_input, int32_t* accumulate_fused);
/// What one algorithm of an explanation promises of bits, with `index` from 0. `reproducible` is
/// not 0 where it gives the bits that docs/numerics.md specifies, if it is asked to; `invariant` is
/// not 0 where an image gives the same bits in every batch.
PLUMB_API plumb_status plumb_explanation_promises(const plumb_explanation* explanation,
                                                  size_t index, int32_t* reproducible,
                                                  int32_t* invariant);
/// Validates an algorithm, as plumb_validate() does.
PLUMB_API plumb_status plumb_validate_nd(const plumb_device* device,
                                         const plumb_conv_problem_nd* problem,
                                         const char* algorithm, plumb_validation* validation);

/// Convolves x [N,C,D,H,W], w [K,C/G,T,R,S] and bias [K] (or NULL) to y [N,K,Z,P,Q], on the queue;
/// with two axes x [N,C,H,W], w [K,C/G,R,S], y [N,K,P,Q]; with one x [N,C,W], w [K,C/G,S],
/// y [N,K,Q]. The plan comes from the device's cache. `geometry` and `options` may be NULL;
/// options->bias is not looked at.
PLUMB_API plumb_status plumb_conv_nd(plumb_queue* queue, const plumb_tensor* x,
                                     const plumb_tensor* w, const plumb_tensor* bias,
                                     const plumb_tensor* y, const plumb_conv_geometry_nd* geometry,
                                     const plumb_conv_options_nd* options);
/// Copies `from` to `to`, each with strides of its own: gaps and reversed axes are well, and what
/// is read may repeat. dtype and extents are the same, and each is on the queue's device or the
/// host; what lies in the gaps of `to` stays. A host side must stay alive and untouched until the
/// queue has passed the copy.
PLUMB_API plumb_status plumb_copy_tensor(plumb_queue* queue, const plumb_tensor* to,
                                         const plumb_tensor* from);
/// Runs a plan of a gradient, as plumb_plan_execute() does, with its tensors by their parts:
/// `image` is dy or x, `filters` w or dy, `output` dx or dw. `bias` [C] is for backward data and
/// `db` [K] for backward weights, where the plan has a bias, and NULL otherwise; `mask`, the dense
/// output of the ReLU, where it has relu_mask.
PLUMB_API plumb_status plumb_plan_execute_gradient(const plumb_plan* plan, plumb_queue* queue,
                                                   const void* image, const void* filters,
                                                   const void* bias, const void* mask, void* output,
                                                   void* db, void* workspace);
/// The gradient by x: dx of x's extents from dy of y's and w. `mask`, the output of the ReLU that
/// followed, has dy count where it is above 0, which a NaN is not. It and `bias` [C], which is
/// added to dx, may be NULL, as may `geometry` and `options`.
PLUMB_API plumb_status plumb_conv_backward_data(plumb_queue* queue, const plumb_tensor* dy,
                                                const plumb_tensor* w, const plumb_tensor* dx,
                                                const plumb_tensor* mask, const plumb_tensor* bias,
                                                const plumb_conv_geometry_nd* geometry,
                                                const plumb_conv_options_nd* options);
/// The gradient by w: dw of w's extents from x and dy, and by the bias: db [K], or NULL. `mask` is
/// as above.
PLUMB_API plumb_status plumb_conv_backward_weights(plumb_queue* queue, const plumb_tensor* x,
                                                   const plumb_tensor* dy, const plumb_tensor* dw,
                                                   const plumb_tensor* db, const plumb_tensor* mask,
                                                   const plumb_conv_geometry_nd* geometry,
                                                   const plumb_conv_options_nd* options);
/// The transposed convolution, which is backward data by another name: x [N,K,P,Q] has the part of
/// dy, w is [K,C/G,R,S], bias [C] or NULL, and y [N,C,H,W] has that of dx. How far y goes beyond
/// the least extents, its output padding, its own extents say.
PLUMB_API plumb_status plumb_conv_transpose(plumb_queue* queue, const plumb_tensor* x,
                                            const plumb_tensor* w, const plumb_tensor* bias,
                                            const plumb_tensor* y,
                                            const plumb_conv_geometry_nd* geometry,
                                            const plumb_conv_options_nd* options);
/// Convolves the same as plumb_conv_nd() from host memory to host memory, as plumb_conv_host()
/// does. Where it accumulates and the device fails once it has begun, no other device does it
/// again.
PLUMB_API plumb_status plumb_conv_host_nd(const plumb_device* device, const plumb_tensor* x,
                                          const plumb_tensor* w, const plumb_tensor* bias,
                                          const plumb_tensor* y,
                                          const plumb_conv_geometry_nd* geometry,
                                          const plumb_conv_options_nd* options);
/// The gradient by x of tensors on the host, as plumb_conv_backward_data() has them and
/// plumb_conv_host_nd() runs them: dy, dx and the mask have images without gaps, one after the
/// other.
PLUMB_API plumb_status plumb_conv_backward_data_host(
    const plumb_device* device, const plumb_tensor* dy, const plumb_tensor* w,
    const plumb_tensor* dx, const plumb_tensor* mask, const plumb_tensor* bias,
    const plumb_conv_geometry_nd* geometry, const plumb_conv_options_nd* options);
/// The gradient by w, and by the bias, of tensors on the host, likewise. The gradients of segments
/// of the batch are summed in pairs, in a fixed order; with options->deterministic the batch is cut
/// the same way whatever memory is free.
PLUMB_API plumb_status plumb_conv_backward_weights_host(
    const plumb_device* device, const plumb_tensor* x, const plumb_tensor* dy,
    const plumb_tensor* dw, const plumb_tensor* db, const plumb_tensor* mask,
    const plumb_conv_geometry_nd* geometry, const plumb_conv_options_nd* options);
/// The transposed convolution of tensors on the host, likewise.
PLUMB_API plumb_status plumb_conv_transpose_host(const plumb_device* device, const plumb_tensor* x,
                                                 const plumb_tensor* w, const plumb_tensor* bias,
                                                 const plumb_tensor* y,
                                                 const plumb_conv_geometry_nd* geometry,
                                                 const plumb_conv_options_nd* options);

#ifdef __cplusplus
}
#endif

#include "plumb/plumb_nn.h"  // gradients of the operators around convolution
