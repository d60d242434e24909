//! `docs/llmd_plugins.md` has every type, and says of each what the code does.

use std::collections::BTreeMap;

use pointsman_epp::picker_config::{PickerConfig, TypeSupport, plugin_types};

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
        text if text.starts_with("translated, not run") => TypeSupport::TranslatedAlone,
        _ => TypeSupport::Translated,
    };
    let documented: BTreeMap<&str, TypeSupport> = rows().map(|(name, text)| (name, said(text))).collect();
    assert_eq!(documented, plugin_types().collect());
    assert_eq!(rows().count(), plugin_types().count(), "each once");
}

/// What the README counts are those that are run.
#[test]
fn most_types_are_supported() {
    use TypeSupport::{Ignored, Refused, Translated, TranslatedAlone};
    let count = |support| plugin_types().filter(|(_, found)| *found == support).count();
    assert_eq!([Translated, TranslatedAlone, Ignored, Refused].map(count), [68, 1, 16, 12]);
    assert!(include_str!("../../../../README.md").contains("68 of its plugin types become stock plugins"));
}

#[test]
fn every_type_that_is_refused_names_the_nearest_as_the_table_does() {
    let table: BTreeMap<&str, &str> = rows().collect();
    for (name, _) in plugin_types().filter(|(_, support)| *support == TypeSupport::Refused) {
        let text = format!(
            "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{{type: queue-scorer}}, {{type: {name}}}]\n"
        );
        let error = PickerConfig::read(&text).unwrap_err().to_string();
        let nearest = error.split_once("comes nearest").and_then(|(before, _)| before.split('`').nth_back(1));
        let nearest = nearest.unwrap_or_else(|| panic!("{name}: {error}"));
        assert!(nearest.starts_with("--") || plugin_types().any(|(known, _)| known == nearest), "{name}: {nearest}");
        assert!(table[name].starts_with(&format!("not here: nearest `{nearest}`")), "{name}: {}", table[name]);
    }
}
