/// @file
// Plumb from C has the same devices, queues and plans as plumb.hpp, behind opaque handles, in C99
// and C++.
//
// Every function that can fail returns a plumb_status. When it is not PLUMB_OK, what the function
// was to give is NULL or 0, and plumb_last_message() says what was wrong, for people. Nothing was
// done then, unless the device failed on the way (or, in plumb_conv_host(), memory ran out): what
// outputs hold is then unspecified, and inputs are as they were. No exception leaves a function,
// and a NULL where something is needed is PLUMB_INVALID_ARGUMENT.
//
// Threads: a plumb_device, plumb_plan and plumb_explanation may be used by several threads at once;
// a plumb_queue and the work put on it by one at a time. Destroying a handle while another thread
// uses it is the caller's error, as with free(). Handles may be destroyed in any order: a queue,
// plan or event keeps what it needs of its device alive. Destroying NULL does nothing.
//
// Enumerations are int32_t, of the same size for every compiler and language, and a value that is
// none of theirs is PLUMB_INVALID_ARGUMENT. Texts are UTF-8 and end in a NUL.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "plumb/export.h"
#include "plumb/version.h"

#ifdef __cplusplus
extern "C" {
#endif

// What went wrong.

/// What became of a call.
typedef int32_t plumb_status;
/// Values of plumb_status.
enum {
  PLUMB_OK = 0,                  ///< it was done
  PLUMB_INVALID_ARGUMENT = 1,    ///< a wrong shape, stride, dtype, name or NULL
  PLUMB_UNSUPPORTED = 2,         ///< a right request that no algorithm here can serve
  PLUMB_DEVICE_UNAVAILABLE = 3,  ///< the device asked for cannot be had
  PLUMB_OUT_OF_MEMORY = 4,       ///< host or device memory ran out
  PLUMB_DEVICE_FAILURE = 5,      ///< the device or its driver reported an error
  PLUMB_INTERNAL_ERROR = 6       ///< none of these: a bug in Plumb
};
/// Returns "out_of_memory", or "?" for what is no status.
PLUMB_API const char* plumb_status_name(plumb_status status);
/// Returns the message of the last function that failed on this thread; it is empty before there
/// was one. It is valid until the next one fails on this thread, and as long as the thread lives.
/// More than 4,000 bytes are cut between two characters, with "... (cut)" at the end.
PLUMB_API const char* plumb_last_message(void);
/// Returns which obstacle was in the way of a device that cannot be had, as a stable code:
/// "no_driver" and others for PLUMB_DEVICE_UNAVAILABLE, "out_of_memory" where memory for it ran
/// out; "unknown_backend" for a device's name that is PLUMB_INVALID_ARGUMENT; otherwise "none". It
/// is of the same failure as plumb_last_message().
PLUMB_API const char* plumb_last_reason(void);
/// Returns the version of the library that runs, "0.1.0"; PLUMB_VERSION_* are those of the header.
PLUMB_API const char* plumb_version(void);

// C++ has these words too (types.hpp).

/// What is stored in memory: IEEE binary32, binary64, binary16, and bfloat16.
typedef int32_t plumb_dtype;
/// Values of plumb_dtype.
enum {
  PLUMB_F32 = 0,  ///< IEEE binary32
  PLUMB_F64 = 1,  ///< IEEE binary64
  PLUMB_F16 = 2,  ///< IEEE binary16
  PLUMB_BF16 = 3  ///< the upper half of a binary32
};

/// The least accurate arithmetic that the caller allows; PLUMB_FP32 unless said otherwise.
typedef int32_t plumb_math;
/// Values of plumb_math.
enum {
  PLUMB_FP64 = 0,       ///< fp64 throughout
  PLUMB_FP32 = 1,       ///< the error of a chain of fp32 FMAs
  PLUMB_TF32 = 2,       ///< operands rounded to TF32, sums in fp32
  PLUMB_MATH_BF16 = 3,  ///< operands rounded to bfloat16, sums in fp32
  PLUMB_MATH_FP16 = 4   ///< operands rounded to binary16, sums in fp32
};

/// What is applied to each output after the bias.
typedef int32_t plumb_activation;
/// Values of plumb_activation.
enum {
  PLUMB_NO_ACTIVATION = 0,  ///< nothing
  PLUMB_RELU = 1            ///< max(y, 0)
};

/// Where memory lies.
typedef int32_t plumb_memory;
/// Values of plumb_memory.
enum {
  PLUMB_DEVICE_MEMORY = 0,      ///< the device's own
  PLUMB_PINNED_HOST_MEMORY = 1  ///< host memory that the device copies from and to at full speed
};

// Devices.

/// One device, opened.
typedef struct plumb_device plumb_device;

/// Allocates from the caller's own memory for tensors and workspaces: `bytes` (at least 1),
/// 256-byte aligned, or NULL where there is no more. Memory for a workspace comes with the native
/// queue (the cudaStream_t) that alone will use it, in order; otherwise `native_queue` is NULL.
/// Several threads may call it at once.
typedef void* (*plumb_allocate_function)(void* user, size_t bytes, plumb_memory memory,
                                         void* native_queue);
/// Gets the arguments of the allocation. With a native queue, work on it may still use the memory.
typedef void (*plumb_deallocate_function)(void* user, void* data, size_t bytes, plumb_memory memory,
                                          void* native_queue);
/// Gets one message, a line without its end: the devices that `auto` passed over, each plan that is
/// made. It is called on the thread that causes the message.
typedef void (*plumb_log_function)(void* user, const char* line);

/// If all are zero, memory is the backend's own, and messages go to standard error where
/// PLUMB_VERBOSE is set and otherwise nowhere. What is given belongs to this device alone, and must
/// live as long as it and everything made of it.
typedef struct plumb_device_options {
  plumb_allocate_function allocate;      ///< both or neither
  plumb_deallocate_function deallocate;  ///< both or neither
  void* allocator_user;                  ///< handed to both functions
  plumb_log_function log;                ///< NULL: standard error where PLUMB_VERBOSE is set
  void* log_user;                        ///< handed to `log`
} plumb_device_options;

/// The description of a device. The texts live as long as the device's handle.
typedef struct plumb_device_info {
  const char* id;               ///< "cpu", "cuda:0": opens it again
  const char* name;             ///< as the vendor calls it
  const char* instruction_set;  ///< "avx512", "sm_90"
  const char* why;              ///< for a device that `auto` chose, what it passed over; or empty
  int32_t units;                ///< multiprocessors, or threads that the CPU path uses
  int32_t compute_major;        ///< of CUDA's compute capability; 0 elsewhere
  int32_t compute_minor;        ///< of CUDA's compute capability; 0 elsewhere
  int32_t driver_version;       ///< CUDA's, 13000 for 13.0; 0 elsewhere
  size_t memory_bytes;          ///< in all
} plumb_device_info;

/// Counts the devices of a backend ("cpu", "cuda"). Where there are none the status is
/// PLUMB_DEVICE_UNAVAILABLE (PLUMB_OUT_OF_MEMORY where memory to look for them ran out), and the
/// message and plumb_last_reason() say why.
PLUMB_API plumb_status plumb_device_count(const char* backend, int32_t* count);
/// Opens a device. `spec` is "auto" (the first GPU that works, otherwise the CPU), or a name that
/// must be had: "cpu", "cuda", "cuda:1". NULL or "" stands for PLUMB_DEVICE, or "auto" without it.
/// `options` may be NULL.
PLUMB_API plumb_status plumb_device_open(const char* spec, const plumb_device_options* options,
                                         plumb_device** device);
/// Opens a device whose list also has the algorithms of other libraries, which are opened at run
/// time where they are: `providers` names them, commas between ("cudnn,onednn"), or says "none";
/// NULL or "" stands for PLUMB_PROVIDERS, or none without it. A plan takes one of their algorithms
/// where that states a bound of the arithmetic asked for and is the fastest by a time from tuning.
/// A name that is none is PLUMB_INVALID_ARGUMENT. plumb_device_open() goes by PLUMB_PROVIDERS too.
PLUMB_API plumb_status plumb_device_open_providers(const char* spec,
                                                   const plumb_device_options* options,
                                                   const char* providers, plumb_device** device);
/// Makes another handle of the same device, to be closed by itself.
PLUMB_API plumb_status plumb_device_copy(const plumb_device* device, plumb_device** copy);
/// Closes the handle; what was made of the device lives on.
PLUMB_API void plumb_device_close(plumb_device* device);
/// Fills `info` in.
PLUMB_API plumb_status plumb_device_get_info(const plumb_device* device, plumb_device_info* info);
/// Returns the bytes of memory that could be allocated now.
PLUMB_API plumb_status plumb_device_free_bytes(const plumb_device* device, size_t* bytes);

// Memory.

/// Allocates at least one byte, 256-byte aligned, uninitialised.
PLUMB_API plumb_status plumb_allocate(const plumb_device* device, size_t bytes, plumb_memory memory,
                                      void** data);
/// Frees memory; `bytes` and `memory` are those it was allocated with, and NULL data is passed
/// over. Work that uses the memory must be done.
PLUMB_API plumb_status plumb_deallocate(const plumb_device* device, void* data, size_t bytes,
                                        plumb_memory memory);

// Queues and events.

/// A queue runs work in order, on one device. On the CPU each call has finished when it returns.
typedef struct plumb_queue plumb_queue;
/// A point in a queue's work.
typedef struct plumb_event plumb_event;

/// Makes a queue of its own (on CUDA a non-blocking stream).
PLUMB_API plumb_status plumb_queue_create(const plumb_device* device, plumb_queue** queue);
/// Wraps the caller's stream, a cudaStream_t on CUDA, which must outlive the queue and is never
/// destroyed by it. On the CPU `native` must be NULL. On Kokkos it points to an execution space
/// object, which is copied.
PLUMB_API plumb_status plumb_queue_wrap(const plumb_device* device, void* native,
                                        plumb_queue** queue);
/// Destroys the queue; a stream of the caller's stays.
PLUMB_API void plumb_queue_destroy(plumb_queue* queue);
/// Returns the stream, NULL on the CPU.
PLUMB_API plumb_status plumb_queue_native(const plumb_queue* queue, void** native);
/// Waits on the host, and returns what the device reports.
PLUMB_API plumb_status plumb_queue_synchronize(plumb_queue* queue);
/// Puts a copy on the queue; either side may be host memory, which must stay alive and untouched
/// until the queue has passed it. The status is PLUMB_INVALID_ARGUMENT where the two overlap
/// without being the same memory.
PLUMB_API plumb_status plumb_copy(plumb_queue* queue, void* to, const void* from, size_t bytes);

/// Makes an event that happens when the work put on the queue so far is done.
PLUMB_API plumb_status plumb_queue_record(plumb_queue* queue, plumb_event** event);
/// Makes later work of this queue start after the event, which may be another queue's of the same
/// backend.
PLUMB_API plumb_status plumb_queue_wait(plumb_queue* queue, const plumb_event* event);
/// Waits on the host for the event.
PLUMB_API plumb_status plumb_event_synchronize(const plumb_event* event);
/// Says whether the event has happened, 0 or 1; does not wait.
PLUMB_API plumb_status plumb_event_done(const plumb_event* event, int32_t* done);
/// Returns the device's time between two events of one device; waits for both.
PLUMB_API plumb_status plumb_event_seconds(const plumb_event* from, const plumb_event* to,
                                           double* seconds);
/// Destroys the event; the queue's work goes on.
PLUMB_API void plumb_event_destroy(plumb_event* event);

// Convolution.
//
//   y[n,k,p,q] = activation(bias[k] + sum over c,r,s of
//                x[n, g*C/G + c, p*stride_h + r*dilation_h - top, q*stride_w + s*dilation_w - left]
//                * w[k,c,r,s])
//
// This is cross-correlation; taps outside the image are left out. Letters are those of all of
// Plumb: N batch, C input channels, H W input, K output channels, R S filter, P Q output, G groups.
// Images of one axis or three, other boundaries and accumulation are in plumb_nd.h.

/// What is done to the activated outputs before they are stored.
typedef int32_t plumb_conv_pool;
/// Values of plumb_conv_pool.
enum {
  PLUMB_NO_POOL = 0,      ///< nothing
  PLUMB_MAX_POOL_2X2 = 1  ///< the maximum of two rows by two columns: y is [N,K,P/2,Q/2]
};

/// The geometry says how the filter moves over the image, and what becomes of its outputs.
/// plumb_conv_geometry_init() makes it the plain one; plumb_conv_geometry_set_*() make one number
/// both directions or every side, as it is in C++, and what is not the same everywhere is set field
/// by field.
typedef struct plumb_conv_geometry {
  int64_t stride_h;        ///< step along the height, at least 1
  int64_t stride_w;        ///< step along the width, at least 1
  int64_t dilation_h;      ///< distance between taps along the height, at least 1
  int64_t dilation_w;      ///< distance between taps along the width, at least 1
  int64_t padding_top;     ///< rows of zeros above
  int64_t padding_left;    ///< columns of zeros before
  int64_t padding_bottom;  ///< rows of zeros below
  int64_t padding_right;   ///< columns of zeros after
  int64_t groups;          ///< G; divides C and K
  plumb_conv_pool pool;    ///< of the activated outputs
} plumb_conv_geometry;

/// A convolution without its data. plumb_conv_problem_init() makes every size 1, and f32.
typedef struct plumb_conv_problem {
  int64_t n;                     ///< batch, may be 0
  int64_t c;                     ///< input channels
  int64_t h;                     ///< input height
  int64_t w;                     ///< input width
  int64_t k;                     ///< output channels
  int64_t r;                     ///< filter height
  int64_t s;                     ///< filter width
  plumb_conv_geometry geometry;  ///< how the filter moves
  const int64_t* x_strides;      ///< four, of N C H W, in elements; NULL: dense NCHW
  const int64_t* w_strides;      ///< four, of K C/G R S, in elements; NULL: dense
  const int64_t* y_strides;      ///< four, of N K P Q, in elements; NULL: dense
  plumb_dtype dtype;             ///< of x, w, bias and y
} plumb_conv_problem;

/// plumb_conv_options_init() sets PLUMB_FP32, no activation, no bias, any workspace.
typedef struct plumb_conv_options {
  plumb_math math;               ///< the least accurate that may be chosen
  plumb_activation activation;   ///< after the bias
  int32_t bias;                  ///< not 0: a bias is added to each output channel
  int32_t deterministic;         ///< not 0: only algorithms that give the same bits every time
  size_t workspace_limit_bytes;  ///< algorithms that need more are not chosen
  const char* algorithm;         ///< only this one may run; NULL: Plumb chooses
} plumb_conv_options;

/// Sets strides, dilations and groups of 1, and no padding.
PLUMB_API plumb_status plumb_conv_geometry_init(plumb_conv_geometry* geometry);
/// Sets `both` along the height and the width.
PLUMB_API plumb_status plumb_conv_geometry_set_stride(plumb_conv_geometry* geometry, int64_t both);
/// Sets `both` along the height and the width.
PLUMB_API plumb_status plumb_conv_geometry_set_dilation(plumb_conv_geometry* geometry,
                                                        int64_t both);
/// Sets as many rows and columns of zeros on each of the four sides.
PLUMB_API plumb_status plumb_conv_geometry_set_padding(plumb_conv_geometry* geometry,
                                                       int64_t every_side);
/// Sets every size to 1, f32, the plain geometry, and dense tensors.
PLUMB_API plumb_status plumb_conv_problem_init(plumb_conv_problem* problem);
/// Sets PLUMB_FP32, no activation, no bias, any workspace, and Plumb's choice.
PLUMB_API plumb_status plumb_conv_options_init(plumb_conv_options* options);
/// Returns the extents of y: N K P Q, as the geometry gives them, pooled N K P/2 Q/2.
PLUMB_API plumb_status plumb_conv_output_extents(const plumb_conv_problem* problem,
                                                 int64_t extents[4]);

/// A convolution that has been checked and whose algorithm has been chosen.
typedef struct plumb_plan plumb_plan;

/// Makes a plan; `options` may be NULL. The status is PLUMB_UNSUPPORTED where no algorithm (or not
/// the one forced) can run: the message has each one's reason.
PLUMB_API plumb_status plumb_plan_create(const plumb_device* device,
                                         const plumb_conv_problem* problem,
                                         const plumb_conv_options* options, plumb_plan** plan);
/// Destroys the plan; work that was put on queues goes on.
PLUMB_API void plumb_plan_destroy(plumb_plan* plan);
/// Returns the algorithm's name, which lives as long as the program.
PLUMB_API plumb_status plumb_plan_algorithm(const plumb_plan* plan, const char** algorithm);
/// Returns the workspace that plumb_plan_execute() takes.
PLUMB_API plumb_status plumb_plan_workspace_bytes(const plumb_plan* plan, size_t* bytes);
/// Returns the workspace that plumb_plan_execute_packed() takes, which is no more.
PLUMB_API plumb_status plumb_plan_packed_workspace_bytes(const plumb_plan* plan, size_t* bytes);
/// Puts the convolution on a queue of the plan's device. The pointers are to memory of that device,
/// to the element of index zero, and hold what the problem says; bias is K dense elements, or NULL
/// where the plan was made without. `workspace` is plumb_plan_workspace_bytes() of the device's
/// memory, 256-byte aligned and used by nothing else until the queue has passed; NULL takes it from
/// the queue. The status is PLUMB_INVALID_ARGUMENT where y overlaps x, w or bias, or the workspace
/// any of them.
PLUMB_API plumb_status plumb_plan_execute(const plumb_plan* plan, plumb_queue* queue, const void* x,
                                          const void* w, const void* bias, void* y,
                                          void* workspace);

/// Filters as the algorithm of a plan wants them: they are packed once, for any number of
/// convolutions. Several threads and queues may use them at once.
typedef struct plumb_packed_filters plumb_packed_filters;

/// Puts the packing of w on a queue of the plan's device; w may be changed or freed once the queue
/// has passed it. The filters may be used on this queue at once, and on others once it has passed
/// them (plumb_queue_record(), plumb_queue_wait()). Packing takes memory from the device, and so is
/// PLUMB_UNSUPPORTED while the queue's stream is being captured in a graph.
PLUMB_API plumb_status plumb_plan_pack(const plumb_plan* plan, plumb_queue* queue, const void* w,
                                       plumb_packed_filters** filters);
/// Destroys the filters; work that uses them must be done.
PLUMB_API void plumb_packed_filters_destroy(plumb_packed_filters* filters);
/// Does the same as plumb_plan_execute(), bit for bit, with filters in the place of w. They may
/// have been packed by another plan of the same algorithm, kind of device and problem, in which N
/// alone may differ; otherwise the status is PLUMB_INVALID_ARGUMENT, and the message says what
/// differs. `workspace` is plumb_plan_packed_workspace_bytes() of memory, or NULL.
PLUMB_API plumb_status plumb_plan_execute_packed(const plumb_plan* plan, plumb_queue* queue,
                                                 const void* x, const plumb_packed_filters* filters,
                                                 const void* bias, void* y, void* workspace);

// An explanation says why this algorithm was chosen and not another.

/// The answers of every algorithm to a problem.
typedef struct plumb_explanation plumb_explanation;

/// The answer of one algorithm to a problem. The texts live as long as the explanation.
typedef struct plumb_candidate {
  const char* algorithm;    ///< its name
  const char* reason;       ///< "none" where it can run; otherwise a stable code: "math"
  const char* sentence;     ///< the reason with its values, for people
  const char* remedy;       ///< what would let it run; empty where it can
  double estimate_seconds;  ///< 0 where the algorithm itself refuses the problem
  double measured_seconds;  ///< from tuning; negative where it was not tuned
  size_t workspace_bytes;   ///< 0 where the algorithm itself refuses the problem
  plumb_math error_class;   ///< class of the promise that its arithmetic keeps
  int32_t deterministic;    ///< not 0: the same bits every time
  int32_t pool_fused;       ///< not 0: the kernel pools by itself, where the problem pools
  int32_t chosen;           ///< not 0: a plan takes this one
} plumb_candidate;

/// Explains every algorithm of the device, in its order. `options` may be NULL.
PLUMB_API plumb_status plumb_explain(const plumb_device* device, const plumb_conv_problem* problem,
                                     const plumb_conv_options* options,
                                     plumb_explanation** explanation);
/// Explains every algorithm of the device for a plan.
PLUMB_API plumb_status plumb_plan_explain(const plumb_plan* plan, plumb_explanation** explanation);
/// Returns how many algorithms the explanation has.
PLUMB_API plumb_status plumb_explanation_size(const plumb_explanation* explanation, size_t* size);
/// Returns one of the algorithms, with `index` from 0.
PLUMB_API plumb_status plumb_explanation_entry(const plumb_explanation* explanation, size_t index,
                                               plumb_candidate* candidate);
/// Destroys the explanation; its texts go with it.
PLUMB_API void plumb_explanation_destroy(plumb_explanation* explanation);

// Proof.

/// The result of one algorithm held against the oracle in double, on data of the library's own.
typedef struct plumb_validation {
  int32_t passed;               ///< every tier: exact, within the bound, repeatable, attested
  double max_error_over_bound;  ///< at most 1 where it passed
  char sentence[256];           ///< of the first tier that did not pass, cut to fit; or empty
} plumb_validation;

/// Validates an algorithm; NULL takes the one that a plan without options takes. The status is
/// PLUMB_UNSUPPORTED where it cannot run the problem. The problem's strides are not looked at:
/// tensors are dense NCHW. The call takes its time.
PLUMB_API plumb_status plumb_validate(const plumb_device* device, const plumb_conv_problem* problem,
                                      const char* algorithm, plumb_validation* validation);

// Tensors, and calls that plan by themselves.

/// A tensor is borrowed memory: the element of index zero, extents, strides in elements (zero or
/// negative are well for inputs), and the device whose memory it is; NULL stands for the host. It
/// is written only where a function says so; what is written overlaps neither itself nor an input,
/// or the status is PLUMB_INVALID_ARGUMENT. plumb_tensor_init() fills one in.
typedef struct plumb_tensor {
  void* data;                  ///< the element of index zero
  const plumb_device* device;  ///< whose memory it is; NULL: the host's
  plumb_dtype dtype;           ///< what is stored
  int32_t rank;                ///< at most 6
  int64_t extents[6];          ///< the first `rank` count
  int64_t strides[6];          ///< the first `rank` count, in elements
} plumb_tensor;

/// Fills a tensor in; with `strides` NULL it is dense, the last index running fastest.
PLUMB_API plumb_status plumb_tensor_init(plumb_tensor* tensor, const void* data,
                                         const plumb_device* device, plumb_dtype dtype,
                                         int32_t rank, const int64_t* extents,
                                         const int64_t* strides);

/// Convolves x [N,C,H,W], w [K,C/G,R,S] and bias [K] (or NULL) to y [N,K,P,Q], on the queue. The
/// plan comes from the device's cache. `geometry` and `options` may be NULL; options->bias is not
/// looked at.
PLUMB_API plumb_status plumb_conv(plumb_queue* queue, const plumb_tensor* x, const plumb_tensor* w,
                                  const plumb_tensor* bias, const plumb_tensor* y,
                                  const plumb_conv_geometry* geometry,
                                  const plumb_conv_options* options);
/// Convolves from host memory to host memory, by a device with its own: in segments whose copies
/// and kernels overlap, whatever the size of the batch. y is complete when it returns. x and y have
/// images without gaps, one after the other; w has no gaps. Where "auto" chose the device and it
/// fails on the way, the CPU does the whole convolution again.
PLUMB_API plumb_status plumb_conv_host(const plumb_device* device, const plumb_tensor* x,
                                       const plumb_tensor* w, const plumb_tensor* bias,
                                       const plumb_tensor* y, const plumb_conv_geometry* geometry,
                                       const plumb_conv_options* options);

/// Values of plumb_pool_geometry::kind.
enum {
  PLUMB_POOL_MAX = 0,     ///< the maximum; padding never wins
  PLUMB_POOL_AVERAGE = 1  ///< the average
};
/// plumb_pool_geometry_init() makes it the maximum of 1x1. A window that hangs over the end counts
/// only with ceil_mode, padding in an average only with count_padding (nn.hpp).
typedef struct plumb_pool_geometry {
  int32_t kind;            ///< PLUMB_POOL_MAX or PLUMB_POOL_AVERAGE
  int32_t ceil_mode;       ///< not 0: a last window may hang over
  int32_t count_padding;   ///< not 0: padding counts in an average's divisor
  int64_t window_h;        ///< at least 1
  int64_t window_w;        ///< at least 1
  int64_t stride_h;        ///< at least 1
  int64_t stride_w;        ///< at least 1
  int64_t dilation_h;      ///< at least 1
  int64_t dilation_w;      ///< at least 1
  int64_t padding_top;     ///< less than the dilated window
  int64_t padding_left;    ///< less than the dilated window
  int64_t padding_bottom;  ///< less than the dilated window
  int64_t padding_right;   ///< less than the dilated window
} plumb_pool_geometry;
/// Sets the maximum of 1x1.
PLUMB_API plumb_status plumb_pool_geometry_init(plumb_pool_geometry* geometry);
/// Sets `both` along the height and the width.
PLUMB_API plumb_status plumb_pool_geometry_set_window(plumb_pool_geometry* geometry, int64_t both);
/// Sets `both` along the height and the width.
PLUMB_API plumb_status plumb_pool_geometry_set_stride(plumb_pool_geometry* geometry, int64_t both);
/// Sets `both` along the height and the width.
PLUMB_API plumb_status plumb_pool_geometry_set_dilation(plumb_pool_geometry* geometry,
                                                        int64_t both);
/// Sets as many rows and columns on each of the four sides.
PLUMB_API plumb_status plumb_pool_geometry_set_padding(plumb_pool_geometry* geometry,
                                                       int64_t every_side);
/// Returns N C P Q of the pooled x of N C H W.
PLUMB_API plumb_status plumb_pooled_extents(const int64_t x_extents[4],
                                            const plumb_pool_geometry* geometry,
                                            int64_t y_extents[4]);
/// Computes y[n,c,p,q] = maximum or average over the window.
PLUMB_API plumb_status plumb_pool(plumb_queue* queue, const plumb_tensor* x, const plumb_tensor* y,
                                  const plumb_pool_geometry* geometry);
/// Computes y[n,k] = activation(bias[k] + sum over c of x[n,c] w[k,c]); bias and options may be
/// NULL.
PLUMB_API plumb_status plumb_linear(plumb_queue* queue, const plumb_tensor* x,
                                    const plumb_tensor* w, const plumb_tensor* bias,
                                    const plumb_tensor* y, const plumb_conv_options* options);
/// Computes y = max(x, 0); x and y may be the same memory, at one address and with the same
/// strides.
PLUMB_API plumb_status plumb_relu(plumb_queue* queue, const plumb_tensor* x, const plumb_tensor* y);
/// Computes y[n,:] = exp(x[n,:] - max x[n,:]) / their sum.
PLUMB_API plumb_status plumb_softmax(plumb_queue* queue, const plumb_tensor* x,
                                     const plumb_tensor* y);
/// Interpolates x [N,C,H,W] bilinearly to y [N,C,P,Q] with half-pixel centres, edges clamped.
PLUMB_API plumb_status plumb_resize_bilinear(plumb_queue* queue, const plumb_tensor* x,
                                             const plumb_tensor* y);

#ifdef __cplusplus
}
#endif

#include "plumb/plumb_nd.h"  // one to three dimensions, boundaries, accumulation; and plumb_nn.h
