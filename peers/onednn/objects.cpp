// Where versions 2 and 3 differ: in version 3 each object is a handle, in version 2 descriptions
// are structs of the caller's, which here are room for them.
#include "peers/onednn/objects.hpp"

#include <algorithm>
#include <array>

namespace plumb::onednn {
namespace {

/// Room for a struct of version 2: a tensor's description is of 696 bytes there, an operation's of
/// 5,976, throughout 2.x.
template <std::size_t bytes>
struct Room {
  alignas(std::max_align_t) std::array<std::byte, bytes> data{};
};
using DescRoom = Room<2048>;
using OperationRoom = Room<16384>;

struct Padded {
  explicit Padded(Sizes sizes) { std::copy(sizes.begin(), sizes.end(), values); }
  Dimensions values{};
};

/// `fill2(room)` of version 2, or `make3(handle)` of version 3.
template <class Fill2, class Make3>
std::shared_ptr<const MemoryDesc> described(const Fill2& fill2, const Make3& make3,
                                            const char* call) {
  if (library().major == 2) {
    const auto room = std::make_shared<DescRoom>();
    auto* const desc = reinterpret_cast<MemoryDesc*>(room->data.data());
    check(fill2(desc), call);
    return {room, desc};
  }
  MemoryDesc* desc = nullptr;
  check(make3(&desc), call);
  return {desc, library().v3.destroy_memory_desc};
}

/// Owns what `create` makes, until its end.
template <class Object>
std::unique_ptr<Object, Status (*)(Object*)> owned(Status (*create)(Object**),
                                                   Status (*destroy)(Object*), const char* call) {
  Object* made = nullptr;
  check(create(&made), call);
  return {made, destroy};
}

auto attributes(bool relu) {
  const Library& l = library();
  auto made = owned(l.create_attributes, l.destroy_attributes, "dnnl_primitive_attr_create");
  check(l.set_scratchpad_mode(made.get(), user_scratchpad),
        "dnnl_primitive_attr_set_scratchpad_mode");
  // Whatever the environment says: no operand may be rounded.
  check(l.set_fpmath_mode(made.get(), strict_fpmath), "dnnl_primitive_attr_set_fpmath_mode");
  if (!relu) return made;
  const auto after = owned(l.create_post_ops, l.destroy_post_ops, "dnnl_post_ops_create");
  constexpr int relu2 = 0x1f, relu3 = 0x20;
  check(l.major == 2 ? l.v2.append_eltwise(after.get(), 1, relu2, 0, 0)
                     : l.v3.append_eltwise(after.get(), relu3, 0, 0),
        "dnnl_post_ops_append_eltwise");
  check(l.set_post_ops(made.get(), after.get()), "dnnl_primitive_attr_set_post_ops");
  return made;
}

int type_of(DType dtype) { return dtype == DType::bf16 ? bf16_type : f32_type; }

}  // namespace

Desc Desc::with_strides(Sizes extents, Sizes strides, DType dtype) {
  const Padded sizes(extents), steps(strides);
  const int rank = static_cast<int>(extents.size());
  return Desc(described(
      [&](MemoryDesc* room) {
        return library().v2.memory_desc_by_strides(room, rank, sizes.values, type_of(dtype),
                                                   steps.values);
      },
      [&](MemoryDesc** made) {
        return library().v3.memory_desc_by_strides(made, rank, sizes.values, type_of(dtype),
                                                   steps.values);
      },
      "a description by strides"));
}

Desc Desc::of_any_layout(Sizes extents, DType dtype) {
  const Padded sizes(extents);
  const int rank = static_cast<int>(extents.size());
  return Desc(described(
      [&](MemoryDesc* room) {
        return library().v2.memory_desc_by_tag(room, rank, sizes.values, type_of(dtype),
                                               any_format);
      },
      [&](MemoryDesc** made) {
        return library().v3.memory_desc_by_tag(made, rank, sizes.values, type_of(dtype),
                                               any_format);
      },
      "a description of any layout"));
}

Operation::Operation(PrimitiveDesc* made) : desc_(made, library().destroy_primitive_desc) {
  Primitive* primitive = nullptr;
  check(library().create_primitive(&primitive, made), "dnnl_primitive_create");
  primitive_ = {primitive, library().destroy_primitive};
}

Operation Operation::reorder(const Desc& from, const Desc& to) {
  const Library& l = library();
  PrimitiveDesc* made = nullptr;
  check(l.reorder(&made, from.get(), l.engine, to.get(), l.engine, attributes(false).get()),
        "dnnl_reorder_primitive_desc_create");
  return Operation(made);
}

namespace {

struct PaddedWindows {
  explicit PaddedWindows(const Windows& windows)
      : strides(windows.strides),
        dilations(windows.dilations),
        before(windows.before),
        after(windows.after) {}
  Padded strides, dilations, before, after;
};

using OwnedPrimitiveDesc = std::unique_ptr<PrimitiveDesc, Status (*)(PrimitiveDesc*)>;

/// Of version 2, of what `describe` writes down.
template <class Describe>
PrimitiveDesc* described_operation(const Describe& describe, const char* call,
                                   const Attributes* attributes, const PrimitiveDesc* hint) {
  const Library& l = library();
  OperationRoom room;
  auto* const operation = reinterpret_cast<OperationDesc*>(room.data.data());
  check(describe(operation), call);
  PrimitiveDesc* made = nullptr;
  check(l.v2.primitive_desc(&made, operation, attributes, l.engine, hint),
        "dnnl_primitive_desc_create");
  return made;
}

// Direct, which is every kernel that forms plain sums: Winograd has to be asked for.
PrimitiveDesc* forward(int kind, const Desc& x, const Desc& w, const Desc& bias, const Desc& y,
                       const PaddedWindows& of, const Attributes* attributes) {
  const Library& l = library();
  if (l.major == 2)
    return described_operation(
        [&](OperationDesc* operation) {
          return l.v2.convolution(operation, kind, convolution_direct, x.get(), w.get(), bias.get(),
                                  y.get(), of.strides.values, of.dilations.values, of.before.values,
                                  of.after.values);
        },
        "dnnl_dilated_convolution_forward_desc_init", attributes, nullptr);
  PrimitiveDesc* made = nullptr;
  check(l.v3.convolution(&made, l.engine, kind, convolution_direct, x.get(), w.get(), bias.get(),
                         y.get(), of.strides.values, of.dilations.values, of.before.values,
                         of.after.values, attributes),
        "dnnl_convolution_forward_primitive_desc_create");
  return made;
}

OwnedPrimitiveDesc hint(const Desc& x, const Desc& w, const Desc& y, const PaddedWindows& of,
                        const Attributes* attributes) {
  return {forward(forward_training, x, w, {}, y, of, attributes), library().destroy_primitive_desc};
}

}  // namespace

Operation Operation::convolution(const Desc& x, const Desc& w, const Desc& bias, const Desc& y,
                                 const Windows& windows, bool relu) {
  return Operation(
      forward(forward_inference, x, w, bias, y, PaddedWindows(windows), attributes(relu).get()));
}

Operation Operation::backward_data(const Desc& dx, const Desc& w, const Desc& dy,
                                   const Windows& windows) {
  const Library& l = library();
  const PaddedWindows of(windows);
  const auto attributes_ = attributes(false);
  const auto shown = hint(dx, w, dy, of, attributes_.get());
  if (l.major == 2)
    return Operation(described_operation(
        [&](OperationDesc* operation) {
          return l.v2.backward_data(operation, convolution_direct, dx.get(), w.get(), dy.get(),
                                    of.strides.values, of.dilations.values, of.before.values,
                                    of.after.values);
        },
        "dnnl_dilated_convolution_backward_data_desc_init", attributes_.get(), shown.get()));
  PrimitiveDesc* made = nullptr;
  check(l.v3.backward_data(&made, l.engine, convolution_direct, dx.get(), w.get(), dy.get(),
                           of.strides.values, of.dilations.values, of.before.values,
                           of.after.values, shown.get(), attributes_.get()),
        "dnnl_convolution_backward_data_primitive_desc_create");
  return Operation(made);
}

Operation Operation::backward_weights(const Desc& x, const Desc& dw, const Desc& dy,
                                      const Windows& windows) {
  const Library& l = library();
  const PaddedWindows of(windows);
  const auto attributes_ = attributes(false);
  const auto shown = hint(x, dw, dy, of, attributes_.get());
  if (l.major == 2)
    return Operation(described_operation(
        [&](OperationDesc* operation) {
          return l.v2.backward_weights(operation, convolution_direct, x.get(), dw.get(), nullptr,
                                       dy.get(), of.strides.values, of.dilations.values,
                                       of.before.values, of.after.values);
        },
        "dnnl_dilated_convolution_backward_weights_desc_init", attributes_.get(), shown.get()));
  PrimitiveDesc* made = nullptr;
  check(l.v3.backward_weights(&made, l.engine, convolution_direct, x.get(), dw.get(), nullptr,
                              dy.get(), of.strides.values, of.dilations.values, of.before.values,
                              of.after.values, shown.get(), attributes_.get()),
        "dnnl_convolution_backward_weights_primitive_desc_create");
  return Operation(made);
}

Desc Operation::desc(int query) const {
  const MemoryDesc* const found = library().query_memory_desc(desc_.get(), query, 0);
  return found ? Desc({desc_, found}) : Desc();  // lives as long as what was asked
}

void Operation::execute(Stream* stream, std::span<const ExecutionArgument> arguments) const {
  check(library().execute(primitive_.get(), stream, static_cast<int>(arguments.size()),
                          arguments.data()),
        "dnnl_primitive_execute");
}

Piece::Piece(const Desc& desc, const void* data) {
  Memory* made = nullptr;
  check(library().create_memory(&made, desc.get(), library().engine, const_cast<void*>(data)),
        "dnnl_memory_create");
  memory_ = {made, library().destroy_memory};
}

void reorder(const Operation& operation, Stream* stream, const Piece& from, const Piece& to,
             void* scratch) {
  const Desc desc = operation.desc(scratchpad_query);
  const Piece scratchpad = desc ? Piece(desc, scratch) : Piece();
  std::array<ExecutionArgument, 3> arguments{{{from_argument, from.get()},
                                              {to_argument, to.get()},
                                              {scratchpad_argument, scratchpad.get()}}};
  operation.execute(stream, std::span(arguments).first(desc ? 3 : 2));
}

}  // namespace plumb::onednn
