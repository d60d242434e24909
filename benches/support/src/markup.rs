//! Well-formedness of markup, as XML would have it: for tests of whatever writes pages and pictures.

/// The first thing that is not well-formed, as XML would have it: a tag not closed in order, an attribute without
/// quotes, an ampersand that begins no entity.
#[must_use]
pub fn fault(markup: &str) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = markup.strip_prefix("<!DOCTYPE html>").unwrap_or(markup);
    while let Some(start) = rest.find('<') {
        if let Some(fault) = text_fault(&rest[..start]) {
            return Some(fault);
        }
        let Some(end) = rest[start..].find('>').map(|end| end + start) else {
            return Some(format!("a tag without an end: {}", &rest[start..]));
        };
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            match open.pop() {
                Some(opened) if opened == name => {}
                opened => return Some(format!("`{name}` is closed where {opened:?} is open")),
            }
            continue;
        }
        if let Some(fault) = tag_fault(tag) {
            return Some(fault);
        }
        if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap_or_default());
        }
    }
    text_fault(rest).or_else(|| (!open.is_empty()).then(|| format!("left open: {open:?}")))
}

fn tag_fault(tag: &str) -> Option<String> {
    let body = tag.strip_suffix('/').unwrap_or(tag);
    let (name, mut rest) = body.split_once(char::is_whitespace).unwrap_or((body, ""));
    let named = |name: &str| {
        !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '-' | ':'))
    };
    if !named(name) {
        return Some(format!("no name of a tag: `{tag}`"));
    }
    let mut seen: Vec<&str> = Vec::new();
    while !rest.trim_start().is_empty() {
        let Some((attribute, after)) = rest.trim_start().split_once("=\"") else {
            return Some(format!("an attribute without quotes: `{tag}`"));
        };
        let Some((value, after)) = after.split_once('"') else {
            return Some(format!("an attribute without an end: `{tag}`"));
        };
        if !named(attribute) || seen.contains(&attribute) || value.contains('<') {
            return Some(format!("a wrong attribute `{attribute}`: `{tag}`"));
        }
        if let Some(fault) = text_fault(value) {
            return Some(fault);
        }
        seen.push(attribute);
        rest = after;
    }
    None
}

fn text_fault(text: &str) -> Option<String> {
    let entity =
        |rest: &str| ["lt;", "gt;", "amp;", "quot;", "apos;", "#39;"].iter().any(|name| rest.starts_with(name));
    let bare = text.split('&').skip(1).find(|rest| !entity(rest));
    bare.map(|rest| format!("a bare ampersand before `{}`", rest.chars().take(20).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_found() {
        assert_eq!(fault("<!DOCTYPE html><a b=\"c\" d=\"e &lt; f\"><g/>text &amp; more<h x=\"1\"/></a>\n"), None);
        for wrong in [
            "<a>",
            "</a>",
            "<a><b></a></b>",
            "<a b=c></a>",
            "<a b=\"c></a>",
            "<a b=\"1\" b=\"2\"/>",
            "<a b/>",
            "a & b",
            "<a b=\"c & d\"/>",
            "< a/>",
            "<a",
        ] {
            assert!(fault(wrong).is_some(), "{wrong}");
        }
    }
}
