use std::num::NonZeroU32;

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Fast,
    Exact,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only how it deserializes matters")]
struct Inner {
    x: u8,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only how it deserializes matters")]
struct Sample {
    name: String,
    count: NonZeroU32,
    share: Option<f32>,
    mode: Mode,
    #[serde(default)]
    regions: Vec<String>,
    #[serde(default)]
    limits: BTreeMap<String, u64>,
    #[serde(default)]
    inner: Option<Inner>,
    #[serde(default)]
    rest: Value,
}

#[test]
fn a_derived_type_tells_its_fields_and_what_each_takes() {
    let fields = fields::<Sample>().expect("a struct");
    let expected = [
        ("name", Shape::Text),
        ("count", Shape::Unsigned),
        ("share", Shape::Number),
        ("mode", Shape::Words(vec![("fast", Shape::Unit), ("exact", Shape::Unit)])),
        ("regions", Shape::List(Box::new(Shape::Text))),
        ("limits", Shape::Map(Box::new(Shape::Unsigned))),
        ("inner", Shape::Struct(vec![("x", Shape::Unsigned)])),
        ("rest", Shape::Any),
    ];
    assert_eq!(fields, expected);
    assert_eq!(required::<Sample>(&fields), ["name".into(), "count".into(), "mode".into()]);
}

#[test]
fn a_type_that_is_no_struct_tells_nothing() {
    assert_eq!(fields::<BTreeMap<String, u8>>(), None);
    assert_eq!(fields::<Value>(), None);
}

#[derive(Deserialize)]
#[serde(transparent)]
#[expect(dead_code, reason = "only how it deserializes matters")]
struct Tree(BTreeMap<String, Tree>);

#[derive(Deserialize)]
#[expect(dead_code, reason = "only how it deserializes matters")]
struct Chain(Option<Box<Chain>>);

/// Takes whatever there is, even a refusal.
struct Lenient;

impl<'de> Deserialize<'de> for Lenient {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(u8::deserialize(deserializer).map_or(Self, |_| Self))
    }
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only how it deserializes matters")]
struct Endless {
    tree: Tree,
    chain: Option<Chain>,
    list: Vec<Lenient>,
    map: BTreeMap<String, Lenient>,
}

#[test]
fn a_type_without_end_is_looked_into_only_so_far() {
    let fields = fields::<Endless>().expect("a struct");
    assert!(matches!(&fields[0], ("tree", Shape::Map(inner)) if matches!(&**inner, Shape::Map(_))));
    assert_eq!(fields[1], ("chain", Shape::Any));
    assert_eq!(fields[2], ("list", Shape::List(Box::new(Shape::Unsigned))));
    assert_eq!(fields[3], ("map", Shape::Map(Box::new(Shape::Unsigned))));
    assert_eq!(required::<Endless>(&fields), ["tree".into(), "list".into(), "map".into()]);
}
