//! What is refused while a document is read, and where each format says that it stands.
//!
//! YAML tells where the refused name or value begins, JSON where it ends, and TOML its span. What is missing is told at
//! the map that lacks it.

use crate::format::{self, Place, Refusal};
use crate::plugins::registry;
use crate::{JSON, TOML, YAML};

/// A change of the sample, the message that it leads to, and the places: YAML, JSON, TOML.
struct Case {
    changes: [(&'static str, &'static str); 3],
    text: &'static str,
    places: [(usize, usize); 3],
}

/// The same change in all formats.
const fn everywhere(from: &'static str, to: &'static str) -> [(&'static str, &'static str); 3] {
    [(from, to); 3]
}

const CASES: &[Case] = &[
    Case {
        changes: [
            ("profile: second", "profile: secnd"),
            ("\"profile\": \"second\"", "\"profile\": \"secnd\""),
            ("profile = \"second\"", "profile = \"secnd\""),
        ],
        text: "step `prefill` names profile `secnd`, which is not defined (did you mean `second`?)",
        places: [(30, 16), (39, 26), (50, 11)],
    },
    Case {
        changes: [
            ("plugin: gold", "plugin: glod"),
            ("\"plugin\": \"gold\"", "\"plugin\": \"glod\""),
            ("plugin = \"gold\"", "plugin = \"glod\""),
        ],
        text: "profile `first` names plugin `glod`, which is not defined (did you mean `gold`?)",
        places: [(18, 24), (21, 35), (27, 22)],
    },
    Case {
        changes: everywhere("prefix_search", "prefix_serch"),
        text: "unknown plugin type `prefix_serch` (did you mean `prefix_search`?)",
        places: [(2, 11), (3, 28), (2, 8)],
    },
    Case {
        changes: everywhere("elsewhere", "elsewere"),
        text: "plugin `near`: unknown parameter `elsewere` (did you mean `elsewhere`?)",
        places: [(10, 7), (10, 18), (14, 1)],
    },
    Case {
        changes: everywhere("0.25", "\"much\""),
        text: "plugin `near`: parameter `elsewhere`: invalid type: string \"much\", expected f32",
        places: [(10, 18), (10, 27), (14, 13)],
    },
    Case {
        changes: everywhere("lenient", "leniet"),
        text: "plugin `near`: parameter `mode`: unknown value `leniet` (did you mean `lenient`?)",
        places: [(11, 13), (11, 24), (15, 8)],
    },
    Case {
        changes: [("key: tier, ", ""), ("\"key\": \"tier\", ", ""), ("key = \"tier\", ", "")],
        text: "plugin `gold`: parameter `key` is missing",
        places: [(5, 17), (4, 55), (7, 14)],
    },
    Case {
        changes: [
            ("    parameters: { key: tier, value: gold }\n", ""),
            (", \"parameters\": { \"key\": \"tier\", \"value\": \"gold\" }", ""),
            ("parameters = { key = \"tier\", value = \"gold\" }\n", ""),
        ],
        text: "plugin `gold`: parameter `key` is missing",
        places: [(3, 5), (4, 6), (4, 1)],
    },
    Case {
        changes: everywhere("lacking", "lakcing"),
        text: "plugin `prefix_miss`: unknown parameter `lakcing` (did you mean `lacking`?)",
        places: [(34, 37), (41, 84), (53, 64)],
    },
    Case {
        changes: everywhere("prefix_miss", "prefix_mist"),
        text: "unknown plugin type `prefix_mist` (did you mean `prefix_miss`?)",
        places: [(33, 15), (41, 39), (53, 17)],
    },
    Case {
        changes: everywhere("on_empty", "on_emty"),
        text: "unknown field `on_emty` of a filter of a profile (did you mean `on_empty`?)",
        places: [(18, 30), (21, 46), (27, 30)],
    },
    Case {
        changes: everywhere("profiles", "profile"),
        text: "unknown field `profile` of a document (did you mean `profiles`?)",
        places: [(15, 1), (17, 11), (24, 3)],
    },
    Case {
        changes: everywhere("on_failure", "on_falure"),
        text: "unknown field `on_falure` of a step (did you mean `on_failure`?)",
        places: [(35, 7), (42, 19), (52, 1)],
    },
    Case {
        changes: everywhere("keep_previous", "keep_previos"),
        text: "unknown choice for a filter that leaves nobody `keep_previos` (did you mean `keep_previous`?)",
        places: [(18, 40), (21, 63), (27, 41)],
    },
    Case {
        changes: [
            ("role: prefill", "role: prefil"),
            ("\"role\": \"prefill\"", "\"role\": \"prefil\""),
            ("role = \"prefill\"", "role = \"prefil\""),
        ],
        text: "unknown role `prefil` (did you mean `prefill`?)",
        places: [(31, 13), (40, 24), (51, 8)],
    },
    Case {
        changes: [("ranked: 2", "ranked: 0"), ("\"ranked\": 2", "\"ranked\": 0"), ("ranked = 2", "ranked = 0")],
        text: "expected a whole number above 0, found the number `0`",
        places: [(28, 61), (36, 75), (46, 10)],
    },
    Case {
        changes: [
            ("{ plugin: cache, weight: 2.0 }", "{ plugin: cache }"),
            ("{ \"plugin\": \"cache\", \"weight\": 2.0 }", "{ \"plugin\": \"cache\" }"),
            ("{ plugin = \"cache\", weight = 2.0 }", "{ plugin = \"cache\" }"),
        ],
        text: "a scorer of a profile lacks `weight`",
        places: [(20, 9), (23, 10), (29, 3)],
    },
    Case {
        // Parameters before their type are checked where they stand, too.
        changes: [
            ("  - type: best\n    parameters: { most: 3 }", "  - parameters: { mots: 3 }\n    type: best"),
            (
                "\"type\": \"best\", \"parameters\": { \"most\": 3 }",
                "\"parameters\": { \"mots\": 3 }, \"type\": \"best\"",
            ),
            ("type = \"best\"\nparameters = { most = 3 }", "parameters = { mots = 3 }\ntype = \"best\""),
        ],
        text: "plugin `best`: unknown parameter `mots` (did you mean `most`?)",
        places: [(13, 19), (15, 28), (21, 16)],
    },
];

#[test]
fn what_is_wrong_is_told_with_its_place_in_every_format() {
    let registry = registry();
    let readers = [format::yaml, format::json, format::toml];
    let samples = [YAML, JSON, TOML];
    for case in CASES {
        for (at, (from, to)) in case.changes.into_iter().enumerate() {
            let changed = samples[at].replace(from, to);
            assert_ne!(changed, samples[at], "`{from}` is not in sample {at}");
            let Refusal { text, place } = readers[at](&registry, &changed).expect_err("the change is refused");
            // YAML adds a path in front of it, and YAML and JSON the place after it.
            assert!(text.contains(case.text), "{text}\nis not\n{}", case.text);
            let (line, column) = case.places[at];
            assert_eq!(place, Some(Place { line, column }), "{text}");
        }
    }
}

#[test]
fn what_is_no_document_at_all_is_told_with_its_place() {
    let registry = registry();
    let places = [
        format::yaml(&registry, "profiles:\n  - name: [a\n"),
        format::json(&registry, "{\n  \"profiles\": [}\n"),
        format::toml(&registry, "[[profiles]]\nname = \n"),
    ]
    .map(|read| read.expect_err("the text is broken").place.expect("the format tells where").line);
    assert_eq!(places, [2, 2, 2]);
    assert!(format::json(&registry, "[]").expect_err("a list is no document").text.contains("expected a document"));
}

#[test]
fn nothing_is_said_twice() {
    let registry = registry();
    let json = |text| format::json(&registry, text).expect_err("it is said twice").text;
    let field = json(r#"{"profiles": [{"name": "a", "name": "b", "pick": "best"}]}"#);
    assert!(field.starts_with("`name` is given twice"), "{field}");
    let parameter = json(r#"{"plugins": [{"type": "best", "parameters": {"most": 1, "most": 2}}], "profiles": []}"#);
    assert!(parameter.starts_with("`most` is given twice"), "{parameter}");
    let nested = json(r#"{"profiles": [{"name": "a", "pick": {"a": 1, "a": 2}}]}"#);
    assert!(nested.starts_with("expected a text, found a map"), "{nested}");
}

#[test]
fn a_plugin_has_a_name_or_leaves_it_out() {
    let text = r#"{"plugins": [{"type": "best", "name": ""}], "profiles": []}"#;
    let refusal = format::json(&registry(), text).expect_err("no name is a name");
    assert!(refusal.text.starts_with("the name of a plugin is empty"), "{}", refusal.text);
}

#[test]
fn parameters_may_be_left_empty() {
    let text = "plugins:\n  - type: cache\n    parameters:\nprofiles: []\n";
    let document = format::yaml(&registry(), text).expect("nothing is no parameter");
    assert!(document.plugins[0].parameters.is_empty());
}

#[test]
fn a_number_that_not_every_format_can_write_is_refused() {
    for number in [".inf", "-.inf", ".nan"] {
        let text = format!("plugins:\n  - type: region\n    parameters: {{ elsewhere: {number} }}\nprofiles: []\n");
        let refusal = format::yaml(&registry(), &text).expect_err("JSON cannot write it");
        assert!(refusal.text.contains("is no finite number"), "{}", refusal.text);
        assert_eq!(refusal.place.map(|place| place.line), Some(3));
    }
}

/// Whether what is referred to stands in front or further on.
#[test]
fn a_name_that_leads_nowhere_is_refused_at_its_place() {
    let profiles = r#""profiles": [{"name": "p", "pick": "bets"}]"#;
    let plugins = r#""plugins": [{"type": "best"}]"#;
    for (text, line) in [(format!("{{{plugins},\n{profiles}}}"), 2), (format!("{{{profiles},\n{plugins}}}"), 1)] {
        let refused = format::json(&registry(), &text).expect_err("`bets` is not defined");
        assert!(refused.text.contains("did you mean `best`?"), "{}", refused.text);
        assert_eq!(refused.place.map(|place| place.line), Some(line));
    }
}
