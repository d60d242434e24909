use super::case::{Case, Verdict};

pub(crate) fn check(_case: &Case) -> Verdict {
    Verdict::NotMine
}
