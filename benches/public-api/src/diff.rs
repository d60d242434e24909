//! Line diff of two sorted lists of items.

use std::collections::BTreeSet;

/// What is gone, after a `-`, and what is new, after a `+`, in the order of the items.
pub(crate) fn lines(before: &str, after: &str) -> Vec<String> {
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (before.lines().collect(), after.lines().collect());
    let mut changes: Vec<(&str, char)> = old.difference(&new).map(|line| (*line, '-')).collect();
    changes.extend(new.difference(&old).map(|line| (*line, '+')));
    changes.sort_unstable_by_key(|(line, sign)| (*line, *sign == '+'));
    changes.into_iter().map(|(line, sign)| format!("{sign} {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_and_what_is_new_are_told_apart() {
        assert!(lines("pub fn a()\npub fn b()\n", "pub fn a()\npub fn b()\n").is_empty());
        assert_eq!(
            lines("pub fn a()\npub fn b(u8)\n", "pub fn a()\npub fn b(u16)\npub fn c()\n"),
            ["+ pub fn b(u16)", "- pub fn b(u8)", "+ pub fn c()"]
        );
    }
}
