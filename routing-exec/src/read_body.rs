//! A body that was read: one pass over a client's JSON for all who want something of it.

use bytes::Bytes;
use json_edit::{JsonError, Member, Object};

use crate::client_fields::ClientFields;

/// A client's body, and what a dispatch has to know of it.
///
/// Whoever reads a body before it is dispatched, for its prompt or its model, makes one on the way, so that a long body is
/// looked through once. It can be made by reading alone: that a body has no
/// [restricted fields](ClientFields::RESTRICTED) is never taken on trust.
///
/// # Examples
///
/// ```
/// use bytes::Bytes;
/// use routing_exec::ReadBody;
///
/// let (body, mut model) = (Bytes::from_static(br#"{"model": "m", "stream": true}"#), None);
/// let read = ReadBody::read(&body, |member| {
///     if member.is("model") {
///         model = member.value().as_str();
///     }
/// })?;
/// assert_eq!((model.as_deref(), read.streams()), (Some("m"), true));
/// # Ok::<(), json_edit::JsonError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReadBody {
    body: Bytes,
    streams: bool,
    /// Whether it has a member that is restricted, or that a restricted field may be in.
    may_be_restricted: bool,
}

impl ReadBody {
    /// Reads a body, and shows each of its members on the way.
    ///
    /// # Errors
    ///
    /// Where it stops being a JSON object; some members were shown then.
    pub fn read<'b>(body: &'b Bytes, mut show: impl FnMut(Member<'b>)) -> Result<Self, JsonError> {
        let (mut streams, mut may_be_restricted) = (false, false);
        Object::parse_each(body, |member| {
            // Of members of one name the last counts.
            if member.is("stream") {
                streams = member.value().as_bool().unwrap_or(false);
            }
            may_be_restricted |= ClientFields::RESTRICTED.iter().any(|field| member.is(field.path[0]));
            show(member);
        })?;
        Ok(Self { body: body.clone(), streams, may_be_restricted })
    }

    /// The body, as the client wrote it.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Whether its answer is to be streamed.
    #[must_use]
    pub fn streams(&self) -> bool {
        self.streams
    }

    pub(crate) fn may_be_restricted(&self) -> bool {
        self.may_be_restricted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &'static str) -> Result<ReadBody, JsonError> {
        ReadBody::read(&Bytes::from_static(body.as_bytes()), |_| {})
    }

    #[test]
    fn of_members_of_one_name_the_last_counts() {
        for (body, streams) in [
            (r#"{"stream":true}"#, true),
            (r#"{"stream":true,"stream":false}"#, false),
            (r#"{"stream":false,"str\u0065am":true}"#, true),
            (r#"{"stream":true,"stream":"yes"}"#, false),
            (r#"{"n":{"stream":true}}"#, false),
            ("{}", false),
        ] {
            assert_eq!(read(body).expect("an object").streams(), streams, "{body}");
        }
        assert!(read("[1]").is_err() && read(r#"{"stream":true"#).is_err());
    }

    #[test]
    fn every_restricted_field_is_suspected_however_it_is_written() {
        for field in ClientFields::RESTRICTED {
            let name = field.path[0];
            let escaped = format!("\\u{:04x}{}", u32::from(name.as_bytes()[0]), &name[1..]);
            for name in [name, &escaped] {
                let body = Bytes::from(format!(r#"{{"n":1,"{name}":{{}},"m":2}}"#));
                assert!(ReadBody::read(&body, |_| {}).expect("an object").may_be_restricted(), "{name}");
            }
        }
        assert!(!read(r#"{"model":"m","messages":[{"kv_transfer_params":{}}]}"#).expect("one").may_be_restricted());
    }
}
