// A drawing of boxes, lines and text as SVG, with its own background and two sets of colours: a
// viewer in dark mode gets the dark ones.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace plumb::app {

/// Colours that tell series apart; further series begin again with the first.
inline constexpr std::size_t series_colours = 6;

/// `text` as the content of an XML element or attribute. What XML cannot hold (control characters,
/// bytes that are no UTF-8) becomes U+FFFD.
std::string xml_escaped(std::string_view text);

/// About how wide a viewer's sans-serif font draws UTF-8 text of `size` pixels; on the wide side.
double text_width(std::string_view text, double size);

/// `text`, or as much of its beginning and end as fit with an ellipsis between.
std::string shortened(std::string_view text, double size, double width);

/// A figure of a chart's axis or bar: three digits, no exponent where it can be helped.
std::string short_number(double value);

enum class Anchor { start, middle, end };

/// Text sizes, in pixels of a picture that is about as wide as a README's column.
inline constexpr double title_size = 16, label_size = 12, small_size = 11;

/// Styles of text.
enum class TextStyle {
  title,  ///< of the picture
  label,  ///< names of things
  small,  ///< figures
  muted,  ///< axes and remarks
};

struct Point {
  double x = 0, y = 0;
};

class SvgCanvas {
 public:
  explicit SvgCanvas(double width) : width_(width) {}

  double width() const { return width_; }
  /// A filled box in the colour of a series; `tooltip` is shown where the pointer rests on it.
  void box(double x, double y, double width, double height, std::size_t series,
           std::string_view tooltip = {});
  /// A line through the points in the colour of a series.
  void polyline(const std::vector<Point>& points, std::size_t series);
  /// A small disc; `tooltip` as of a box.
  void dot(const Point& centre, std::size_t series, std::string_view tooltip = {});
  /// A thin line of an axis or its grid.
  void grid_line(double x1, double y1, double x2, double y2);
  /// A dashed line that stands out.
  void reference_line(double x1, double y1, double x2, double y2);
  /// `y` is the text's baseline. `degrees` turn it around (x, y), clockwise.
  void text(double x, double y, std::string_view text, TextStyle style,
            Anchor anchor = Anchor::start, double degrees = 0);

  /// The whole document; `title` is what screen readers say.
  std::string document(double height, std::string_view title) const;

 private:
  double width_;
  std::string body_;
};

/// Names of series, each behind a box of its colour, in as many lines as they need. Returns the
/// height used.
double draw_legend(SvgCanvas& canvas, double x, double y, double width, const std::string* names,
                   std::size_t count);

}  // namespace plumb::app
