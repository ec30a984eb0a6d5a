#include "tools/trainer/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace muonshard {
namespace {

constexpr double kWidth = 800;
constexpr double kHeight = 480;
constexpr double kLeft = 70;
constexpr double kRight = 780;
constexpr double kTop = 50;
constexpr double kBottom = 420;
constexpr int kTicks = 6;

std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

// A round number of which about `kTicks` fit into `range`.
double TickDistance(double range) {
  const double raw = range / kTicks;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) return factor * power;
  }
  return 10 * power;
}

class Axes {
 public:
  Axes(double steps, double loss_min, double loss_max)
      : steps_(steps), loss_min_(loss_min), loss_max_(loss_max) {}

  double X(double step) const {
    return kLeft + (kRight - kLeft) * step / steps_;
  }
  double Y(double loss) const {
    return kBottom -
           (kBottom - kTop) * (loss - loss_min_) / (loss_max_ - loss_min_);
  }

  void Draw(std::string& svg) const {
    const double loss_distance = TickDistance(loss_max_ - loss_min_);
    for (double loss = std::ceil(loss_min_ / loss_distance) * loss_distance;
         loss <= loss_max_; loss += loss_distance) {
      Line(svg, kLeft, Y(loss), kRight, Y(loss), "#ddd");
      absl::StrAppendFormat(
          &svg, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
          kLeft - 8, Y(loss) + 4, loss);
    }
    const double step_distance = std::max(1.0, TickDistance(steps_));
    for (double step = 0; step <= steps_; step += step_distance) {
      Line(svg, X(step), kBottom, X(step), kBottom + 5, "#000");
      absl::StrAppendFormat(
          &svg,
          "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g</text>\n",
          X(step), kBottom + 20, step);
    }
    Line(svg, kLeft, kTop, kLeft, kBottom, "#000");
    Line(svg, kLeft, kBottom, kRight, kBottom, "#000");
    absl::StrAppendFormat(
        &svg,
        "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">step</text>\n"
        "<text x=\"20\" y=\"%.1f\" text-anchor=\"middle\" "
        "transform=\"rotate(-90 20 %.1f)\">loss, nats per byte</text>\n",
        (kLeft + kRight) / 2, kBottom + 42, (kTop + kBottom) / 2,
        (kTop + kBottom) / 2);
  }

 private:
  static void Line(std::string& svg, double x1, double y1, double x2, double y2,
                   absl::string_view color) {
    absl::StrAppendFormat(&svg,
                          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
                          "y2=\"%.1f\" stroke=\"%s\"/>\n",
                          x1, y1, x2, y2, color);
  }

  const double steps_;
  const double loss_min_;
  const double loss_max_;
};

void DrawCurve(const Axes& axes, const std::vector<double>& losses,
               absl::string_view style, std::string& svg) {
  absl::StrAppend(&svg, "<polyline fill=\"none\" ", style, " points=\"");
  for (size_t i = 0; i < losses.size(); ++i) {
    if (!std::isfinite(losses[i])) continue;
    absl::StrAppendFormat(&svg, "%.1f,%.1f ",
                          axes.X(static_cast<double>(i + 1)),
                          axes.Y(losses[i]));
  }
  absl::StrAppend(&svg, "\"/>\n");
}

void DrawHeldOut(const Axes& axes, double step, double loss,
                 absl::string_view anchor, std::string& svg) {
  if (!std::isfinite(loss)) return;
  absl::StrAppendFormat(
      &svg,
      "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"#c33\"/>\n"
      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"#c33\">held-out "
      "%.3f</text>\n",
      axes.X(step), axes.Y(loss), axes.X(step) + (anchor == "end" ? -10 : 10),
      axes.Y(loss) - 20, anchor, loss);
}

std::vector<double> RunningMean(const std::vector<double>& values) {
  const size_t reach = std::max<size_t>(1, values.size() / 40);
  std::vector<double> means;
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += values[i];
    if (i >= reach) sum -= values[i - reach];
    means.push_back(sum / static_cast<double>(std::min(i + 1, reach)));
  }
  return means;
}

}  // namespace

std::string LossPlotSvg(absl::string_view title, const TrainResult& result) {
  std::vector<double> losses;
  for (const StepMeans& step : result.steps) losses.push_back(step.loss);
  std::vector<double> shown = {result.held_out_loss_first,
                               result.held_out_loss_last};
  shown.insert(shown.end(), losses.begin(), losses.end());
  std::erase_if(shown, [](double loss) { return !std::isfinite(loss); });
  if (shown.empty()) shown = {0};
  const auto [low_at, high_at] =
      std::minmax_element(shown.begin(), shown.end());
  const double low = *low_at;
  const double high = *high_at;
  const double margin = std::max(0.05, 0.05 * (high - low));
  const auto steps = std::max(1.0, static_cast<double>(losses.size()));
  const Axes axes(steps, low - margin, high + margin);

  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" "
      "viewBox=\"0 0 %g %g\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
      "<text x=\"%g\" y=\"28\" font-size=\"16\">%s</text>\n",
      kWidth, kHeight, kWidth, kHeight, kLeft, Escaped(title));
  axes.Draw(svg);
  DrawCurve(axes, losses, "stroke=\"#9bd\"", svg);
  DrawCurve(axes, RunningMean(losses), "stroke=\"#036\" stroke-width=\"2\"",
            svg);
  DrawHeldOut(axes, 0, result.held_out_loss_first, "start", svg);
  DrawHeldOut(axes, steps, result.held_out_loss_last, "end", svg);
  absl::StrAppend(&svg, "</svg>\n");
  return svg;
}

}  // namespace muonshard
