// Suites name the layers that Plumb is measured and validated on.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "plumb/export.h"
#include "plumb/problem_text.hpp"

namespace plumb {

/// "four": the two networks of the ladder, two layers each (few channels, 7x7 filters).
/// "resnet50": ResNet-50's different convolutions (He et al. 2016).
/// "few200": 200 problems drawn once from the family of few channels: C to 16, K to 64, filters to
/// 11x11, strides 1 and 2, any padding, images to 2048x2048.
/// "few_special": members of that family with something about them: fewer images than a device has
/// units, one huge image, rows that are not aligned.
/// "fields": 40 fields of one to four components in one to three dimensions, with every boundary,
/// odd sizes and anisotropic filters.
/// "wide": a hundred layers of the networks that people run, each with the network's name: ResNet,
/// VGG, UNet, ConvNeXt, ResNeXt, MobileNet, EfficientNet, DeepLab, networks over volumes, clips and
/// sequences, and the embeddings of transformers; batches of 64, 8 and 1.
inline constexpr std::string_view suite_names[] = {"four",        "resnet50", "few200",
                                                   "few_special", "fields",   "wide"};

/// Returns the problems of a suite, dense NCHW, of f32, for batches of N; without it for the
/// suite's own: 10,000 images of the four, 128 of ResNet-50, of few200 as many as have outputs of
/// about 1 GB, and those of the others' lines. Throws Error (invalid_argument) that names the
/// suites where there is none of that name.
PLUMB_API std::vector<NamedProblem> suite(std::string_view name,
                                          std::optional<std::int64_t> batch = {});

}  // namespace plumb
