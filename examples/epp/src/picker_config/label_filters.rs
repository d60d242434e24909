//! llm-d's filters of labels: a selector of Kubernetes as fields, or one label's values.

use serde_json::json;

use super::fields::Fields;
use super::parts::{Parts, Piece};
use super::scorers::required;

/// `matchLabels` and `matchExpressions`; an empty selector leaves nobody out.
pub(super) fn by_selector(fields: &Fields<'_>) -> Option<Parts> {
    let mut requirements = Vec::new();
    if let Some(mut labels) = fields.fields("matchLabels") {
        requirements.extend(labels.pairs().into_iter().map(|(key, value)| format!("{key}={value}")));
        labels.skip_all();
    }
    for expression in fields.objects("matchExpressions") {
        let (key, values) = (required(&expression, "key"), expression.texts("values"));
        let requirement = match (expression.text("operator"), values.is_empty()) {
            (Some("In"), false) => key.map(|key| format!("{key} in ({})", values.join(","))),
            (Some("NotIn"), false) => key.map(|key| format!("{key} notin ({})", values.join(","))),
            (Some("Exists"), true) => key.map(str::to_owned),
            (Some("DoesNotExist"), true) => key.map(|key| format!("!{key}")),
            (Some("In" | "NotIn"), true) => {
                expression.problem("values", "expected at least one value");
                None
            }
            (Some("Exists" | "DoesNotExist"), false) => {
                expression.problem("values", "expected none: only the label itself is asked for");
                None
            }
            _ => {
                expression.problem("operator", "expected In, NotIn, Exists or DoesNotExist");
                None
            }
        };
        requirements.push(requirement?);
    }
    if requirements.is_empty() {
        return Some(Parts::default());
    }
    Some(Parts::filter(Piece::new("label_filter", json!({ "selector": requirements.join(", ") }))))
}

/// One label's values, or none of it.
pub(super) fn by_values(fields: &Fields<'_>) -> Option<Piece> {
    let (label, values) = (required(fields, "label"), fields.texts("validValues"));
    let (label, or_none) = (label?, fields.flag("allowsNoLabel").unwrap_or_default());
    Some(match (values.is_empty(), or_none) {
        (true, false) => {
            fields.problem("validValues", "expected at least one value, or `allowsNoLabel: true`");
            return None;
        }
        (true, true) => Piece::new("label_filter", json!({ "selector": format!("!{label}") })),
        (false, false) => {
            Piece::new("label_filter", json!({ "selector": format!("{label} in ({})", values.join(",")) }))
        }
        (false, true) => Piece::new("label_or_none_filter", json!({ "label": label, "values": values })),
    })
}
