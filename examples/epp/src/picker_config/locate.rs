//! Lines of paths in YAML text, by indentation: the reader tells lines only of its own errors.
//!
//! Block style is understood, which configurations are written in. In flow style the line is that of the last part that
//! stands in block style, so a line is never far off; a path that is not in the text has the line of what it belongs to.

use super::error::Segment;

/// The line of a path, counted from 1; none if not even its first part is there.
pub(super) fn line(text: &str, path: &[Segment]) -> Option<usize> {
    let lines: Vec<Line<'_>> = text.lines().enumerate().filter_map(|(at, text)| Line::new(at + 1, text)).collect();
    let (mut block, mut found) = (&lines[..], None);
    for segment in path {
        let Some((line, inner)) = step(block, segment) else { break };
        (found, block) = (Some(line), inner);
    }
    found
}

/// A line that says something.
#[derive(Clone, Copy, Debug)]
struct Line<'t> {
    number: usize,
    indent: usize,
    text: &'t str,
}

impl<'t> Line<'t> {
    fn new(number: usize, text: &'t str) -> Option<Self> {
        let trimmed = text.trim_start();
        let says = !trimmed.is_empty() && !trimmed.starts_with('#') && !trimmed.starts_with("---");
        says.then(|| Self { number, indent: text.len() - trimmed.len(), text: trimmed })
    }

    /// Its text and indentation after the dashes of lists.
    fn content(&self) -> (usize, &'t str) {
        let rest = self.text.trim_start_matches(['-', ' ']);
        let is_item = self.text.starts_with("- ");
        if is_item { (self.indent + self.text.len() - rest.len(), rest) } else { (self.indent, self.text) }
    }

    fn is_item(&self) -> bool {
        self.text == "-" || self.text.starts_with("- ")
    }

    fn is_key(&self, name: &str) -> bool {
        let unquoted = self.content().1.trim_start_matches(['"', '\'']);
        unquoted.strip_prefix(name).is_some_and(|rest| rest.trim_start_matches(['"', '\'', ' ']).starts_with(':'))
    }
}

/// The line of one part of a path, and the lines within it.
fn step<'b, 't>(block: &'b [Line<'t>], segment: &Segment) -> Option<(usize, &'b [Line<'t>])> {
    match segment {
        Segment::Key(name) => {
            let indent = block.iter().map(|line| line.content().0).min()?;
            let at = block.iter().position(|line| line.content().0 == indent && line.is_key(name))?;
            // The items of a list may stand as far left as its key.
            let is_within = |line: &Line<'_>| line.indent > indent || line.indent == indent && line.is_item();
            let within = block[at + 1..].iter().take_while(|line| is_within(line)).count();
            Some((block[at].number, &block[at + 1..at + 1 + within]))
        }
        Segment::Index(index) => {
            let indent = block.first().filter(|line| line.is_item())?.indent;
            let starts = |line: &Line<'_>| line.indent == indent && line.is_item();
            let from = block.iter().enumerate().filter(|(_, line)| starts(line)).nth(*index)?.0;
            let within = block[from + 1..].iter().take_while(|line| !starts(line)).count();
            Some((block[from].number, &block[from..from + 1 + within]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# a comment
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- name: picker
  type: max-score-picker
  parameters:
    maxNumOfEndpoints: 1
schedulingProfiles:
  - name: default
    plugins:
      - pluginRef: queue-scorer
        weight: 2
      - pluginRef: picker
";

    fn of(path: &[&str]) -> Option<usize> {
        let segment = |part: &&str| part.parse().map_or(Segment::Key((*part).to_owned()), Segment::Index);
        line(TEXT, &path.iter().map(segment).collect::<Vec<_>>())
    }

    #[test]
    fn paths_have_the_lines_that_they_stand_in() {
        assert_eq!(of(&["kind"]), Some(2));
        assert_eq!(of(&["plugins", "0"]), Some(4));
        assert_eq!(of(&["plugins", "1", "type"]), Some(6));
        assert_eq!(of(&["plugins", "1", "parameters", "maxNumOfEndpoints"]), Some(8));
        assert_eq!(of(&["schedulingProfiles", "0", "plugins", "0", "weight"]), Some(13));
        assert_eq!(of(&["schedulingProfiles", "0", "plugins", "1", "pluginRef"]), Some(14));
    }

    #[test]
    fn what_is_not_there_has_the_line_of_what_it_belongs_to() {
        assert_eq!(of(&["plugins", "1", "parameters", "odd"]), Some(7));
        assert_eq!(of(&["plugins", "7"]), Some(3));
        assert_eq!(of(&["odd"]), None);
        assert_eq!(line("plugins: [{ type: a }]", &[Segment::Key("plugins".into()), Segment::Index(0)]), Some(1));
    }
}
