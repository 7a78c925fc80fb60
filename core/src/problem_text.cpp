// Reads and writes benchdnn's notation.
#include "plumb/problem_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "names.hpp"
#include "plumb/error.hpp"
#include "plumb/quote.hpp"

namespace plumb {
namespace {

using Value = std::optional<std::int64_t>;

constexpr std::string_view pool_key = "poolmax2x2", boundary_key = "pad", direction_key = "dir";

/// As benchdnn's --dir has them.
constexpr Name<Direction> directions[] = {{Direction::forward, "fwd"},
                                          {Direction::backward_data, "bwd_d"},
                                          {Direction::backward_weights, "bwd_w"}};

/// A whole problem with its name is longer than most of what is quoted.
std::string shown(std::string_view problem) { return quoted(problem, 160); }

/// One direction of the image, as the text gives it.
struct Side {
  Value input, output, filter, stride, padding, dilation;
  bool any() const { return input || output || filter || stride || padding || dilation; }
};

/// The text as it stands: what is left out is empty.
struct Fields {
  Value groups, batch, channels, filters;
  Side height, width, depth;
  Pool pool = Pool::none;
  std::optional<Direction> direction;
  std::vector<Boundary> boundaries;  ///< one for all axes, or those of the last axes
  std::string name;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Fields parse() {
    Fields fields;
    while (position_ < text_.size()) {
      if (text_[position_] == '_') {
        ++position_;
      } else if (text_[position_] == 'n') {
        fields.name = name();
      } else if (text_.substr(position_).starts_with(pool_key)) {
        if (fields.pool != Pool::none) refuse(fmt::format("{} is given twice", pool_key));
        fields.pool = Pool::max_2x2;
        position_ += pool_key.size();
      } else if (text_.substr(position_).starts_with(boundary_key)) {
        if (!fields.boundaries.empty()) refuse(fmt::format("{} is given twice", boundary_key));
        fields.boundaries = boundaries();
      } else if (text_.substr(position_).starts_with(direction_key)) {
        if (fields.direction) refuse(fmt::format("{} is given twice", direction_key));
        fields.direction = direction();
      } else {
        field(fields);
      }
    }
    return fields;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("problem {}, character {}: {}", shown(text_), position_ + 1, what));
  }

  void field(Fields& fields) {
    const struct {
      std::string_view key;
      Value& value;
    } known[] = {
        {"g", fields.groups},          {"mb", fields.batch},
        {"ic", fields.channels},       {"oc", fields.filters},
        {"ih", fields.height.input},   {"iw", fields.width.input},
        {"id", fields.depth.input},    {"oh", fields.height.output},
        {"ow", fields.width.output},   {"od", fields.depth.output},
        {"kh", fields.height.filter},  {"kw", fields.width.filter},
        {"kd", fields.depth.filter},   {"sh", fields.height.stride},
        {"sw", fields.width.stride},   {"sd", fields.depth.stride},
        {"ph", fields.height.padding}, {"pw", fields.width.padding},
        {"pd", fields.depth.padding},  {"dh", fields.height.dilation},
        {"dw", fields.width.dilation}, {"dd", fields.depth.dilation},
    };
    const std::string_view rest = text_.substr(position_);
    const auto found = std::find_if(std::begin(known), std::end(known),
                                    [&](const auto& k) { return rest.starts_with(k.key); });
    if (found == std::end(known))
      refuse(
          fmt::format("{} is no field; expected one of g mb ic ih iw oc oh ow kh kw sh sw ph "
                      "pw dh dw (and id od kd sd pd dd) {} padBOUNDARY dirDIRECTION n",
                      quoted(rest.substr(0, rest.find_first_of("0123456789"))), pool_key));
    const std::string_view key = found->key;
    if (found->value) refuse(fmt::format("{} is given twice", key));
    position_ += key.size();
    found->value = number(key);
  }

  std::vector<Boundary> boundaries() {
    position_ += boundary_key.size();
    std::vector<Boundary> all;
    do {
      if (!all.empty()) ++position_;
      all.push_back(boundary());
    } while (all.size() < 3 && position_ < text_.size() && text_[position_] == '/');
    return all;
  }

  Direction direction() {
    position_ += direction_key.size();
    const std::string_view rest = text_.substr(position_);
    for (const auto& [direction, name] : directions)
      if (rest.starts_with(name)) {
        position_ += name.size();
        return direction;
      }
    refuse(fmt::format("{} is no direction; expected fwd, bwd_d or bwd_w",
                       quoted(rest.substr(0, rest.find_first_of("0123456789")))));
  }

  Boundary boundary() {
    const std::string_view rest = text_.substr(position_);
    for (const Boundary one : {Boundary::zeros, Boundary::periodic, Boundary::reflect,
                               Boundary::symmetric, Boundary::clamp})
      if (rest.starts_with(to_string(one))) {
        position_ += to_string(one).size();
        return one;
      }
    refuse(fmt::format("{} is no boundary; expected zeros, periodic, reflect, symmetric or clamp",
                       quoted(rest.substr(0, rest.find_first_of("_/0123456789")))));
  }

  std::int64_t number(std::string_view key) {
    std::int64_t value = 0;
    const char* begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) refuse(fmt::format("{} is beyond 2^63", key));
    if (error != std::errc{}) refuse(fmt::format("no number after {}", key));
    if (value < 0) refuse(fmt::format("{} is {}; expected 0 or more", key, value));
    position_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  std::string name() {
    std::string_view rest = text_.substr(position_ + 1);
    const bool quoted = rest.starts_with('"');
    if (quoted && (rest.size() < 2 || rest.find('"', 1) != rest.size() - 1))
      refuse("a name in quotes must end the text, with its quote");
    position_ = text_.size();
    return std::string(quoted ? rest.substr(1, rest.size() - 2) : rest);
  }

  std::string_view text_;
  std::size_t position_ = 0;
};

/// Sizes along one direction, with padding before and after.
struct Extent {
  std::int64_t input = 1, filter = 1, stride = 1, dilation = 1, before = 0, after = 0;
};

class Completion {
 public:
  Completion(std::string_view text, const char* letter) : text_(text), letter_(letter) {}

  Extent complete(const Side& side) const {
    Extent extent{.input = need(side.input, "i"),
                  .filter = need(side.filter, "k"),
                  .stride = bounded(side.stride.value_or(1), "s", 1),
                  .dilation = bounded(side.dilation.value_or(0), "d", 0) + 1};
    const std::int64_t reach = (extent.filter - 1) * extent.dilation + 1;
    if (!side.output) {
      extent.before = extent.after = bounded(side.padding.value_or(0), "p", 0);
      return extent;
    }
    // An image and its paddings of up to 2^30 each have more outputs than 2^30.
    const std::int64_t output = bounded(*side.output, "o", 1, 32);
    const std::int64_t padding = (output - 1) * extent.stride + reach - extent.input;
    extent.before =
        side.padding ? bounded(*side.padding, "p", 0) : std::max<std::int64_t>(padding, 0) / 2;
    extent.after = std::max<std::int64_t>(padding - extent.before, 0);
    // The larger of the two is after, unless p was given, and bounded.
    if (extent.after > std::int64_t{1} << 30)
      refuse(fmt::format("o{} is {}, which takes a padding of {}; expected at most 2^30", letter_,
                         output, extent.after));
    const std::int64_t room = extent.input + extent.before + extent.after - reach;
    if (room < 0 || room / extent.stride + 1 != output)
      refuse(fmt::format("o{} is {}; expected {}", letter_, output,
                         room < 0 ? 0 : room / extent.stride + 1));
    return extent;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::invalid_argument, fmt::format("problem {}: {}", shown(text_), what));
  }

  /// Below 2^30 (or 2^bits), so that what is computed from a few of them stays below 2^63.
  std::int64_t bounded(std::int64_t value, const char* key, std::int64_t minimum,
                       int bits = 30) const {
    if (value < minimum || value > std::int64_t{1} << bits)
      refuse(fmt::format("{}{} is {}; expected {} to 2^{}", key, letter_, value, minimum, bits));
    return value;
  }

  std::int64_t need(const Value& value, const char* key) const {
    if (!value) refuse(fmt::format("{}{} is missing", key, letter_));
    return bounded(*value, key, 1);
  }

  std::string_view text_;
  const char* letter_;
};

/// Every value that an inner axis leaves out is the outer one's, but for the padding of an axis
/// that says its own output: the padding follows from that, as in benchdnn.
Side copied_from(Side inner, const Side& outer) {
  const bool has_output = inner.output.has_value();
  const auto copy = [](Value& to, const Value& from) {
    if (!to) to = from;
  };
  // An output copied beside an input of its own would contradict it.
  if (!inner.input && !inner.filter && !inner.stride && !inner.dilation && !inner.padding)
    copy(inner.output, outer.output);
  copy(inner.input, outer.input);
  copy(inner.filter, outer.filter);
  copy(inner.stride, outer.stride);
  if (!has_output) copy(inner.padding, outer.padding);
  copy(inner.dilation, outer.dilation);
  return inner;
}

/// The sizes along the three axes. The outermost one that is given is the outermost there is.
struct Axes {
  Extent d, h, w;
};
Axes axes_of(std::string_view text, const Fields& fields) {
  const auto complete = [&](const char* letter, const Side& side) {
    return Completion(text, letter).complete(side);
  };
  if (!fields.depth.any() && !fields.height.any() && fields.width.any())
    return {.d = {}, .h = {}, .w = complete("w", fields.width)};
  const bool deep = fields.depth.any();
  const Side height = deep ? copied_from(fields.height, fields.depth) : fields.height;
  return {.d = deep ? complete("d", fields.depth) : Extent{},
          .h = complete("h", height),
          .w = complete("w", copied_from(fields.width, height))};
}

Boundaries boundaries_of(const std::vector<Boundary>& given) {
  switch (given.size()) {
    case 0: return {};
    case 1: return given[0];
    case 2: return {given[0], given[1]};
    default: return {given[0], given[1], given[2]};
  }
}

/// "padreflect" for all axes, or "padzeros/clamp" for the last two, or for all three.
std::string text_of(const ConvProblem& problem) {
  const auto& [d, h, w] = problem.boundary;
  if (problem.boundary == Boundaries{}) return {};
  const Padding& pad = problem.padding;
  // An axis without padding has no say.
  const auto is = [](Boundary boundary, std::int64_t before, std::int64_t after, Boundary other) {
    return boundary == other || (before == 0 && after == 0);
  };
  for (const Boundary all : {w, h, d})
    if (is(d, pad.front, pad.back, all) && is(h, pad.top, pad.bottom, all) &&
        is(w, pad.left, pad.right, all))
      return fmt::format("_{}{}", boundary_key, to_string(all));
  const std::string last = fmt::format("{}/{}", to_string(h), to_string(w));
  return problem.has_depth() ? fmt::format("_{}{}/{}", boundary_key, to_string(d), last)
                             : fmt::format("_{}{}", boundary_key, last);
}

}  // namespace

NamedProblem parse_problem(std::string_view text) {
  const Fields fields = Parser(text).parse();
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, fmt::format("problem {}: {}", shown(text), what));
  };
  if (!fields.channels) refuse("ic is missing");
  if (!fields.filters) refuse("oc is missing");
  const auto [d, h, w] = axes_of(text, fields);

  ConvProblem problem;
  problem.n = fields.batch.value_or(2);
  problem.c = *fields.channels;
  problem.k = *fields.filters;
  problem.groups = fields.groups.value_or(1);
  problem.d = d.input, problem.h = h.input, problem.w = w.input;
  problem.t = d.filter, problem.r = h.filter, problem.s = w.filter;
  problem.stride = {d.stride, h.stride, w.stride};
  problem.dilation = {d.dilation, h.dilation, w.dilation};
  problem.padding = {d.before, h.before, w.before, d.after, h.after, w.after};
  if (!problem.has_depth() && (d.before != 0 || d.after != 0))
    refuse(
        fmt::format("id and kd are 1, padded by {} and {}; expected no padding along a depth of "
                    "one plane and one tap",
                    d.before, d.after));
  problem.boundary = boundaries_of(fields.boundaries);
  problem.pool = fields.pool;
  problem.direction = fields.direction.value_or(Direction::forward);
  return {fields.name, check(problem)};
}

std::vector<NamedProblem> parse_problems(std::string_view text) {
  std::vector<NamedProblem> problems;
  int line_number = 0;
  while (!text.empty()) {
    ++line_number;
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find('#'));
    const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
    while (!line.empty() && blank(line.front())) line.remove_prefix(1);
    while (!line.empty() && blank(line.back())) line.remove_suffix(1);
    if (line.empty()) continue;
    try {
      problems.push_back(parse_problem(line));
    } catch (const Error& e) {
      throw Error(e.code(), fmt::format("line {}: {}", line_number, e.what()));
    }
  }
  return problems;
}

std::string to_string(const ConvProblem& problem) {
  // A depth goes before each height.
  const auto deep = [&](const char* key, std::int64_t value) {
    return problem.has_depth() ? fmt::format("{}{}", key, value) : std::string();
  };
  const auto& [stride_d, stride_h, stride_w] = problem.stride;
  const auto& [step_d, step_h, step_w] = problem.dilation;
  std::string text = fmt::format("g{}mb{}ic{}{}ih{}iw{}oc{}{}oh{}ow{}{}kh{}kw{}", problem.groups,
                                 problem.n, problem.c, deep("id", problem.d), problem.h, problem.w,
                                 problem.k, deep("od", problem.z()), problem.p(), problem.q(),
                                 deep("kd", problem.t), problem.r, problem.s);
  if (problem.stride != Triple{})
    text += fmt::format("{}sh{}sw{}", deep("sd", stride_d), stride_h, stride_w);
  text += fmt::format("{}ph{}pw{}", deep("pd", problem.padding.front), problem.padding.top,
                      problem.padding.left);
  if (problem.dilation != Triple{})
    text += fmt::format("{}dh{}dw{}", deep("dd", step_d - 1), step_h - 1, step_w - 1);
  if (problem.pool == Pool::max_2x2) text += fmt::format("_{}", pool_key);
  text += text_of(problem);
  if (problem.direction != Direction::forward)
    text += fmt::format("_{}{}", direction_key, name_of(directions, problem.direction));
  return text;
}

}  // namespace plumb
