use super::*;

fn parse(text: &str) -> Result<Object<'_>, JsonError> {
    Object::parse(text.as_bytes())
}

fn refused(text: &str) -> (usize, Expected) {
    let error = parse(text).expect_err(text);
    (error.at, error.expected)
}

#[test]
fn values_are_slices_of_the_text() {
    let object = parse(" {\"a\" : 1.50 , \"b\":[ 1,{\"c\":null} ],\"d\":{\"e\":\"x\\u0021\"}}\n").unwrap();
    assert_eq!(object.get("a").unwrap().as_bytes(), b"1.50");
    assert_eq!(object.get("b").unwrap().as_bytes(), b"[ 1,{\"c\":null} ]");
    let elements: Vec<_> = object.get("b").unwrap().array().unwrap().map(Raw::as_bytes).collect();
    assert_eq!(elements, [&b"1"[..], b"{\"c\":null}"]);
    assert_eq!(object.get_path(&["d", "e"]).unwrap().as_str().as_deref(), Some("x!"));
    assert_eq!(object.get_path(&["a", "e"]), None);
    assert_eq!(object.get_path(&[]), None);
    let names: Vec<_> = object.members().map(|member| member.name().unwrap()).collect();
    assert_eq!(names, ["a", "b", "d"]);
}

#[test]
fn a_name_is_what_it_says_however_it_is_written() {
    let object = parse(r#"{"mod\u0065l": 1, "\n": 2, "n": 3}"#).unwrap();
    let number = |name: &str| object.get(name).and_then(|value| value.as_u64());
    assert_eq!(
        ["model", "\n", "n", "\\n", "mod\\u0065l", "mode"].map(number),
        [Some(1), Some(2), Some(3), None, None, None]
    );
}

#[test]
fn kinds_and_readings_agree() {
    let object = parse(r#"{"n":null,"t":true,"i":18446744073709551615,"m":-1,"f":1e2,"s":"1","a":[],"o":{}}"#).unwrap();
    let kind = |name| object.get(name).unwrap().kind();
    let kinds = ["n", "t", "i", "m", "f", "s", "a", "o"].map(kind);
    let number = Kind::Number;
    assert_eq!(kinds, [Kind::Null, Kind::Bool, number, number, number, Kind::String, Kind::Array, Kind::Object]);
    let get = |name| object.get(name).unwrap();
    assert_eq!(["i", "m", "f", "s"].map(|name| get(name).as_u64()), [Some(u64::MAX), None, None, None]);
    assert_eq!(["m", "f", "s"].map(|name| get(name).as_f64()), [Some(-1.0), Some(100.0), None]);
    assert_eq!(["t", "s"].map(|name| get(name).as_bool()), [Some(true), None]);
    assert!(get("n").is_null() && !get("o").is_null());
    assert!(get("o").object().is_some() && get("a").object().is_none());
    assert!(get("a").array().is_some_and(|elements| elements.count() == 0) && get("o").array().is_none());
    assert_eq!(get("t").as_str(), None);
}

#[test]
fn of_members_of_one_name_the_last_counts() {
    let text = r#"{"a":1,"\u0061":2,"b":3}"#;
    assert_eq!(parse(text).unwrap().get("a").unwrap().as_bytes(), b"2");
    assert_eq!(Object::find(text.as_bytes(), "a").unwrap().unwrap().as_bytes(), b"2");
    assert_eq!(parse(text).unwrap().members().count(), 3);
}

#[test]
fn a_name_is_compared_without_its_escapes() {
    let object = parse(r#"{"a\\n":1,"a\n":2}"#).unwrap();
    assert_eq!(object.get("a\\n").unwrap().as_bytes(), b"1");
    assert_eq!(object.get("a\n").unwrap().as_bytes(), b"2");
}

#[test]
fn half_a_surrogate_pair_is_passed_on_and_has_no_text() {
    let object = parse(r#"{"\ud800":1,"a":"\udfff"}"#).unwrap();
    assert_eq!(object.members().next().unwrap().name(), None);
    assert_eq!(object.get("a").unwrap().as_str(), None);
    assert_eq!(Edit::new(object).remove("b").finish(), object.as_bytes());
}

#[test]
fn errors_say_where_and_what() {
    assert_eq!(refused(""), (0, Expected::Object));
    assert_eq!(refused("[]"), (0, Expected::Object));
    assert_eq!(refused("{"), (1, Expected::NameOrBrace));
    assert_eq!(refused("{1:2}"), (1, Expected::NameOrBrace));
    assert_eq!(refused("{\"a\":[{x"), (7, Expected::NameOrBrace));
    assert_eq!(refused("{\"a\":1,}"), (7, Expected::Name));
    assert_eq!(refused("{\"a\" 1}"), (5, Expected::Colon));
    assert_eq!(refused("{\"a\":}"), (5, Expected::Value));
    assert_eq!(refused("{\"a\":tru}"), (5, Expected::Value));
    assert_eq!(refused("{\"a\":1 2}"), (7, Expected::CommaOrBrace));
    assert_eq!(refused("{\"a\":[1}"), (7, Expected::CommaOrBracket));
    assert_eq!(refused("{\"a\":\"b"), (7, Expected::Quote));
    assert_eq!(refused("{\"a\":\"\n\"}"), (6, Expected::Quote));
    assert_eq!(refused("{\"a\":\"\\x\"}"), (7, Expected::Escape));
    assert_eq!(refused("{\"a\":\"\\u12g4\"}"), (10, Expected::HexDigit));
    assert_eq!(refused("{\"a\":-}"), (6, Expected::Digit));
    assert_eq!(refused("{\"a\":1.}"), (7, Expected::Digit));
    assert_eq!(refused("{\"a\":1e+}"), (8, Expected::Digit));
    assert_eq!(refused("{\"a\":01}"), (6, Expected::CommaOrBrace));
    assert_eq!(refused("{} {"), (3, Expected::End));
    let error = Object::parse(b"{\"a\":\"\xff\"}").expect_err("no text");
    assert_eq!((error.at, error.expected), (6, Expected::Utf8));
    assert_eq!(error.to_string(), "expected valid utf-8 at byte 6");
}

#[test]
fn nesting_ends_at_the_limit() {
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    assert!(parse(&nested(MAX_DEPTH)).is_ok());
    assert_eq!(refused(&nested(MAX_DEPTH + 1)), (5 + MAX_DEPTH - 1, Expected::LessDepth));
    let array = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(Raw::parse(array(MAX_DEPTH).as_bytes()).is_ok());
    assert!(Raw::parse(array(MAX_DEPTH + 1).as_bytes()).is_err());
}

#[test]
fn edits_keep_what_they_do_not_touch() {
    let edit = |text: &'static str| Edit::new(parse(text).unwrap());
    let spaced = "\n{ \"a\" : 1.0 ,\n  \"b\":\"\\u0041\" , \"c\": {} }\t";
    assert_eq!(edit(spaced).finish(), spaced.as_bytes());
    assert_eq!(edit(spaced).set("a", 2).finish(), b"\n{ \"a\" : 2 ,\n  \"b\":\"\\u0041\" , \"c\": {} }\t");
    assert_eq!(edit(spaced).remove("a").finish(), b"\n{\n  \"b\":\"\\u0041\" , \"c\": {} }\t");
    assert_eq!(edit(spaced).remove("b").finish(), b"\n{ \"a\" : 1.0 , \"c\": {} }\t");
    assert_eq!(edit(spaced).remove("c").finish(), b"\n{ \"a\" : 1.0 ,\n  \"b\":\"\\u0041\" }\t");
    assert_eq!(edit(spaced).remove("a").remove("b").remove("c").finish(), b"\n{ }\t");
    let added = b"\n{ \"a\" : 1.0 ,\n  \"b\":\"\\u0041\" , \"c\": {},\"d\":true,\"e\\\"\":\"x\\n\" }\t";
    assert_eq!(edit(spaced).set("d", true).set("e\"", "x\n").finish(), added);
}

#[test]
fn new_members_go_into_empty_objects_too() {
    let edit = |text: &'static str| Edit::new(parse(text).unwrap()).set("a", 1).set("b", 2);
    assert_eq!(edit("{}").finish(), br#"{"a":1,"b":2}"#);
    assert_eq!(edit("{\n}").finish(), b"{\"a\":1,\"b\":2\n}");
    assert_eq!(edit("{\"c\":0}").remove("c").finish(), br#"{"a":1,"b":2}"#);
}

#[test]
fn a_changed_name_is_left_once() {
    let edit = || Edit::new(parse(r#"{"a":1, "b":0, "\u0061":2, "c":3}"#).unwrap());
    assert_eq!(edit().set("a", 9).finish(), br#"{ "b":0, "\u0061":9, "c":3}"#);
    assert_eq!(edit().remove("a").finish(), br#"{ "b":0, "c":3}"#);
    let nested = Edit::new(parse(r#"{"p":{"x":1},"p":{"y":2}}"#).unwrap());
    assert_eq!(nested.set_path(&["p", "x"], 3).finish(), br#"{"p":{"y":2,"x":3}}"#);
}

#[test]
fn nested_changes_make_objects_where_there_are_none() {
    let edit = |text: &'static str| Edit::new(parse(text).unwrap());
    let path = &["p", "q", "r"][..];
    assert_eq!(edit("{}").set_path(path, 1).finish(), br#"{"p":{"q":{"r":1}}}"#);
    assert_eq!(edit(r#"{"p":null,"z":0}"#).set_path(path, 1).finish(), br#"{"p":{"q":{"r":1}},"z":0}"#);
    assert_eq!(
        edit(r#"{"p": { "q": { "s":1 } } }"#).set_path(path, 1).finish(),
        br#"{"p": { "q": { "s":1,"r":1 } } }"#
    );
    assert_eq!(edit(r#"{"p":null}"#).remove_path(path).finish(), br#"{"p":null}"#);
    assert_eq!(edit("{}").remove_path(path).finish(), b"{}");
    assert_eq!(edit(r#"{"p":{"q":{"r":1}}}"#).remove_path(path).finish(), br#"{"p":{"q":{}}}"#);
    assert_eq!(edit("{}").set_path(&[], 1).remove_path(&[]).finish(), b"{}");
}

#[test]
fn later_changes_see_earlier_ones() {
    let edit = || Edit::new(parse(r#"{"p":{"x":1}}"#).unwrap());
    let value = Fragment::object([("y", 2.into())]);
    assert_eq!(edit().set("p", value.clone()).set_path(&["p", "x"], 3).finish(), br#"{"p":{"y":2,"x":3}}"#);
    assert_eq!(edit().set("p", value.clone()).remove_path(&["p", "y"]).finish(), br#"{"p":{}}"#);
    assert_eq!(edit().remove("p").set_path(&["p", "z"], 3).finish(), br#"{"p":{"z":3}}"#);
    assert_eq!(edit().remove("p").remove_path(&["p", "z"]).finish(), b"{}");
    assert_eq!(edit().set_path(&["p", "z"], 3).set("p", 4).finish(), br#"{"p":4}"#);
    assert_eq!(edit().set("n", 1).remove("n").finish(), br#"{"p":{"x":1}}"#);
}

#[test]
fn contents_do_not_show() {
    let object = parse(r#"{"secret":"s"}"#).unwrap();
    assert!(!format!("{object:?} {:?}", object.members().next()).contains("secret"));
}
