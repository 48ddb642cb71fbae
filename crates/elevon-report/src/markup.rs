//! Text as it stands in pages and in drawings.

use maud::{Markup, PreEscaped};

/// Escapes text for a page. In addition to what `maud` escapes, it replaces apostrophes and control
/// characters, as plots do.
pub(crate) fn text(text: &str) -> Markup {
    PreEscaped(escape(text))
}

/// Escapes text for HTML and SVG, in content and in quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML does not allow control characters.
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
