//! The model's name in an answer: where a request was for another name than pods know, its client reads that name.
//!
//! What is replaced is the member `"model"` with the target's name, wherever it is in an answer: in the bytes of a string it cannot be,
//! since quotes are escaped there. Nothing is held back but the beginning of such a member at the end of a piece.

/// Replaces a model's name in the pieces of an answer.
#[derive(Debug)]
pub(crate) struct AnswerModel {
    /// Both as JSON has them, in quotes.
    target: Vec<u8>,
    client: Vec<u8>,
    /// The end of the last piece, where it may be the beginning of a member.
    held: Vec<u8>,
}

/// How what follows a place reads.
enum Found {
    /// A member with the target's name, whose value begins and ends there.
    Member(usize, usize),
    /// The beginning of one, perhaps.
    Beginning,
    Other,
}

impl AnswerModel {
    /// For a request whose model was called otherwise. None if it was not, or by so long a name that answers would grow without measure:
    /// it is written once for each event.
    pub(crate) fn new(target: &str, client: &str) -> Option<Self> {
        let quoted = |name: &str| serde_json::to_vec(name).unwrap_or_default();
        let is_name = (1..=LONGEST_NAME).contains(&client.len());
        let is_renamed = target != client && !target.is_empty() && is_name;
        is_renamed.then(|| Self { target: quoted(target), client: quoted(client), held: Vec::new() })
    }

    /// A piece as it goes on. With `may_hold` the rest of it may go on with the next one.
    pub(crate) fn pass(&mut self, piece: Vec<u8>, may_hold: bool) -> Vec<u8> {
        let whole = match self.held.is_empty() {
            true => piece,
            false => [std::mem::take(&mut self.held), piece].concat(),
        };
        let (mut passed, mut from, mut at) = (Vec::new(), 0, 0);
        while let Some(quote) = whole[at..].iter().position(|byte| *byte == b'"').map(|quote| at + quote) {
            at = quote + 1;
            match self.find(&whole[quote..]) {
                Found::Member(begin, end) => {
                    passed.extend_from_slice(&whole[from..quote + begin]);
                    passed.extend_from_slice(&self.client);
                    (from, at) = (quote + end, quote + end);
                }
                Found::Beginning if may_hold => {
                    passed.extend_from_slice(&whole[from..quote]);
                    self.held = whole[quote..].to_vec();
                    return passed;
                }
                Found::Beginning | Found::Other => {}
            }
        }
        if from == 0 {
            return whole;
        }
        passed.extend_from_slice(&whole[from..]);
        passed
    }

    /// What was held back of an answer that ended.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    fn find(&self, text: &[u8]) -> Found {
        let mut at = 0;
        for part in [NAME, b":", &self.target] {
            let rest = &text[at..];
            let space = rest.iter().take(MOST_SPACE).take_while(|byte| byte.is_ascii_whitespace()).count();
            let rest = &rest[space..];
            if part.starts_with(rest) && rest.len() < part.len() {
                return Found::Beginning;
            }
            if !rest.starts_with(part) {
                return Found::Other;
            }
            at += space + part.len();
        }
        Found::Member(at - self.target.len(), at)
    }
}

const NAME: &[u8] = br#""model""#;
/// Bytes of a client's name for a model, at most.
const LONGEST_NAME: usize = 256;
/// Space between a name, its colon and its value, at most: engines write one, or none.
const MOST_SPACE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str =
        r#"data: {"id":"1","model":"m-v2","x":"\"model\":\"m-v2\"","y":{"model" : "m-v2"},"z":{"model": "m-v20"}}"#;
    const RENAMED: &str =
        r#"data: {"id":"1","model":"m\"","x":"\"model\":\"m-v2\"","y":{"model" : "m\""},"z":{"model": "m-v20"}}"#;

    fn passed(pieces: &[&str]) -> String {
        let mut model = AnswerModel::new("m-v2", "m\"").unwrap();
        let mut all: Vec<u8> = pieces.iter().flat_map(|piece| model.pass((*piece).into(), true)).collect();
        all.extend(model.rest());
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn the_name_is_the_clients_however_the_answer_is_cut() {
        assert_eq!(passed(&[ANSWER]), RENAMED);
        for at in 0..ANSWER.len() {
            let (left, right) = ANSWER.split_at(at);
            assert_eq!(passed(&[left, right]), RENAMED, "at {at}");
            assert_eq!(passed(&[left, "", right]), RENAMED, "at {at}");
        }
        let bytes: Vec<&str> = ANSWER.split_inclusive(|_: char| true).collect();
        assert_eq!(passed(&bytes), RENAMED);
    }

    #[test]
    fn only_what_may_be_a_member_is_held_back() {
        let mut model = AnswerModel::new("m", "n").unwrap();
        assert_eq!(model.pass(b"data: {\"mod\":1}\n\n".into(), true), b"data: {\"mod\":1}\n\n");
        assert_eq!(model.pass(b"{\"model\": ".into(), true), b"{");
        assert_eq!(model.pass(b"1}".into(), true), b"\"model\": 1}");
        assert_eq!(model.pass(b"{\"model\": ".into(), false), b"{\"model\": ", "where it may not");
        assert!(model.rest().is_empty());
    }

    #[test]
    fn an_answer_to_the_same_name_is_left_alone() {
        assert!(AnswerModel::new("m", "m").is_none() && AnswerModel::new("", "m").is_none());
        assert!(AnswerModel::new("m", "").is_none(), "a request that named none");
    }

    #[test]
    fn a_name_that_would_make_answers_long_is_not_written_into_them() {
        assert!(AnswerModel::new("m", &"x".repeat(LONGEST_NAME)).is_some());
        assert!(AnswerModel::new("m", &"x".repeat(LONGEST_NAME + 1)).is_none());
    }
}
