//! HTML escaping.
//!
//! The rule: text of others goes through [`escaped`] before it stands in a page, in a picture, or in an attribute.

/// For tests of whatever writes markup.
pub use pointsman_test_support::markup::fault;

/// The text with every character replaced that means something in markup.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // No markup may hold them, escaped or not.
            char if char.is_control() && !matches!(char, '\n' | '\t' | '\r') => out.push('\u{fffd}'),
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_made_harmless() {
        let nasty = "<b onclick='x()'>\"A & B\"</b>\u{0}\u{8}";
        let safe = escaped(nasty);
        assert_eq!(safe, "&lt;b onclick=&#39;x()&#39;&gt;&quot;A &amp; B&quot;&lt;/b&gt;\u{fffd}\u{fffd}");
        assert_eq!(fault(&format!("<p title=\"{safe}\">{safe}</p>")), None);
        assert_eq!(escaped("plain ÷ text"), "plain ÷ text");
    }
}
