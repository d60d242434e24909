//! Strings with and without their escapes.

use std::borrow::Cow;

/// Appends a string in quotes, with what must be escaped escaped and all else as it is.
///
/// # Examples
///
/// ```
/// let mut json = String::new();
/// json_edit::write_string("say \"é\"\n", &mut json);
/// assert_eq!(json, r#""say \"é\"\n""#);
/// ```
pub fn write_string(text: &str, json: &mut String) {
    json.push('"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let short = match byte {
            b'"' => '"',
            b'\\' => '\\',
            b'\n' => 'n',
            b'\r' => 'r',
            b'\t' => 't',
            0x08 => 'b',
            0x0c => 'f',
            ..0x20 => 'u',
            _ => continue,
        };
        // All of these bytes are ASCII, so both ends are boundaries of characters.
        json.push_str(text.get(plain..at).unwrap_or_default());
        json.push('\\');
        json.push(short);
        if short == 'u' {
            json.push_str("00");
            json.extend([byte >> 4, byte & 15].into_iter().filter_map(|digit| char::from_digit(u32::from(digit), 16)));
        }
        plain = at + 1;
    }
    json.push_str(text.get(plain..).unwrap_or_default());
    json.push('"');
}

/// The text between two quotes without its escapes; `None` if it has half a surrogate pair.
pub(super) fn unescape(escaped: &str) -> Option<Cow<'_, str>> {
    let Some((plain, mut rest)) = escaped.split_once('\\') else { return Some(Cow::Borrowed(escaped)) };
    let mut text = String::with_capacity(escaped.len());
    text.push_str(plain);
    loop {
        let (escape, after) = rest.split_at_checked(1)?;
        let (character, after) = match escape {
            "b" => ('\u{8}', after),
            "f" => ('\u{c}', after),
            "n" => ('\n', after),
            "r" => ('\r', after),
            "t" => ('\t', after),
            "u" => scalar(after)?,
            // A quote, a backslash or a slash stands for itself.
            _ => (escape.chars().next()?, after),
        };
        text.push(character);
        match after.split_once('\\') {
            Some((plain, next)) => {
                text.push_str(plain);
                rest = next;
            }
            None => {
                text.push_str(after);
                return Some(Cow::Owned(text));
            }
        }
    }
}

/// The character of a `\u` escape, which may take a second one, and what follows.
fn scalar(digits: &str) -> Option<(char, &str)> {
    let (first, after) = unit(digits)?;
    if !(0xd800..0xdc00).contains(&first) {
        return Some((char::from_u32(first)?, after));
    }
    let (second, after) = unit(after.strip_prefix("\\u")?)?;
    let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
    Some((char::from_u32(0x10000 + ((first - 0xd800) << 10) + low)?, after))
}

fn unit(digits: &str) -> Option<(u32, &str)> {
    let (digits, after) = digits.split_at_checked(4)?;
    Some((u32::from_str_radix(digits, 16).ok()?, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read() {
        let text = unescape(r#"a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00z"#);
        assert_eq!(text.as_deref(), Some("a\"\\/\u{8}\u{c}\n\r\té😀z"));
        assert!(matches!(unescape("plain é"), Some(Cow::Borrowed("plain é"))));
    }

    #[test]
    fn half_a_surrogate_pair_is_no_text() {
        for half in [r"\ud83d", r"\ud83dx", r"\ud83d\n", r"\ud83d\u0041", r"\ude00", r"\ud83d\ud83d"] {
            assert_eq!(unescape(half), None, "{half}");
        }
    }

    #[test]
    fn every_character_is_written_as_serde_json_writes_it() {
        for character in (0..0x3000).filter_map(char::from_u32).chain(['😀', '\u{10ffff}']) {
            let text = format!("a{character}b");
            let mut json = String::new();
            write_string(&text, &mut json);
            assert_eq!(json, serde_json::to_string(&text).unwrap());
        }
    }
}
