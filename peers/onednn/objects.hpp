// oneDNN's objects, owned, the same for versions 2 and 3.
#pragma once

#include <memory>
#include <span>

#include "peers/onednn/library.hpp"
#include "plumb/types.hpp"

namespace plumb::onednn {

/// Extents or strides of a tensor as oneDNN has them.
using Sizes = std::span<const std::int64_t>;

/// How a tensor lies in memory. Copies share it.
class Desc {
 public:
  Desc() = default;  ///< of no tensor
  /// Of f32 or bf16.
  static Desc with_strides(Sizes extents, Sizes strides, DType dtype);
  static Desc of_any_layout(Sizes extents, DType dtype);  ///< oneDNN chooses it

  explicit operator bool() const { return bytes() > 0; }
  std::size_t bytes() const { return desc_ ? library().size(desc_.get()) : 0; }
  const MemoryDesc* get() const { return desc_.get(); }
  friend bool operator==(const Desc& a, const Desc& b) {
    return a.desc_ && b.desc_ && library().equal(a.get(), b.get()) != 0;
  }

 private:
  friend class Operation;
  explicit Desc(std::shared_ptr<const MemoryDesc> desc) : desc_(std::move(desc)) {}
  std::shared_ptr<const MemoryDesc> desc_;
};

/// What is asked for: the geometry of a convolution.
struct Windows {
  Sizes strides, dilations, before, after;  ///< dilations less one
};

/// Something that oneDNN can do, and the primitive that does it. Copies share it.
class Operation {
 public:
  Operation() = default;  ///< that does nothing
  static Operation reorder(const Desc& from, const Desc& to);
  /// With a bias where there is a desc of it. Throws Error where oneDNN has nothing for it.
  static Operation convolution(const Desc& x, const Desc& w, const Desc& bias, const Desc& y,
                               const Windows& windows, bool relu);
  /// The gradients likewise. oneDNN is shown the forward convolution of the same tensors.
  static Operation backward_data(const Desc& dx, const Desc& w, const Desc& dy,
                                 const Windows& windows);
  static Operation backward_weights(const Desc& x, const Desc& dw, const Desc& dy,
                                    const Windows& windows);

  explicit operator bool() const { return primitive_ != nullptr; }
  Desc desc(int query) const;  ///< as the operation wants a tensor
  void execute(Stream* stream, std::span<const ExecutionArgument> arguments) const;

 private:
  explicit Operation(PrimitiveDesc* made);
  std::shared_ptr<PrimitiveDesc> desc_;
  std::shared_ptr<Primitive> primitive_;
};

/// A piece of memory that oneDNN works on.
class Piece {
 public:
  Piece() = default;  ///< of nothing
  /// Inputs are only read, but oneDNN's memory has no const.
  Piece(const Desc& desc, const void* data);
  Memory* get() const { return memory_.get(); }

 private:
  std::unique_ptr<Memory, Status (*)(Memory*)> memory_{nullptr, nullptr};
};

/// Reorders, in scratch memory of as many bytes as the operation's description of it has.
void reorder(const Operation& operation, Stream* stream, const Piece& from, const Piece& to,
             void* scratch);

/// Work is put on it, and waited for at its end.
class WorkStream {
 public:
  WorkStream() {
    check(library().create_stream(&stream_, library().engine, in_order), "dnnl_stream_create");
  }
  ~WorkStream() { library().destroy_stream(stream_); }
  WorkStream(const WorkStream&) = delete;
  WorkStream& operator=(const WorkStream&) = delete;
  Stream* get() const { return stream_; }
  void wait() const { check(library().wait(stream_), "dnnl_stream_wait"); }

 private:
  Stream* stream_ = nullptr;
};

}  // namespace plumb::onednn
