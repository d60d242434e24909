//! Usage correction: cached tokens of a response, rewritten as it streams.

use bytes::{Bytes, BytesMut};
use json_edit::{Edit, Object};

use super::api::Api;
use super::sse_frames::{self, FrameEnds};

/// Puts right what a decode pod's response says of cached tokens, piece by piece as it arrives.
///
/// Of a stream, at most one event is held back, until it is whole; of a document, all of it until [`Self::finish`]. What is
/// longer than [`Self::MOST_HELD`], and what is not understood, passes as it is. The outcome does not depend on how the
/// answer was cut into pieces. It may be longer or shorter than the response was, so a `content-length` must go.
#[derive(Clone, Debug)]
pub struct UsageFix {
    paths: &'static [&'static [&'static str]],
    cached: u64,
    form: Form,
    held: BytesMut,
    ends: FrameEnds,
    /// Whether what comes is the rest of something too long to be held.
    is_passing: bool,
    most_held: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Events,
    Document,
}

impl UsageFix {
    /// The most that is held back, in bytes.
    pub const MOST_HELD: usize = 8 << 20;

    /// With the number of cached tokens that a request really had. None if answers of the API do not tell of any.
    #[must_use]
    pub fn new(api: Api, events: bool, cached: u64) -> Option<Self> {
        let paths = paths(api);
        let form = if events { Form::Events } else { Form::Document };
        let (held, ends, most_held) = (BytesMut::new(), FrameEnds::default(), Self::MOST_HELD);
        (!paths.is_empty()).then_some(Self { paths, cached, form, held, ends, is_passing: false, most_held })
    }

    /// Takes the next piece of the response; what may be sent on by now.
    pub fn pass(&mut self, chunk: Bytes) -> Bytes {
        match self.form {
            Form::Document => self.hold(chunk),
            Form::Events => self.frames(chunk),
        }
    }

    /// What is left when the response has ended.
    pub fn finish(&mut self) -> Bytes {
        let held = std::mem::take(&mut self.held).freeze();
        self.ends = FrameEnds::default();
        if std::mem::take(&mut self.is_passing) {
            return held;
        }
        let fixed = match self.form {
            Form::Document => self.document(&held),
            Form::Events => self.frame(&held),
        };
        fixed.map_or(held, Bytes::from)
    }

    /// Holds a piece of a document, unless that gets too long.
    fn hold(&mut self, chunk: Bytes) -> Bytes {
        if self.is_passing {
            return chunk;
        }
        self.held.extend_from_slice(&chunk);
        self.is_passing = self.held.len() > self.most_held;
        if self.is_passing { std::mem::take(&mut self.held).freeze() } else { Bytes::new() }
    }

    fn frames(&mut self, mut chunk: Bytes) -> Bytes {
        // Mostly a piece is whole events that are right as they are; then it is passed on without a copy.
        if self.held.is_empty() && !self.is_passing && self.is_right(&chunk) {
            return chunk;
        }
        let mut out = BytesMut::with_capacity(self.held.len() + chunk.len() + 64);
        while let Some(end) = self.ends.next(&chunk) {
            self.held.extend_from_slice(&chunk.split_to(end));
            let frame = self.held.split();
            let is_fixable = !std::mem::take(&mut self.is_passing) && frame.len() <= self.most_held;
            match is_fixable.then(|| self.frame(&frame)).flatten() {
                Some(fixed) => out.extend_from_slice(&fixed),
                None => out.extend_from_slice(&frame),
            }
        }
        self.held.extend_from_slice(&chunk);
        self.is_passing |= self.held.len() > self.most_held;
        if self.is_passing {
            out.extend_from_slice(&self.held.split());
        }
        out.freeze()
    }

    /// Whether a piece is whole events of which none needs a change.
    fn is_right(&self, chunk: &[u8]) -> bool {
        let frames = || sse_frames::frames(chunk);
        frames().map(<[u8]>::len).sum::<usize>() == chunk.len() && frames().all(|frame| self.frame(frame).is_none())
    }

    /// An event, if it has to be changed.
    fn frame(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let place = sse_frames::place_of_data(frame)?;
        let fixed = self.document(frame.get(place.clone())?)?;
        Some([frame.get(..place.start)?, &fixed, frame.get(place.end..)?].concat())
    }

    /// A document, if it has to be changed.
    fn document(&self, document: &[u8]) -> Option<Vec<u8>> {
        // Most events have none, and are not worth reading.
        let may_have_usage = document.windows(USAGE.len()).any(|window| window == USAGE);
        let object = may_have_usage.then(|| Object::parse(document).ok())??;
        let is_wrong = |path: &&&[&str]| {
            let usage = path.get(..path.len().saturating_sub(2)).and_then(|usage| object.get_path(usage));
            let is_told = usage.is_some_and(|usage| usage.object().is_some());
            is_told && object.get_path(path).and_then(|cached| cached.as_u64()) != Some(self.cached)
        };
        let mut wrong = self.paths.iter().filter(is_wrong).peekable();
        wrong.peek()?;
        Some(wrong.fold(Edit::new(object), |edit, path| edit.set_path(path, self.cached)).finish())
    }
}

const USAGE: &[u8] = b"\"usage\"";

/// Where answers of an API tell how many tokens were cached: in the object that comes last but one on each path, which is
/// there if usage is told at all.
fn paths(api: Api) -> &'static [&'static [&'static str]] {
    match api {
        Api::Chat | Api::Completions | Api::InferenceGenerate => {
            &[&["usage", "prompt_tokens_details", "cached_tokens"]]
        }
        Api::Responses => &[
            &["usage", "input_tokens_details", "cached_tokens"],
            &["response", "usage", "input_tokens_details", "cached_tokens"],
        ],
        // Messages count cached tokens apart from the others, and vLLM tells none; SGLang's meet by themselves.
        Api::Messages | Api::Generate | Api::Embeddings | Api::CountTokens | Api::Other => &[],
    }
}

/// How many tokens were cached, by a response of an API; 0 if it does not say.
pub(super) fn cached_tokens(api: Api, answer: &[u8]) -> u64 {
    let Ok(object) = Object::parse(answer) else { return 0 };
    paths(api).iter().find_map(|path| object.get_path(path)?.as_u64()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// The fix fed with pieces, and the most it held meanwhile.
    fn fed(mut fix: UsageFix, pieces: &[&[u8]]) -> (Vec<u8>, usize) {
        let (mut out, mut most) = (Vec::new(), 0);
        for piece in pieces {
            out.extend_from_slice(&fix.pass(Bytes::copy_from_slice(piece)));
            most = most.max(fix.held.len());
        }
        out.extend_from_slice(&fix.finish());
        (out, most)
    }

    fn cut<'a>(text: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
        places.extend([0, text.len()]);
        places.sort_unstable();
        places.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect()
    }

    fn fix(events: bool, most_held: usize) -> UsageFix {
        UsageFix { most_held, ..UsageFix::new(Api::Chat, events, 7).expect("chat tells usage") }
    }

    fn parts() -> impl Strategy<Value = Vec<u8>> {
        let parts = vec![
            &b"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9}}\n\n"[..],
            b"data:{\"usage\": {\"prompt_tokens_details\":{\"cached_tokens\" : 1, \"x\":2.0}}}\r\n\r\n",
            b"data: {\"usage\":null}\n\n",
            b"data: {\"choices\":[{\"delta\":{\"content\":\"usage\\n\\n\"}}]}\n\n",
            b"data: {\"usage\":{}\ndata: }\n\n",
            b": ping\n\n",
            b"data: [DONE]\n\n",
            b"data: {\"usage\":{}}",
            b"data: {\"usage\":{}\n\n",
            b"\n",
            b"\r\n",
            b"\r",
            b"x",
        ];
        vec(select(parts), 0..12).prop_map(|parts| parts.concat())
    }

    proptest! {
        /// However a response is cut, the outcome is that of the whole, and what is held is one event at most.
        #[test]
        fn cuts_do_not_matter(
            text in parts(),
            cuts in vec(any::<usize>(), 0..20),
            events in any::<bool>(),
            most_held in select(vec![8, 60, 1000]),
        ) {
            let (whole, _) = fed(fix(events, most_held), &[&text]);
            let (pieces, most) = fed(fix(events, most_held), &cut(&text, &cuts));
            prop_assert_eq!(String::from_utf8_lossy(&pieces), String::from_utf8_lossy(&whole));
            let bytes: Vec<&[u8]> = text.chunks(1).collect();
            prop_assert_eq!(fed(fix(events, most_held), &bytes).0, whole);
            prop_assert!(most <= most_held);
            if events {
                let longest = sse_frames::frames(&text).map(<[u8]>::len).chain([text.len() - sse_frames::frames(&text).map(<[u8]>::len).sum::<usize>()]).max();
                prop_assert!(most <= longest.unwrap_or_default());
            }
        }
    }

    #[test]
    fn events_are_put_right_one_by_one() {
        let text = b"data: {\"usage\":null}\n\nevent: x\r\ndata: {\"usage\":{\"n\":1.0}}\r\n\r\ndata: [DONE]\n\n";
        let expected = "data: {\"usage\":null}\n\nevent: x\r\ndata: {\"usage\":{\"n\":1.0,\"prompt_tokens_details\":\
                        {\"cached_tokens\":7}}}\r\n\r\ndata: [DONE]\n\n";
        assert_eq!(String::from_utf8_lossy(&fed(fix(true, 1000), &[text]).0), expected);
    }

    #[test]
    fn what_is_right_is_passed_on_without_a_copy() {
        let chunk = Bytes::from_static(b"data: {\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":7}}}\n\n");
        let passed = fix(true, 1000).pass(chunk.clone());
        assert_eq!(passed.as_ptr(), chunk.as_ptr());
        assert_eq!(passed, chunk);
    }

    #[test]
    fn what_is_too_long_passes_and_the_next_event_is_put_right() {
        let text =
            b"data: {\"usage\":{}}\n\ndata: {\"usage\":{},\"a\":\"xxxxxxxxxxxxxxxx\"}\n\ndata: {\"usage\":{}}\n\n";
        let fixed = "data: {\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":7}}}\n\n";
        let expected = format!("{fixed}data: {{\"usage\":{{}},\"a\":\"xxxxxxxxxxxxxxxx\"}}\n\n{fixed}");
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(String::from_utf8_lossy(&fed(fix(true, 30), &bytes).0), expected);
        let document = b"{\"usage\":{}}";
        assert_eq!(fed(fix(false, 4), &[document]).0, document);
    }
}
