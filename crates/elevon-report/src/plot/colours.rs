//! The colours of heat maps: viridis, whose lightness grows evenly with the value. So it is right
//! for colour-blind readers and in grey, on light and dark pages. (S. van der Walt, N. Smith: the
//! default colour map of matplotlib, 2015.) Its darkest part is left out: a lone cell in it would
//! not be seen on a dark page.

/// Colours at equal distances, from the smallest value to the largest: red, green and blue.
const STEPS: [[u8; 3]; 8] = [
    [0x3e, 0x4a, 0x89],
    [0x31, 0x68, 0x8e],
    [0x26, 0x82, 0x8e],
    [0x1f, 0x9e, 0x89],
    [0x35, 0xb7, 0x79],
    [0x6d, 0xcd, 0x59],
    [0xb4, 0xde, 0x2c],
    [0xfd, 0xe7, 0x25],
];

/// Returns the colour of a share from 0 to 1.
fn colour(share: f64) -> [u8; 3] {
    let at = share.clamp(0.0, 1.0) * (STEPS.len() - 1) as f64;
    let (step, rest) = ((at as usize).min(STEPS.len() - 2), at);
    let rest = rest - step as f64;
    let mix = |from: u8, to: u8| f64::from(from).mul_add(1.0 - rest, f64::from(to) * rest) as u8;
    std::array::from_fn(|part| mix(STEPS[step][part], STEPS[step + 1][part]))
}

/// Returns the colour of a share from 0 to 1 as HTML writes it.
pub(super) fn hex(share: f64) -> String {
    let [red, green, blue] = colour(share);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Returns the colour of text on the colour of a share: white on dark, black on light.
pub(super) const fn text_on(share: f64) -> &'static str {
    if share < 0.4 { "#fff" } else { "#000" }
}

/// Returns a script that defines `heatColour(share)`, an array of red, green and blue, and
/// `heatScale`, which draws a bar of the colours with its ends.
pub(crate) fn script() -> String {
    format!("'use strict';\nconst HEAT_STEPS = {STEPS:?};\n{}", include_str!("colours.js"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance of a colour, 0 to 1. Source: WCAG 2.2.
    fn luminance(colour: [u8; 3]) -> f64 {
        let linear = colour.map(|part| {
            let part = f64::from(part) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    #[test]
    fn a_larger_value_is_lighter_and_text_on_it_is_readable() {
        let all: Vec<f64> = (0..=100).map(|at| luminance(colour(f64::from(at) / 100.0))).collect();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}");
        for (at, own) in all.iter().enumerate() {
            let contrast = match text_on(at as f64 / 100.0) {
                "#fff" => 1.05 / (own + 0.05),
                _ => (own + 0.05) / 0.05,
            };
            assert!(contrast >= 3.0, "{at}: {contrast}");
        }
    }
}
