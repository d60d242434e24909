//! `docs/llmd_plugins.md` has every type, and says of each what the code does.

use std::collections::BTreeMap;

use pointsman_epp::picker_config::{TypeSupport, plugin_types};

const DOCS: &str = include_str!("../../../../docs/llmd_plugins.md");

/// The rows of the table of types: their first two columns.
fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    let table = DOCS.split("## Types").nth(1).and_then(|rest| rest.split("## Flow control").next()).unwrap();
    table.lines().filter(|line| line.starts_with("| `")).map(|line| {
        let mut columns = line.split('|').map(str::trim).skip(1);
        (columns.next().unwrap().trim_matches('`'), columns.next().unwrap())
    })
}

#[test]
fn the_table_says_what_becomes_of_every_type() {
    let said = |text: &str| match text {
        text if text.starts_with("warning") => TypeSupport::Ignored,
        text if text.starts_with("not here") => TypeSupport::Refused,
        _ => TypeSupport::Translated,
    };
    let documented: BTreeMap<&str, TypeSupport> = rows().map(|(name, text)| (name, said(text))).collect();
    assert_eq!(documented, plugin_types().collect());
    assert_eq!(rows().count(), plugin_types().count(), "each once");
}

#[test]
fn most_types_are_supported() {
    let count = |support| plugin_types().filter(|(_, found)| *found == support).count();
    let counts = [TypeSupport::Translated, TypeSupport::Ignored, TypeSupport::Refused].map(count);
    assert_eq!(counts, [68, 17, 12]);
}
