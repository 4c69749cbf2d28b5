//! A picture of what was measured: a panel for each figure, one below the other, with the outages as grey
//! bars.

use std::fmt::Write as _;

use super::samples::Series;
use super::slope::per_hour;

/// In pixels.
const WIDTH: f64 = 900.0;
const PANEL: f64 = 120.0;
const MARGIN: f64 = 60.0;
/// Room for a panel's heading.
const HEADING: f64 = 24.0;

/// The picture, as SVG.
pub(super) fn svg(title: &str, series: &[Series], outages: &[(f64, f64)]) -> String {
    let height = HEADING * 2.0 + PANEL * series.len() as f64;
    let longest = series.iter().filter_map(|series| series.points.last()).map(|point| point.0);
    let seconds = longest.fold(1.0, f64::max);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"18\" font-size=\"14\">{}</text>\n",
        escaped(title)
    );
    for (number, series) in series.iter().enumerate() {
        let top = HEADING * 2.0 + PANEL * number as f64;
        draw_panel(&mut svg, series, outages, top, seconds);
    }
    svg + "</svg>\n"
}

fn draw_panel(svg: &mut String, series: &Series, outages: &[(f64, f64)], top: f64, seconds: f64) {
    let (width, height) = (WIDTH - 2.0 * MARGIN, PANEL - HEADING - 8.0);
    let most = series.points.iter().map(|point| point.1).fold(0.0, f64::max);
    let scale = if most > 0.0 { most } else { 1.0 };
    let x = |time: f64| MARGIN + (time / seconds).min(1.0) * width;
    let y = |value: f64| top + height * (1.0 - value / scale);
    let slope = per_hour(&series.points).map_or_else(String::new, |slope| format!(", {slope:+.2} per hour"));
    let heading = format!("{} (at most {most:.1} {}{slope})", series.name, series.unit);
    for (from, to) in outages {
        let wide = (x(*to) - x(*from)).max(1.0);
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{height:.1}\" fill=\"#ddd\"/>",
            x(*from)
        );
    }
    let points = series.points.iter().map(|(time, value)| format!("{:.1},{:.1}", x(*time), y(*value)));
    let points = points.collect::<Vec<_>>().join(" ");
    let (left, right, bottom) = (MARGIN, WIDTH - MARGIN, top + height);
    let _ = write!(
        svg,
        "<text x=\"{left}\" y=\"{:.1}\">{}</text>\n\
         <line x1=\"{left}\" y1=\"{bottom:.1}\" x2=\"{right}\" y2=\"{bottom:.1}\" stroke=\"#888\"/>\n\
         <text x=\"{right}\" y=\"{bottom:.1}\" text-anchor=\"end\" dy=\"12\" font-size=\"10\">{:.1} min</text>\n\
         <polyline fill=\"none\" stroke=\"#06c\" stroke-width=\"1.5\" points=\"{points}\"/>\n",
        top - 5.0,
        escaped(&heading),
        seconds / 60.0,
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_drawn_within_its_panel() {
        let points = vec![(0.0, 10.0), (60.0, 20.0)];
        let series = Series { name: "a < b".to_owned(), unit: "MiB", points };
        let svg = svg("soak & more", &[series], &[(30.0, 45.0)]);
        assert!(svg.contains("soak &amp; more") && svg.contains("a &lt; b"), "{svg}");
        // The most is at the top of the panel, half of it in the middle, and the end at the right margin.
        assert!(svg.contains("points=\"60.0,92.0 840.0,48.0\""), "{svg}");
        assert!(svg.contains("x=\"450.0\" y=\"48.0\" width=\"195.0\""), "{svg}");
    }
}
