//! Any pieces give the same frames; any bytes are survived, within the bounds.

use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits { max_message_bytes: 1000, max_frames: 4 };

/// Everything that comes of bytes in pieces of these sizes, one after the other, and the most memory it took.
fn decode(bytes: &[u8], pieces: &[usize]) -> (Vec<Item>, Option<ZmqError>, usize) {
    let (mut decoder, mut items, mut most) = (Decoder::new(LIMITS), Vec::new(), 0);
    let (mut rest, mut sizes) = (bytes, pieces.iter().cycle());
    while !rest.is_empty() {
        let size = sizes.next().copied().unwrap_or(rest.len()).clamp(1, rest.len());
        let (mut piece, after) = rest.split_at(size);
        rest = after;
        loop {
            match decoder.decode(&mut piece) {
                Ok(Some(item)) => items.push(item),
                Ok(None) => break,
                Err(error) => return (items, Some(error), most),
            }
            most = most.max(decoder.allocated());
        }
        most = most.max(decoder.allocated());
    }
    (items, None, most)
}

fn encode(items: &[Item]) -> Vec<u8> {
    let mut out = Vec::new();
    for item in items {
        match item {
            Item::Message(frames) => encode_message(frames, &mut out),
            Item::Command(body) => encode_command(body, &mut out),
        }
    }
    out
}

fn item() -> impl Strategy<Value = Item> {
    let frame = || prop::collection::vec(any::<u8>(), 0..300);
    let message = prop::collection::vec(frame(), 1..4).prop_filter("fits", |frames| frames.concat().len() <= 1000);
    prop_oneof![message.prop_map(Item::Message), frame().prop_map(Item::Command)]
}

proptest! {
    #[test]
    fn any_pieces_give_what_was_sent(items in prop::collection::vec(item(), 0..12), pieces in prop::collection::vec(1..400_usize, 1..9)) {
        let (decoded, error, _) = decode(&encode(&items), &pieces);
        prop_assert_eq!(error, None);
        prop_assert_eq!(decoded, items);
    }

    #[test]
    fn any_bytes_are_survived_within_the_bounds(
        items in prop::collection::vec(item(), 0..4),
        noise in prop::collection::vec(prop_oneof![3 => 0..10_u8, 1 => any::<u8>()], 0..600),
        pieces in prop::collection::vec(1..400_usize, 1..9),
    ) {
        let mut bytes = encode(&items);
        bytes.extend(noise);
        let (one, one_error, _) = decode(&bytes, &[bytes.len().max(1)]);
        let (many, error, most) = decode(&bytes, &pieces);
        prop_assert_eq!((one, one_error), (many, error));
        prop_assert!(most <= LIMITS.max_message_bytes + MAX_COMMAND_BYTES + 200, "{} bytes", most);
        prop_assert!(most <= 2 * bytes.len() + 200, "{} bytes for {}", most, bytes.len());
    }
}

#[test]
fn a_frame_that_announces_too_much_is_refused_by_its_header() {
    let long = |length: u64| [&[LONG][..], &length.to_be_bytes()].concat();
    for length in [1001, 1 << 30, 1 << 62, u64::MAX] {
        let refused = ZmqError::MessageTooLarge { announced: length, most: 1000 };
        assert_eq!(decode(&long(length), &[9]).1, Some(refused));
    }
    let (items, error, most) = decode(&long(1000), &[9]);
    assert_eq!((items.len(), error), (0, None));
    assert!(most < 100, "{most} bytes for nothing");
    // All frames together, whatever each announces.
    let both = [&[MORE, 200][..], &[7; 200], &long(801)].concat();
    assert_eq!(decode(&both, &[5]).1, Some(ZmqError::MessageTooLarge { announced: 1001, most: 1000 }));
    let twice = [&[MORE, 2][..], &[7; 2], &long(u64::MAX)].concat();
    assert_eq!(decode(&twice, &[5]).1, Some(ZmqError::MessageTooLarge { announced: u64::MAX, most: 1000 }));
    let command = [&[LONG | COMMAND][..], &(1_u64 << 40).to_be_bytes()].concat();
    assert_eq!(
        decode(&command, &[5]).1,
        Some(ZmqError::CommandTooLarge { announced: 1 << 40, most: MAX_COMMAND_BYTES })
    );
}

#[test]
fn tiny_frames_are_counted() {
    let tiny = [MORE, 0].repeat(1_000_000);
    let (items, error, most) = decode(&tiny, &[16 << 10]);
    assert_eq!((items.len(), error), (0, Some(ZmqError::TooManyFrames { most: 4 })));
    assert!(most < 400, "{most} bytes");
}

#[test]
fn a_command_may_come_in_the_middle_of_a_message() {
    let bytes = [&[MORE, 1, b'a'][..], &[COMMAND, 1, b'c'], &[0, 1, b'b']].concat();
    let (items, error, _) = decode(&bytes, &[1]);
    assert_eq!(error, None);
    assert_eq!(items, [Item::Command(vec![b'c']), Item::Message(vec![vec![b'a'], vec![b'b']])]);
}

#[test]
fn flags_that_mean_nothing_are_refused_at_once() {
    for flags in [8, 0x80, 0xff, COMMAND | MORE] {
        assert_eq!(decode(&[flags], &[1]).1, Some(ZmqError::Frame), "{flags}");
    }
}
