//! ZeroMQ framing of KV events: live messages, replay requests and replies.
//!
//! | frames | what |
//! |---|---|
//! | topic, sequence, payload | a live message |
//! | empty, start | a replay request, as a DEALER socket sends it |
//! | empty, topic, sequence, payload | a reply: vLLM from 0.26, SGLang from 0.5.22 |
//! | empty, sequence, payload | a reply: older releases |
//! | topic, sequence, payload; or sequence, payload | the same two as a REQ socket hands them on |
//!
//! So a reply ends in sequence and payload whatever comes before, and three frames mean the same read either way:
//! what stands first is the topic, if any. Sequences are eight bytes, big endian. A replay ends with a reply whose
//! payload is empty and whose sequence is all ones. Nothing here touches a socket.

/// A published payload and what came with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the three frames of a message: complete by nature")]
pub struct Message<'a> {
    /// What the publisher calls its stream; empty if nothing, or if a replay does not repeat it.
    pub topic: &'a [u8],
    /// The number of the batch: from 0 on, one by one, until the publisher restarts.
    pub sequence: u64,
    /// The batch, for [`decode_batch`](super::decode_batch).
    pub payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads a live message.
    ///
    /// # Errors
    ///
    /// When there are not three frames with a sequence in the middle: another kind of publisher is on this address.
    ///
    /// # Examples
    ///
    /// ```
    /// use kv_index::engine::Message;
    ///
    /// let frames = [&b"kv-events"[..], &[0, 0, 0, 0, 0, 0, 1, 2], b"payload"];
    /// let message = Message::parse(&frames)?;
    /// assert_eq!(message.sequence, 258);
    /// assert_eq!(message.payload, b"payload");
    /// # Ok::<(), kv_index::engine::FrameError>(())
    /// ```
    pub fn parse<F: AsRef<[u8]>>(frames: &'a [F]) -> Result<Self, FrameError> {
        match frames {
            [topic, sequence, payload] => {
                Ok(Self { topic: topic.as_ref(), sequence: number(sequence.as_ref())?, payload: payload.as_ref() })
            }
            _ => Err(FrameError::Count { found: frames.len(), least: 3, most: 3 }),
        }
    }

    /// The frames of the live message, as a publisher sends them.
    #[must_use]
    pub fn to_frames(&self) -> [Vec<u8>; 3] {
        [self.topic.to_vec(), self.sequence.to_be_bytes().to_vec(), self.payload.to_vec()]
    }
}

/// One answer to a replay request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a batch or the end: complete by nature")]
pub enum ReplayReply<'a> {
    /// A batch that was published before.
    Batch(Message<'a>),
    /// Nothing more follows.
    End,
}

impl<'a> ReplayReply<'a> {
    /// Reads a reply in any of its forms.
    ///
    /// # Errors
    ///
    /// When the frames are none of them, or an end that is only half one. The host asks again, or gives up on what
    /// it missed.
    ///
    /// # Examples
    ///
    /// ```
    /// use kv_index::engine::ReplayReply;
    ///
    /// let sequence = 7_u64.to_be_bytes();
    /// let old = [&b""[..], &sequence, b"payload"];
    /// let new = [&b""[..], b"topic", &sequence, b"payload"];
    /// for frames in [&old[..], &new[..]] {
    ///     let ReplayReply::Batch(message) = ReplayReply::parse(frames)? else { panic!("over already") };
    ///     assert_eq!((message.sequence, message.payload), (7, &b"payload"[..]));
    /// }
    /// assert_eq!(ReplayReply::parse(&[&b""[..], &[0xff; 8], b""])?, ReplayReply::End);
    /// # Ok::<(), kv_index::engine::FrameError>(())
    /// ```
    pub fn parse<F: AsRef<[u8]>>(frames: &'a [F]) -> Result<Self, FrameError> {
        let (topic, sequence, payload) = match frames {
            [sequence, payload] => (&[][..], sequence, payload),
            [topic, sequence, payload] => (topic.as_ref(), sequence, payload),
            [delimiter, topic, sequence, payload] => {
                empty(delimiter.as_ref())?;
                (topic.as_ref(), sequence, payload)
            }
            _ => return Err(FrameError::Count { found: frames.len(), least: 2, most: 4 }),
        };
        let (sequence, payload) = (number(sequence.as_ref())?, payload.as_ref());
        match (sequence, payload.len()) {
            (END, 0) => Ok(Self::End),
            (END, _) | (_, 0) => Err(FrameError::HalfEnd { sequence, payload: payload.len() }),
            _ => Ok(Self::Batch(Message { topic, sequence, payload })),
        }
    }

    /// The frames of the reply, as a publisher sends them after the identity of the client.
    #[must_use]
    pub fn to_frames(&self, form: ReplayForm) -> Vec<Vec<u8>> {
        let message = match *self {
            Self::Batch(message) => message,
            Self::End => Message { topic: b"", sequence: END, payload: b"" },
        };
        let [topic, sequence, payload] = message.to_frames();
        match form {
            ReplayForm::WithTopic => vec![Vec::new(), topic, sequence, payload],
            ReplayForm::WithoutTopic => vec![Vec::new(), sequence, payload],
        }
    }
}

/// Whether replies repeat the topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "they do or they do not: complete by nature")]
pub enum ReplayForm {
    /// As vLLM does from 0.26 on, and SGLang from 0.5.22 on.
    WithTopic,
    /// As they did before.
    WithoutTopic,
}

/// The frames that ask for every batch from `start` on, for a DEALER socket.
///
/// A publisher answers with those it still has, which may begin later, and then with an end. A REQ socket will not
/// do: it gets the first reply only.
#[must_use]
pub fn replay_request(start: u64) -> [Vec<u8>; 2] {
    [Vec::new(), start.to_be_bytes().to_vec()]
}

/// Reads a replay request as a publisher gets it after the identity of the client: the first batch asked for.
///
/// # Errors
///
/// When the frames are anything else. Without the empty frame real publishers do not answer either.
pub fn parse_replay_request<F: AsRef<[u8]>>(frames: &[F]) -> Result<u64, FrameError> {
    match frames {
        [delimiter, start] => {
            empty(delimiter.as_ref())?;
            number(start.as_ref())
        }
        _ => Err(FrameError::Count { found: frames.len(), least: 2, most: 2 }),
    }
}

/// Why frames are not the message they should be. Something else is on this address, or a release not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Too few or too many frames.
    #[error("{found} frames, expected {least} to {most}")]
    Count {
        /// Frames there are.
        found: usize,
        /// The fewest that would do.
        least: usize,
        /// The most that would do.
        most: usize,
    },
    /// The frame in the sequence's place is no sequence.
    #[error("sequence frame of {length} bytes, expected 8")]
    Sequence {
        /// Bytes of that frame.
        length: usize,
    },
    /// The first frame should be empty.
    #[error("first frame of {length} bytes, expected an empty one")]
    Delimiter {
        /// Bytes of that frame.
        length: usize,
    },
    /// An empty payload under an ordinary sequence, or the end's sequence with a payload.
    #[error("reply {sequence:x} with a payload of {payload} bytes is neither a batch nor the end")]
    HalfEnd {
        /// The reply's sequence.
        sequence: u64,
        /// Bytes of its payload.
        payload: usize,
    },
}

/// The sequence of the end of a replay: minus one, in the engines' eyes.
const END: u64 = u64::MAX;

fn number(frame: &[u8]) -> Result<u64, FrameError> {
    frame.try_into().map(u64::from_be_bytes).map_err(|_| FrameError::Sequence { length: frame.len() })
}

fn empty(frame: &[u8]) -> Result<(), FrameError> {
    if frame.is_empty() { Ok(()) } else { Err(FrameError::Delimiter { length: frame.len() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEVEN: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 7];
    const NOTHING: &[u8] = b"";
    const ENDS: &[u8] = &[0xff; 8];

    #[test]
    fn a_live_message_has_three_frames_and_comes_back_as_them() {
        let frames = [b"topic", SEVEN, b"payload"];
        let message = Message::parse(&frames).unwrap();
        assert_eq!(message, Message { topic: b"topic", sequence: 7, payload: b"payload" });
        assert_eq!(message.to_frames(), frames);

        assert_eq!(Message::parse::<&[u8]>(&[]), Err(FrameError::Count { found: 0, least: 3, most: 3 }));
        assert_eq!(Message::parse(&[b"", b"", SEVEN, b"p"]), Err(FrameError::Count { found: 4, least: 3, most: 3 }));
        assert_eq!(Message::parse(&[b"t", &SEVEN[1..], b"p"]), Err(FrameError::Sequence { length: 7 }));
        assert_eq!(Message::parse(&[SEVEN, b"t", b"p"]), Err(FrameError::Sequence { length: 1 }));
    }

    #[test]
    fn a_reply_is_read_in_every_form() {
        let batch = |topic| Ok(ReplayReply::Batch(Message { topic, sequence: 7, payload: b"p" }));
        for (frames, reply) in [
            (&[NOTHING, b"t", SEVEN, b"p"][..], batch(b"t")),
            (&[NOTHING, b"", SEVEN, b"p"], batch(b"")),
            (&[NOTHING, SEVEN, b"p"], batch(b"")),
            (&[b"t", SEVEN, b"p"], batch(b"t")),
            (&[SEVEN, b"p"], batch(b"")),
            // A topic may look like a sequence.
            (&[NOTHING, SEVEN, SEVEN, b"p"], batch(SEVEN)),
            (&[SEVEN, SEVEN, b"p"], batch(SEVEN)),
            (&[NOTHING, b"", ENDS, b""], Ok(ReplayReply::End)),
            (&[NOTHING, ENDS, b""], Ok(ReplayReply::End)),
            (&[ENDS, b""], Ok(ReplayReply::End)),
            (&[], Err(FrameError::Count { found: 0, least: 2, most: 4 })),
            (&[SEVEN], Err(FrameError::Count { found: 1, least: 2, most: 4 })),
            (&[NOTHING, b"", b"", SEVEN, b"p"], Err(FrameError::Count { found: 5, least: 2, most: 4 })),
            (&[&b"id"[..], b"t", SEVEN, b"p"], Err(FrameError::Delimiter { length: 2 })),
            (&[NOTHING, b"t", b"p"], Err(FrameError::Sequence { length: 1 })),
            (&[NOTHING, SEVEN, b""], Err(FrameError::HalfEnd { sequence: 7, payload: 0 })),
            (&[NOTHING, ENDS, b"pp"], Err(FrameError::HalfEnd { sequence: u64::MAX, payload: 2 })),
        ] {
            assert_eq!(ReplayReply::parse(frames), reply, "{frames:?}");
        }
    }

    #[test]
    fn a_reply_comes_back_from_its_own_frames() {
        let batch = ReplayReply::Batch(Message { topic: b"t", sequence: 7, payload: b"p" });
        assert_eq!(batch.to_frames(ReplayForm::WithTopic), [b"", &b"t"[..], SEVEN, b"p"]);
        assert_eq!(batch.to_frames(ReplayForm::WithoutTopic), [b"", SEVEN, b"p"]);
        assert_eq!(ReplayReply::End.to_frames(ReplayForm::WithTopic), [b"", b"", ENDS, b""]);
        assert_eq!(ReplayReply::End.to_frames(ReplayForm::WithoutTopic), [b"", ENDS, b""]);
    }

    #[test]
    fn a_request_is_answered_only_with_its_empty_frame() {
        assert_eq!(replay_request(7), [b"", SEVEN]);
        assert_eq!(parse_replay_request(&replay_request(u64::MAX - 1)), Ok(u64::MAX - 1));
        assert_eq!(parse_replay_request(&[SEVEN]), Err(FrameError::Count { found: 1, least: 2, most: 2 }));
        assert_eq!(parse_replay_request(&[SEVEN, SEVEN]), Err(FrameError::Delimiter { length: 8 }));
        assert_eq!(parse_replay_request(&[NOTHING, &SEVEN[2..]]), Err(FrameError::Sequence { length: 6 }));
    }

    #[test]
    fn errors_name_what_was_seen() {
        let text = |error: FrameError| error.to_string();
        assert_eq!(text(FrameError::Sequence { length: 7 }), "sequence frame of 7 bytes, expected 8");
        assert_eq!(text(FrameError::Count { found: 1, least: 2, most: 4 }), "1 frames, expected 2 to 4");
    }
}
