//! The models of a gateway as OpenAI's API lists them, all of them or one.

use std::borrow::Cow;

/// The list of models of these names.
///
/// # Examples
///
/// ```
/// use pointsman::{model_list, model_object};
///
/// let list = model_list(["org/model"]);
/// assert_eq!(list, format!(r#"{{"object":"list","data":[{}]}}"#, model_object("org/model")));
/// ```
#[must_use]
pub fn model_list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let mut json = r#"{"object":"list","data":["#.to_owned();
    for (at, name) in names.into_iter().enumerate() {
        json.push_str(if at == 0 { "" } else { "," });
        json.push_str(&model_object(name));
    }
    json.push_str("]}");
    json
}

/// One model.
#[must_use]
pub fn model_object(name: &str) -> String {
    let mut json = r#"{"id":"#.to_owned();
    json_edit::write_string(name, &mut json);
    json.push_str(r#","object":"model","created":0,"owned_by":"pointsman"}"#);
    json
}

/// The name of the model that a path asks about, as in `/v1/models/org/model`: without its percent signs, and with what slashes it
/// has. None if the path is another.
#[must_use]
pub fn model_of_path(path: &str) -> Option<Cow<'_, str>> {
    let name = path.strip_prefix("/v1/models/").filter(|name| !name.is_empty())?;
    if !name.contains('%') {
        return Some(Cow::Borrowed(name));
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(name.len()), name.as_bytes());
    while let [first, after @ ..] = rest {
        let escaped = after.get(..2).filter(|_| *first == b'%').and_then(|digits| {
            let digits = std::str::from_utf8(digits)
                .ok()
                .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
            u8::from_str_radix(digits, 16).ok()
        });
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    Some(Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_slashes_and_escapes_are_found() {
        for (path, name) in [
            ("/v1/models/sim", Some("sim")),
            ("/v1/models/org/model", Some("org/model")),
            ("/v1/models/org%2Fmodel%3a1", Some("org/model:1")),
            ("/v1/models/100%", Some("100%")),
            ("/v1/models/a%zz%+1b", Some("a%zz%+1b")),
            ("/v1/models/", None),
            ("/v1/models", None),
            ("/v1/modelsx", None),
        ] {
            assert_eq!(model_of_path(path).as_deref(), name, "{path}");
        }
    }
}
