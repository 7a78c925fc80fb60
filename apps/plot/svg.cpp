// SVG as text.
#include "plot/svg.hpp"

#include <fmt/format.h>

#include <cmath>

namespace plumb::app {
namespace {

/// Colours by Okabe and Ito, which people with colour-blindness can tell apart; lighter on dark.
constexpr std::string_view style_sheet = R"(
.ground{fill:#ffffff}.ink{fill:#1f2328}.muted{fill:#59636e}
.grid{stroke:#d1d9e0;stroke-width:1}.reference{stroke:#c4320a;stroke-width:1.5;stroke-dasharray:4 3}
.s0{fill:#0072b2}.s1{fill:#e69f00}.s2{fill:#009e73}
.s3{fill:#cc79a7}.s4{fill:#56b4e9}.s5{fill:#8a6d3b}
.line{fill:none;stroke-width:2;stroke-linejoin:round}
.l0{stroke:#0072b2}.l1{stroke:#e69f00}.l2{stroke:#009e73}
.l3{stroke:#cc79a7}.l4{stroke:#56b4e9}.l5{stroke:#8a6d3b}
text{font-family:system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;paint-order:stroke;
stroke:#ffffff;stroke-width:2.5px;stroke-linejoin:round}
@media (prefers-color-scheme:dark){
.ground{fill:#0d1117}.ink{fill:#e6edf3}.muted{fill:#9198a1}
.grid{stroke:#3d444d}.reference{stroke:#ff9a6b}
.s0{fill:#4aa3df}.s1{fill:#f0b73f}.s2{fill:#3fc79a}
.s3{fill:#e09cc3}.s4{fill:#8ccdf2}.s5{fill:#c9a66b}
.l0{stroke:#4aa3df}.l1{stroke:#f0b73f}.l2{stroke:#3fc79a}
.l3{stroke:#e09cc3}.l4{stroke:#8ccdf2}.l5{stroke:#c9a66b}
text{stroke:#0d1117}
}
)";

constexpr std::string_view replacement = "\xef\xbf\xbd";

/// The length of the UTF-8 sequence that `text` begins with; 0 where it begins with none.
std::size_t sequence_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead < 0x80                    ? 1
                             : lead >= 0xc2 && lead < 0xe0  ? 2
                             : lead >= 0xe0 && lead < 0xf0  ? 3
                             : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                            : 0;
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  return length;
}

/// Of a sans-serif font of size 1.
double character_width(char first_byte) {
  constexpr std::string_view narrow = "iljtfI.,:;'|! ()[]", wide = "mwMW@%";
  if (narrow.find(first_byte) != std::string_view::npos) return 0.36;
  if (wide.find(first_byte) != std::string_view::npos) return 0.95;
  return first_byte >= 'A' && first_byte <= 'Z' ? 0.7 : 0.61;
}

struct StyleOfText {
  double size;
  std::string_view css_class;
  int weight;
};

StyleOfText style_of(TextStyle style) {
  switch (style) {
    case TextStyle::title: return {title_size, "ink", 600};
    case TextStyle::label: return {label_size, "ink", 400};
    case TextStyle::small: return {small_size, "ink", 400};
    case TextStyle::muted: return {small_size, "muted", 400};
  }
  return {};
}

std::string_view to_string(Anchor anchor) {
  switch (anchor) {
    case Anchor::start: return "start";
    case Anchor::middle: return "middle";
    case Anchor::end: return "end";
  }
  return {};
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const char c = text.front();
    if (length == 0 || (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t'))
      escaped += replacement;
    else if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '"')
      escaped += "&quot;";
    else if (c == '\'')
      escaped += "&#39;";
    else
      escaped += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return escaped;
}

double text_width(std::string_view text, double size) {
  double width = 0;
  while (!text.empty()) {
    width += character_width(text.front());
    const std::size_t length = sequence_length(text);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return width * size;
}

std::string shortened(std::string_view text, double size, double width) {
  if (text_width(text, size) <= width) return std::string(text);
  // Characters, from both ends by turns, until no further one fits.
  constexpr std::string_view ellipsis = "\xe2\x80\xa6";
  const auto continues = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  std::size_t head = 0, tail = text.size();
  for (bool from_head = true;; from_head = !from_head) {
    std::size_t next_head = head, next_tail = tail;
    if (from_head) do
        ++next_head;
      while (next_head < tail && continues(next_head));
    else
      do --next_tail;
      while (next_tail > head && continues(next_tail));
    if (next_head >= next_tail) break;
    const double used =
        text_width(text.substr(0, next_head), size) + text_width(text.substr(next_tail), size);
    if (used + text_width(ellipsis, size) > width) break;
    head = next_head;
    tail = next_tail;
  }
  return fmt::format("{}{}{}", text.substr(0, head), ellipsis, text.substr(tail));
}

std::string short_number(double value) {
  const double size = std::abs(value);
  if (size == 0) return "0";
  if (size >= 1e6) return fmt::format("{:.3g}", value);
  if (size >= 100) return fmt::format("{:.0f}", value);
  if (size >= 10) return fmt::format("{:.1f}", value);
  return size >= 1 ? fmt::format("{:.2f}", value) : fmt::format("{:.3g}", value);
}

void SvgCanvas::box(double x, double y, double width, double height, std::size_t series,
                    std::string_view tooltip) {
  body_ += fmt::format(
      R"(<rect x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" rx="1" class="s{}")", x, y,
      width, height, series % series_colours);
  body_ += tooltip.empty() ? std::string("/>\n")
                           : fmt::format("><title>{}</title></rect>\n", xml_escaped(tooltip));
}

void SvgCanvas::polyline(const std::vector<Point>& points, std::size_t series) {
  body_ += R"(<polyline points=")";
  for (const Point& point : points) body_ += fmt::format("{:.2f},{:.2f} ", point.x, point.y);
  body_ += fmt::format(R"(" class="line l{}"/>)"
                       "\n",
                       series % series_colours);
}

void SvgCanvas::dot(const Point& centre, std::size_t series, std::string_view tooltip) {
  body_ += fmt::format(R"(<circle cx="{:.2f}" cy="{:.2f}" r="3" class="s{}")", centre.x, centre.y,
                       series % series_colours);
  body_ += tooltip.empty() ? std::string("/>\n")
                           : fmt::format("><title>{}</title></circle>\n", xml_escaped(tooltip));
}

void SvgCanvas::grid_line(double x1, double y1, double x2, double y2) {
  body_ += fmt::format(R"(<line x1="{:.2f}" y1="{:.2f}" x2="{:.2f}" y2="{:.2f}" class="grid"/>)"
                       "\n",
                       x1, y1, x2, y2);
}

void SvgCanvas::reference_line(double x1, double y1, double x2, double y2) {
  body_ +=
      fmt::format(R"(<line x1="{:.2f}" y1="{:.2f}" x2="{:.2f}" y2="{:.2f}" class="reference"/>)"
                  "\n",
                  x1, y1, x2, y2);
}

void SvgCanvas::text(double x, double y, std::string_view text, TextStyle style, Anchor anchor,
                     double degrees) {
  const StyleOfText look = style_of(style);
  const std::string turn =
      degrees == 0
          ? std::string()
          : fmt::format(R"svg( transform="rotate({:.0f} {:.2f} {:.2f})")svg", degrees, x, y);
  body_ += fmt::format(
      R"(<text x="{:.2f}" y="{:.2f}" font-size="{:.0f}" font-weight="{}" text-anchor="{}" )"
      R"(class="{}"{}>{}</text>)"
      "\n",
      x, y, look.size, look.weight, to_string(anchor), look.css_class, turn, xml_escaped(text));
}

std::string SvgCanvas::document(double height, std::string_view title) const {
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" )"
      R"(height="{1:.0f}" role="img">)"
      "\n<title>{2}</title>\n<style>{3}</style>\n"
      R"(<rect width="{0:.0f}" height="{1:.0f}" class="ground"/>)"
      "\n{4}</svg>\n",
      width_, height, xml_escaped(title), style_sheet, body_);
}

double draw_legend(SvgCanvas& canvas, double x, double y, double width, const std::string* names,
                   std::size_t count) {
  constexpr double line = 18, box = 10, gap = 18;
  double at = x, top = y;
  for (std::size_t i = 0; i < count; ++i) {
    const double needed = box + 5 + text_width(names[i], small_size);
    if (at > x && at + needed > x + width) {
      at = x;
      top += line;
    }
    canvas.box(at, top + 4, box, box, i);
    canvas.text(at + box + 5, top + 13, names[i], TextStyle::small);
    at += needed + gap;
  }
  return count == 0 ? 0 : top - y + line;
}

}  // namespace plumb::app
