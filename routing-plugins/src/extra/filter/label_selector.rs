//! Label selectors, in the notation and with the meaning of Kubernetes.

use std::fmt;
use std::str::FromStr;

use kv_index::PodSet;
use routing_core::Fleet;

/// What labels a pod must have; all of it must hold. Without a requirement, every pod is selected.
///
/// | written | selects pods |
/// |---|---|
/// | `tier=fast`, `tier==fast` | with this value |
/// | `tier!=slow` | with another value, or without the label |
/// | `zone in (a, b)` | with one of these values |
/// | `zone notin (a, b)` | with another value, or without the label |
/// | `gpu` | with the label |
/// | `!gpu` | without it |
///
/// Requirements are separated by commas. Labels and values are any characters but white space and `,()=!<>`; a value may be
/// empty outside of parentheses.
///
/// # Examples
///
/// ```
/// use routing_plugins::extra::LabelSelector;
///
/// let selector: LabelSelector = "zone in (a, b), !gpu, tier=fast".parse()?;
/// assert_eq!(selector, LabelSelector::default().within("zone", &["a", "b"]).absent("gpu").equal("tier", "fast"));
/// let error = "zone in (a".parse::<LabelSelector>().unwrap_err();
/// assert_eq!(error.to_string(), "expected `,` or `)` after `zone in (a`");
/// # Ok::<(), routing_plugins::extra::LabelSelectorError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(try_from = "String"))]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    label: Box<str>,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Within(Box<[Box<str>]>),
    Without(Box<[Box<str>]>),
    Present,
    Absent,
}

impl LabelSelector {
    /// The same, and a label has this value.
    #[must_use]
    pub fn equal(self, label: &str, value: &str) -> Self {
        self.within(label, &[value])
    }

    /// The same, and a label has one of these values.
    #[must_use]
    pub fn within(self, label: &str, values: &[&str]) -> Self {
        self.and(label, Test::Within(boxed(values)))
    }

    /// The same, and a label has none of these values; a pod may be without the label.
    #[must_use]
    pub fn without(self, label: &str, values: &[&str]) -> Self {
        self.and(label, Test::Without(boxed(values)))
    }

    /// The same, and there is this label.
    #[must_use]
    pub fn present(self, label: &str) -> Self {
        self.and(label, Test::Present)
    }

    /// The same, and there is no such label.
    #[must_use]
    pub fn absent(self, label: &str) -> Self {
        self.and(label, Test::Absent)
    }

    /// The pods of a fleet that are selected.
    #[must_use]
    pub fn select<const W: usize>(&self, fleet: &Fleet<W>) -> PodSet<W> {
        self.requirements.iter().fold(fleet.pods(), |pods, requirement| requirement.narrow(pods, fleet))
    }

    fn and(mut self, label: &str, test: Test) -> Self {
        self.requirements.push(Requirement { label: label.into(), test });
        self
    }
}

impl Requirement {
    fn narrow<const W: usize>(&self, pods: PodSet<W>, fleet: &Fleet<W>) -> PodSet<W> {
        let of = |values: &[Box<str>]| {
            values.iter().fold(PodSet::EMPTY, |pods, value| pods | fleet.labelled(&self.label, value))
        };
        match &self.test {
            Test::Within(values) => pods & of(values),
            Test::Without(values) => pods - of(values),
            Test::Present => pods & fleet.with_label(&self.label),
            Test::Absent => pods - fleet.with_label(&self.label),
        }
    }
}

fn boxed(values: &[&str]) -> Box<[Box<str>]> {
    values.iter().map(|value| Box::from(*value)).collect()
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Requirement { label, test }) in self.requirements.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "," })?;
            match test {
                Test::Within(values) => match &**values {
                    [value] => write!(f, "{label}={value}"),
                    values => write!(f, "{label} in ({})", values.join(",")),
                },
                Test::Without(values) => match &**values {
                    [value] => write!(f, "{label}!={value}"),
                    values => write!(f, "{label} notin ({})", values.join(",")),
                },
                Test::Present => write!(f, "{label}"),
                Test::Absent => write!(f, "!{label}"),
            }?;
        }
        Ok(())
    }
}

/// Why a selector was not understood. An operator's to fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} after `{understood}`")]
#[non_exhaustive]
pub struct LabelSelectorError {
    /// What should have come.
    pub expected: &'static str,
    /// What was understood before.
    pub understood: Box<str>,
}

impl FromStr for LabelSelector {
    type Err = LabelSelectorError;

    fn from_str(text: &str) -> Result<Self, LabelSelectorError> {
        let (mut scanner, mut selector) = (Scanner { text, at: 0 }, Self::default());
        scanner.skip();
        if scanner.rest().is_empty() {
            return Ok(selector);
        }
        loop {
            selector.requirements.push(scanner.requirement()?);
            if scanner.rest().is_empty() {
                return Ok(selector);
            }
            if !scanner.eat(",") {
                return Err(scanner.expected("`,` or the end"));
            }
        }
    }
}

impl TryFrom<String> for LabelSelector {
    type Error = LabelSelectorError;

    fn try_from(text: String) -> Result<Self, LabelSelectorError> {
        text.parse()
    }
}

/// A selector as far as it was read. Between any two steps it stands at something that is not white space.
struct Scanner<'s> {
    text: &'s str,
    at: usize,
}

impl<'s> Scanner<'s> {
    fn requirement(&mut self) -> Result<Requirement, LabelSelectorError> {
        let absent = self.eat("!");
        let label = Box::from(self.word("a label")?);
        let test = if absent {
            Test::Absent
        } else if self.eat("!=") {
            Test::Without(Box::new([self.value()]))
        } else if self.eat("==") || self.eat("=") {
            Test::Within(Box::new([self.value()]))
        } else if self.rest().is_empty() || self.rest().starts_with(',') {
            Test::Present
        } else {
            self.set()?
        };
        Ok(Requirement { label, test })
    }

    /// `in (a, b)` or `notin (a, b)`.
    fn set(&mut self) -> Result<Test, LabelSelectorError> {
        const OPERATORS: &str = "`=`, `!=`, `in`, `notin` or `,`";
        let before = self.at;
        let operator = self.word(OPERATORS)?;
        if operator != "in" && operator != "notin" {
            self.at = before;
            return Err(self.expected(OPERATORS));
        }
        if !self.eat("(") {
            return Err(self.expected("`(`"));
        }
        let mut values = vec![Box::from(self.word("a value")?)];
        while self.eat(",") {
            values.push(Box::from(self.word("a value")?));
        }
        if !self.eat(")") {
            return Err(self.expected("`,` or `)`"));
        }
        Ok(if operator == "in" { Test::Within(values.into()) } else { Test::Without(values.into()) })
    }

    fn word(&mut self, expected: &'static str) -> Result<&'s str, LabelSelectorError> {
        let rest = self.rest();
        let end = rest.find(|letter: char| letter.is_whitespace() || ",()=!<>".contains(letter)).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.expected(expected));
        }
        self.at += end;
        self.skip();
        Ok(&rest[..end])
    }

    /// A value, which may be empty.
    fn value(&mut self) -> Box<str> {
        self.word("a value").unwrap_or_default().into()
    }

    fn eat(&mut self, sign: &str) -> bool {
        let is_next = self.rest().starts_with(sign);
        if is_next {
            self.at += sign.len();
            self.skip();
        }
        is_next
    }

    fn skip(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn rest(&self) -> &'s str {
        &self.text[self.at..]
    }

    fn expected(&self, expected: &'static str) -> LabelSelectorError {
        LabelSelectorError { expected, understood: self.text[..self.at].trim_end().into() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::filter::testing::Setup;

    fn selected(selector: &str) -> Vec<usize> {
        let fleet = <Setup>::new(4)
            .pod(0, |pod| pod.label("zone", "a").label("gpu", "h200"))
            .pod(1, |pod| pod.label("zone", "b"))
            .pod(2, |pod| pod.label("zone", ""))
            .fleet();
        let selector: LabelSelector = selector.parse().unwrap();
        selector.select(&fleet).iter().map(|pod| pod.index()).collect()
    }

    #[test]
    fn it_selects_as_kubernetes_does() {
        assert_eq!(selected(""), [0, 1, 2, 3]);
        assert_eq!(selected("zone=a"), [0]);
        assert_eq!(selected(" zone == a "), [0]);
        assert_eq!(selected("zone="), [2], "a value may be empty");
        assert_eq!(selected("zone!=a"), [1, 2, 3], "without the label, it is not a");
        assert_eq!(selected("zone in (a,b)"), [0, 1]);
        assert_eq!(selected("zone notin(a, b)"), [2, 3]);
        assert_eq!(selected("zone"), [0, 1, 2]);
        assert_eq!(selected("!zone"), [3]);
        assert_eq!(selected("! gpu , zone in (a,b)"), [1], "all must hold");
        assert_eq!(selected("zone=a,zone=b"), [0; 0]);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let error = |text: &str| text.parse::<LabelSelector>().unwrap_err().to_string();
        assert_eq!(error("zone in a"), "expected `(` after `zone in`");
        assert_eq!(error("zone in ()"), "expected a value after `zone in (`");
        assert_eq!(error("zone in (a,)"), "expected a value after `zone in (a,`");
        assert_eq!(error("zone in (a b)"), "expected `,` or `)` after `zone in (a`");
        assert_eq!(error("zone on (a)"), "expected `=`, `!=`, `in`, `notin` or `,` after `zone`");
        assert_eq!(error("cores>3"), "expected `=`, `!=`, `in`, `notin` or `,` after `cores`");
        assert_eq!(error("=a"), "expected a label after ``");
        assert_eq!(error("zone=a,"), "expected a label after `zone=a,`");
        assert_eq!(error("zone=a b"), "expected `,` or the end after `zone=a`");
        assert_eq!(error("!"), "expected a label after `!`");
    }

    fn selectors() -> impl Strategy<Value = LabelSelector> {
        let word = || "[a-z./-]{1,6}";
        let values = || prop::collection::vec(word(), 1..4);
        let requirement = (word(), values(), 0..4_u8);
        prop::collection::vec(requirement, 0..5).prop_map(|requirements| {
            requirements.iter().fold(LabelSelector::default(), |selector, (label, values, kind)| {
                let values: Vec<&str> = values.iter().map(String::as_str).collect();
                match kind {
                    0 => selector.within(label, &values),
                    1 => selector.without(label, &values),
                    2 => selector.present(label),
                    _ => selector.absent(label),
                }
            })
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(selector in selectors()) {
            prop_assert_eq!(selector.to_string().parse::<LabelSelector>(), Ok(selector));
        }

        #[test]
        fn any_text_is_a_selector_or_an_error(text in "[a-z !=,()<ü]{0,24}") {
            if let Ok(selector) = text.parse::<LabelSelector>() {
                prop_assert_eq!(selector.to_string().parse::<LabelSelector>(), Ok(selector));
            }
        }
    }
}
