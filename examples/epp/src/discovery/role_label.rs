//! The label `llm-d.ai/role`, which says what a pod does.

use pointsman::core::Role;

/// The label that names a pod's role.
pub const ROLE_LABEL: &str = "llm-d.ai/role";

/// The role that labels give a pod.
///
/// `prefill` and `encode-prefill` prefill, `decode` decodes, `encode` encodes. Every other value, and none, is
/// [`Role::Both`]: the label itself is kept beside it, so a filter by label can still leave such a pod out.
pub fn role_of<'a>(labels: impl IntoIterator<Item = (&'a String, &'a String)>) -> Role {
    match labels.into_iter().find(|(key, _)| *key == ROLE_LABEL).map(|(_, value)| value.as_str()) {
        Some("prefill" | "encode-prefill") => Role::Prefill,
        Some("decode") => Role::Decode,
        Some("encode") => Role::Encode,
        _ => Role::Both,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_names_the_role_and_everything_else_is_both() {
        for (value, role) in [
            ("prefill", Role::Prefill),
            ("encode-prefill", Role::Prefill),
            ("decode", Role::Decode),
            ("encode", Role::Encode),
            ("both", Role::Both),
            ("prefill-decode", Role::Both),
            ("encode-prefill-decode", Role::Both),
            ("", Role::Both),
            ("boss", Role::Both),
        ] {
            let (key, value) = (ROLE_LABEL.to_owned(), value.to_owned());
            assert_eq!(role_of([(&key, &value)]), role, "{value}");
        }
        let (other, value) = ("role".to_owned(), "prefill".to_owned());
        assert_eq!(role_of([(&other, &value)]), Role::Both);
    }
}
