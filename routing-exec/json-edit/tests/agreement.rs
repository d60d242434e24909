//! JSON read and edited in place, held against serde_json.

use json_edit::{Edit, Fragment, Object, Raw};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value};

fn space() -> impl Strategy<Value = &'static str> {
    select(vec!["", "", "", " ", "\n", "\t\r\n  "])
}

/// A string in quotes, in which any character may be escaped.
fn string() -> impl Strategy<Value = String> {
    let character = prop_oneof![any::<char>(), select(vec!['"', '\\', '/', '\n', '\0', 'n', 'u', 'é', '😀'])];
    let spelled = (character, any::<bool>()).prop_map(|(character, by_number)| {
        if by_number {
            let mut units = [0; 2];
            return character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect();
        }
        let quoted = serde_json::to_string(&character).expect("a string");
        quoted[1..quoted.len() - 1].to_owned()
    });
    vec(spelled, 0..40).prop_map(|characters: Vec<String>| format!("\"{}\"", characters.concat()))
}

/// A name that often comes again, spelled in different ways.
fn name() -> impl Strategy<Value = String> {
    let known = vec![r#""a""#, r#""\u0061""#, r#""b""#, r#""\n""#, r#""""#, r#""\\n""#, r#""é""#, r#""\u00E9""#];
    prop_oneof![3 => select(known).prop_map(str::to_owned), 1 => string()]
}

fn number() -> impl Strategy<Value = String> {
    "-?(0|[1-9][0-9]{0,18})(\\.[0-9]{1,4})?([eE][+-]?[0-9]{1,2})?"
}

/// The members of an object as they are written, and the whole of it.
#[derive(Clone, Debug)]
struct Written {
    members: Vec<(String, String)>,
    text: String,
}

fn object(value: BoxedStrategy<String>) -> impl Strategy<Value = Written> {
    let member = (name(), value, [space(), space(), space(), space()]);
    (vec(member, 0..6), space()).prop_map(|(members, empty)| {
        let text = |(name, value, [a, b, c, d]): &(String, String, [&str; 4])| format!("{a}{name}{b}:{c}{value}{d}");
        let inner =
            if members.is_empty() { empty.to_owned() } else { members.iter().map(text).collect::<Vec<_>>().join(",") };
        let members = members.into_iter().map(|(name, value, _)| (name, value)).collect();
        Written { members, text: format!("{{{inner}}}") }
    })
}

fn value() -> BoxedStrategy<String> {
    let word = select(vec!["null", "true", "false"]).prop_map(str::to_owned);
    let leaf = prop_oneof![word, number(), string()];
    leaf.prop_recursive(4, 40, 6, |value| {
        let elements = vec((value.clone(), space(), space()), 0..6).prop_map(|elements| {
            let text = |(value, before, after): &(String, &str, &str)| format!("{before}{value}{after}");
            format!("[{}]", elements.iter().map(text).collect::<Vec<_>>().join(","))
        });
        prop_oneof![elements, object(value).prop_map(|object| object.text)]
    })
    .boxed()
}

fn body() -> impl Strategy<Value = Written> {
    (object(value()), space(), space())
        .prop_map(|(object, before, after)| Written { text: format!("{before}{}{after}", object.text), ..object })
}

/// What serde_json makes of a value.
fn tree(raw: Raw<'_>) -> Value {
    serde_json::from_slice(raw.as_bytes()).expect("a value")
}

/// A value, read by this crate alone.
fn reread(raw: Raw<'_>) -> Value {
    if let Some(object) = raw.object() {
        let member =
            |member: json_edit::Member<'_>| (member.name().expect("text").into_owned(), reread(member.value()));
        return Value::Object(object.members().map(member).collect());
    }
    if let Some(elements) = raw.array() {
        return Value::Array(elements.map(reread).collect());
    }
    match (raw.as_str(), raw.as_bool(), raw.as_u64(), raw.as_f64()) {
        (Some(text), ..) => Value::from(text),
        (_, Some(truth), ..) => Value::from(truth),
        (_, _, Some(number), _) => Value::from(number),
        // Whole numbers below zero and others are told apart as serde_json does.
        (.., Some(number)) => tree(raw).as_i64().map_or_else(|| Value::from(number), Value::from),
        _ => Value::Null,
    }
}

/// Whether serde_json takes a text for an object, whatever its numbers and surrogates stand for.
fn is_object(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let begins = text.trim_start_matches([' ', '\n', '\r', '\t']).starts_with('{');
    begins && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Members come in their order, each as it was written, and mean what serde_json says.
    #[test]
    fn members_are_those_that_were_written(body in body()) {
        let object = Object::parse(body.text.as_bytes()).expect("an object");
        let whole: Map<String, Value> = serde_json::from_str(&body.text).expect("an object");
        let members: Vec<_> = object.members().collect();
        prop_assert_eq!(members.len(), body.members.len());
        for (member, (name, value)) in members.iter().zip(&body.members) {
            let name: String = serde_json::from_str(name).expect("a string");
            prop_assert!(member.name().is_some_and(|found| found == name));
            prop_assert!(member.is(&name));
            prop_assert_eq!(member.value().as_bytes(), value.as_bytes());
            prop_assert_eq!(object.get(&name).map(tree), whole.get(&name).cloned());
            prop_assert_eq!(Object::find(body.text.as_bytes(), &name), Ok(object.get(&name)));
        }
        prop_assert_eq!(object.get("none such"), None);
        prop_assert_eq!(reread(Raw::parse(body.text.as_bytes()).expect("a value")), Value::Object(whole));
    }

    /// What a client may get wrong is refused exactly where serde_json refuses it.
    #[test]
    fn damaged_texts_are_taken_as_serde_json_takes_them(
        body in body(),
        damage in vec((any::<Index>(), 0..3, select(b"{}[]:,\"\\u0a1-+.eEtn \n\x1f\x80\xc3".to_vec())), 0..4),
    ) {
        let mut text = body.text.into_bytes();
        for (at, how, byte) in damage {
            let at = at.index(text.len() + 1);
            match how {
                0 => text.insert(at, byte),
                1 if at < text.len() => text[at] = byte,
                _ => text.truncate(text.len() - usize::from(at < text.len())),
            }
        }
        prop_assert_eq!(Object::parse(&text).is_ok(), is_object(&text), "{:?}", String::from_utf8_lossy(&text));
    }

    /// Bytes that mean nothing are refused like any other, without a panic.
    #[test]
    fn any_bytes_are_answered(text in vec(prop_oneof![any::<u8>(), select(b"{}[]:,\"\\u01.e- ".to_vec())], 0..40)) {
        prop_assert_eq!(Object::parse(&text).is_ok(), is_object(&text));
        if let Err(error) = Object::parse(&text) {
            prop_assert!(error.at <= text.len());
        }
        let mut inner = b"{\"a\":".to_vec();
        inner.extend(&text);
        inner.push(b'}');
        prop_assert_eq!(Object::parse(&inner).is_ok(), is_object(&inner));
    }
}

/// A change: where, and to what.
type Change = (Vec<&'static str>, Option<String>);

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let path = vec(select(vec!["a", "b", "\n", "é", "new"]), 1..4);
    vec((path, proptest::option::of(value())), 0..6)
}

/// The same change to a tree.
fn change(tree: &mut Map<String, Value>, path: &[&str], to: Option<&Value>) {
    let (name, inner) = path.split_first().expect("a path");
    match (inner.is_empty(), to) {
        (true, Some(value)) => drop(tree.insert((*name).to_owned(), value.clone())),
        (true, None) => drop(tree.remove(*name)),
        (false, _) => {
            if to.is_some() && !tree.get(*name).is_some_and(Value::is_object) {
                tree.insert((*name).to_owned(), Value::Object(Map::new()));
            }
            if let Some(Value::Object(inside)) = tree.get_mut(*name) {
                change(inside, inner, to);
            }
        }
    }
}

/// The members whose names are not among these, as they are written.
fn others<'a>(object: Object<'a>, names: &[&str]) -> Vec<(Option<String>, &'a [u8])> {
    let is_other = |member: &json_edit::Member<'_>| !names.iter().any(|name| member.is(name));
    object.members().filter(is_other).map(|m| (m.name().map(Into::into), m.value().as_bytes())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// An edit is what it would be on a tree, and leaves all else as it was written.
    #[test]
    fn edits_are_those_of_a_tree(body in body(), changes in changes()) {
        let object = Object::parse(body.text.as_bytes()).expect("an object");
        let mut expected: Map<String, Value> = serde_json::from_str(&body.text).expect("an object");
        let mut edit = Edit::new(object);
        for (path, to) in &changes {
            let raw = to.as_ref().map(|text| Raw::parse(text.as_bytes()).expect("a value"));
            change(&mut expected, path, raw.map(tree).as_ref());
            edit = match raw {
                Some(raw) => edit.set_path(path, raw),
                None => edit.remove_path(path),
            };
        }
        let edited = edit.finish();
        let found: Value = serde_json::from_slice(&edited).expect("JSON");
        prop_assert_eq!(found, Value::Object(expected));

        let after = Object::parse(&edited).expect("an object");
        let changed: Vec<&str> = changes.iter().map(|(path, _)| path[0]).collect();
        prop_assert_eq!(others(after, &changed), others(object, &changed));
        for name in &changed {
            prop_assert!(after.members().filter(|member| member.is(name)).count() <= 1);
        }
        if changes.is_empty() {
            prop_assert_eq!(&edited, body.text.as_bytes());
        }
    }

    /// Removing what was added gives back the very bytes.
    #[test]
    fn what_was_added_can_be_taken_back(body in body(), value in value()) {
        let object = Object::parse(body.text.as_bytes()).expect("an object");
        prop_assume!(object.get("added").is_none());
        let value = Raw::parse(value.as_bytes()).expect("a value");
        let more = Edit::new(object).set("added", value).finish();
        let back = Edit::new(Object::parse(&more).expect("an object")).remove("added").finish();
        prop_assert_eq!(String::from_utf8_lossy(&back), body.text);
    }

    /// A written string is read as it was.
    #[test]
    fn strings_survive(text in any::<String>()) {
        let fragment = Fragment::from(&*text);
        prop_assert!(fragment.as_raw().as_str().is_some_and(|found| found == text));
        prop_assert_eq!(serde_json::from_str::<String>(fragment.as_str()).expect("a string"), text);
    }
}
