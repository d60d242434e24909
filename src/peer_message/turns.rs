//! Wire format of turns: where sessions and programs went.
//!
//! ```text
//! magic "pmp" · kind (2) · fingerprint (8) · gateway (8) · sequence
//! pods:  count, then each: length of name, name
//! turns: count, then each: pod, age ms, kind of turn, then
//!        of a session: length of its table's name, name, key (8)
//!        of a program: tenant (8), key (8), tokens, service
//! ```
//!
//! A kind of its own, where a summary has its version: whoever does not know of turns takes it for a summary of another release, skips it, and
//! hears all summaries as before.

use std::time::Duration;

use routing_plugins::peers::{GatewayId, PeerTurn, PeerTurns, TurnOf};
use routing_plugins::program::ToldProgram;

use super::{MAGIC, PeerMessageError, Reader, put};

/// Whether bytes begin as a message of turns.
pub(crate) fn is_turns(bytes: &[u8]) -> bool {
    bytes.strip_prefix(MAGIC).is_some_and(|rest| rest.first() == Some(&KIND))
}

/// The message of turns, from a router with this fingerprint.
pub(crate) fn encode(terms: u64, told: &PeerTurns) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64 + told.pods.len() * 24 + told.turns.len() * 40);
    bytes.extend_from_slice(MAGIC);
    bytes.push(KIND);
    bytes.extend_from_slice(&terms.to_le_bytes());
    bytes.extend_from_slice(&told.gateway.get().to_le_bytes());
    put(&mut bytes, told.sequence);
    put(&mut bytes, told.pods.len() as u64);
    told.pods.iter().for_each(|name| put_name(&mut bytes, name));
    // A kind of turn that is not known here is not told.
    let turns = told.turns.iter().filter(|turn| matches!(turn.of, TurnOf::Session { .. } | TurnOf::Program(_)));
    put(&mut bytes, turns.clone().count() as u64);
    for turn in turns {
        put(&mut bytes, turn.pod.into());
        put(&mut bytes, u64::try_from(turn.age.as_millis()).unwrap_or(u64::MAX));
        match &turn.of {
            TurnOf::Session { table, session } => {
                bytes.push(SESSION);
                put_name(&mut bytes, table);
                bytes.extend_from_slice(&session.to_le_bytes());
            }
            TurnOf::Program(ToldProgram { tenant, key, tokens, service }) => {
                bytes.push(PROGRAM);
                bytes.extend_from_slice(&tenant.to_le_bytes());
                bytes.extend_from_slice(&key.to_le_bytes());
                put(&mut bytes, *tokens);
                put(&mut bytes, *service);
            }
            _ => {}
        }
    }
    bytes
}

/// The fingerprint of who sent a message of turns, and the turns.
pub(crate) fn decode(bytes: &[u8]) -> Result<(u64, PeerTurns), PeerMessageError> {
    let mut reader = Reader { bytes, at: 0 };
    if reader.take(MAGIC.len())? != MAGIC || reader.byte()? != KIND {
        return Err(PeerMessageError::Version);
    }
    let (terms, gateway, sequence) = (reader.fixed()?, GatewayId::new(reader.fixed()?), reader.number()?);
    let pods = reader.list(1, Reader::name)?;
    let turns = reader.list(LEAST_TURN, turn)?;
    match bytes.len() - reader.at {
        0 => Ok((terms, PeerTurns { gateway, sequence, pods, turns })),
        rest => Err(PeerMessageError::Trailing(rest)),
    }
}

fn turn(reader: &mut Reader<'_>) -> Result<PeerTurn, PeerMessageError> {
    let (pod, age) = (reader.small()?, Duration::from_millis(reader.number()?));
    let of = match reader.byte()? {
        SESSION => TurnOf::Session { table: reader.name()?, session: reader.fixed()? },
        PROGRAM => TurnOf::Program(ToldProgram {
            tenant: reader.fixed()?,
            key: reader.fixed()?,
            tokens: reader.number()?,
            service: reader.number()?,
        }),
        _ => return Err(reader.wrong()),
    };
    Ok(PeerTurn { pod, age, of })
}

fn put_name(bytes: &mut Vec<u8>, name: &str) {
    put(bytes, name.len() as u64);
    bytes.extend_from_slice(name.as_bytes());
}

const KIND: u8 = 2;
const SESSION: u8 = 0;
const PROGRAM: u8 = 1;

/// Bytes that a turn takes at least.
const LEAST_TURN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> PeerTurns {
        let age = Duration::from_millis(1_234);
        let session = TurnOf::Session { table: "sessions".into(), session: u64::MAX };
        let program = TurnOf::Program(ToldProgram { tenant: 1 << 60, key: 7, tokens: 100_000, service: u64::MAX });
        let turns = [(0, session), (1, program)].map(|(pod, of)| PeerTurn { pod, age, of }).to_vec();
        PeerTurns { gateway: GatewayId::new(3), sequence: 300, pods: vec!["a".into(), "pöd".into()], turns }
    }

    #[test]
    fn what_is_encoded_is_decoded_and_is_no_summary() {
        let bytes = encode(9, &told());
        assert!(is_turns(&bytes) && !is_turns(b"pmp") && !is_turns(b"pmp\x01"));
        assert_eq!(decode(&bytes), Ok((9, told())));
        assert_eq!(super::super::decode(&bytes), Err(PeerMessageError::Version), "who knows summaries alone skips it");
        let many = PeerTurns { turns: (0..4_096).map(|_| told().turns[1].clone()).collect(), ..told() };
        assert!(encode(9, &many).len() < 4_096 * 40, "{}", encode(9, &many).len());
    }

    #[test]
    fn every_beginning_of_a_message_is_cut_short_and_every_longer_one_too_long() {
        let bytes = encode(9, &told());
        for end in 0..bytes.len() {
            assert!(matches!(decode(&bytes[..end]), Err(PeerMessageError::Truncated(at)) if at == end), "{end}");
        }
        assert_eq!(decode(&[&bytes[..], b"!"].concat()), Err(PeerMessageError::Trailing(1)));
    }

    proptest::proptest! {
        /// Whatever the bytes, and whichever of a message's are others, there is an answer.
        #[test]
        fn no_bytes_do_harm(
            noise in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
            changes in proptest::collection::vec((0..120usize, proptest::prelude::any::<u8>()), 0..4),
        ) {
            let _ = decode(&noise);
            let mut bytes = encode(9, &told());
            for (at, byte) in changes {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            if let Ok((terms, told)) = decode(&bytes) {
                proptest::prop_assert_eq!(decode(&encode(terms, &told)), Ok((terms, told)));
            }
        }
    }
}
