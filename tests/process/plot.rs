//! Curves as SVG.

use std::fmt::Write as _;

/// A curve: its name, its colour, and its points. `None` breaks the line.
pub(crate) struct Curve<'a> {
    pub(crate) name: &'a str,
    pub(crate) colour: &'a str,
    pub(crate) points: Vec<(f64, Option<f64>)>,
}

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 180.0;
const LEFT: f64 = 60.0;

/// One panel below the other, each from zero to its largest value, over the same time.
pub(crate) fn svg(title: &str, panels: &[(&str, Vec<Curve<'_>>)]) -> String {
    let all = panels.iter().flat_map(|(_, curves)| curves).flat_map(|curve| &curve.points);
    let longest = all.map(|(x, _)| *x).fold(1.0, f64::max);
    let height = 40.0 + panels.len() as f64 * (HEIGHT + 50.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"20\" font-size=\"15\">{title}</text>\n",
        WIDTH + LEFT + 20.0
    );
    for (place, (name, curves)) in panels.iter().enumerate() {
        let top = 55.0 + place as f64 * (HEIGHT + 50.0);
        let values = curves.iter().flat_map(|curve| &curve.points).filter_map(|(_, y)| *y);
        let most = values.fold(1.0, f64::max) * 1.1;
        let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{}\">{name}</text>", top - 8.0);
        for part in 0..=4 {
            let part = f64::from(part) / 4.0;
            let y = top + HEIGHT * (1.0 - part);
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {y:.1}h{WIDTH}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{:.0}</text>",
                LEFT - 6.0,
                y + 4.0,
                most * part
            );
            let x = LEFT + WIDTH * part;
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.0} s</text>",
                top + HEIGHT + 16.0,
                longest * part
            );
        }
        for (nth, curve) in curves.iter().enumerate() {
            let mut path = String::new();
            let mut pen = 'M';
            for (x, y) in &curve.points {
                let Some(y) = y else {
                    pen = 'M';
                    continue;
                };
                let _ = write!(path, "{pen}{:.1} {:.1}", LEFT + WIDTH * x / longest, top + HEIGHT * (1.0 - y / most));
                pen = 'L';
            }
            let _ =
                writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>", curve.colour);
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\" fill=\"{}\">{}</text>",
                LEFT + WIDTH - 300.0 + 100.0 * nth as f64,
                top - 8.0,
                curve.colour,
                curve.name
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

#[test]
fn a_gap_breaks_the_line() {
    let points = vec![(0.0, Some(1.0)), (1.0, None), (2.0, Some(2.0))];
    let drawn = svg("T", &[("P", vec![Curve { name: "c", colour: "red", points }])]);
    assert_eq!(drawn.matches("fill=\"none\"").count(), 1);
    let path = drawn.split("d=\"M60.0").nth(1).unwrap().split('"').next().unwrap();
    assert!(path.contains('M') && !path.contains('L'), "{path}");
}
