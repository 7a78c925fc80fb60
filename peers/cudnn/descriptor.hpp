// One object of cuDNN's graph interface, owned.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "peers/cudnn/library.hpp"

namespace plumb::cuda::cudnn {

/// Every call throws Error (device_failure) where cuDNN refuses.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    check(library().create_descriptor(type, &descriptor_), "cudnnBackendCreateDescriptor");
  }
  ~Descriptor() {
    if (descriptor_) library().destroy_descriptor(descriptor_);
  }
  Descriptor(Descriptor&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  cudnnBackendDescriptor_t native() const { return descriptor_; }

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values) {
    check(library().set_attribute(descriptor_, name, type, count, values),
          "cudnnBackendSetAttribute");
  }
  template <class Value>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, Value value) {
    set(name, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, std::int64_t value) {
    set(name, CUDNN_TYPE_INT64, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) {
    set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
  }
  void set(cudnnBackendAttributeName_t name, std::initializer_list<std::int64_t> values) {
    set(name, std::span(values.begin(), values.size()));
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.native());
  }
  void finalize() { check(library().finalize(descriptor_), "cudnnBackendFinalize"); }

  /// Up to `max_count` values of an attribute.
  template <class Value>
  std::vector<Value> get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                         std::int64_t max_count) const {
    std::vector<Value> values(static_cast<std::size_t>(max_count));
    std::int64_t count = 0;
    check(library().get_attribute(descriptor_, name, type, max_count, &count, values.data()),
          "cudnnBackendGetAttribute");
    values.resize(static_cast<std::size_t>(std::min(count, max_count)));
    return values;
  }
  template <class Value>
  Value get_one(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const {
    Value value{};
    std::int64_t count = 0;
    check(library().get_attribute(descriptor_, name, type, 1, &count, &value),
          "cudnnBackendGetAttribute");
    return value;
  }
  /// How many values an attribute holds.
  std::int64_t count(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const {
    std::int64_t count = 0;
    check(library().get_attribute(descriptor_, name, type, 0, &count, nullptr),
          "cudnnBackendGetAttribute");
    return count;
  }
  /// Up to `max_count` descriptors that an attribute holds: cuDNN fills in ones that the caller
  /// made.
  std::vector<Descriptor> get_descriptors(cudnnBackendAttributeName_t name,
                                          cudnnBackendDescriptorType_t type,
                                          std::int64_t max_count) const {
    std::vector<Descriptor> descriptors;
    std::vector<cudnnBackendDescriptor_t> natives;
    for (std::int64_t i = 0; i < max_count; ++i) {
      descriptors.emplace_back(type);
      natives.push_back(descriptors.back().native());
    }
    if (max_count == 0) return descriptors;
    std::int64_t filled = 0;
    check(library().get_attribute(descriptor_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, max_count,
                                  &filled, natives.data()),
          "cudnnBackendGetAttribute");
    descriptors.erase(descriptors.begin() + std::min(filled, max_count), descriptors.end());
    return descriptors;
  }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

}  // namespace plumb::cuda::cudnn
