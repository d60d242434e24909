//! Made-up requests: conversations that grow, bursts of one new prompt, prompts without tokens. Drawn from numbers alone.

use pointsman_test_support::SplitMix64;

/// Tokens of a block.
pub(crate) const BLOCK: u32 = 16;
/// No prompt is longer, in blocks.
const MOST_BLOCKS: u64 = 300;
const CONVERSATIONS: usize = 24;

/// Draws by remainder: what is recorded was drawn so.
pub(crate) struct Chance(SplitMix64);

impl Chance {
    /// What a number draws for a purpose, whatever was drawn before.
    pub(crate) fn of(purpose: u64, number: u64) -> Self {
        Self(SplitMix64::new(SplitMix64::new(number).next_u64() ^ purpose.wrapping_mul(0xd1b5_4a32_d192_ed03)))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// Anything from `least` to `most`, both included.
    pub(crate) fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    /// True in so many of a hundred.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// A request as it comes in.
pub(crate) struct Asked {
    /// None where the gateway could make none.
    pub(crate) tokens: Option<Vec<u32>>,
    pub(crate) body: String,
    pub(crate) session: String,
    pub(crate) adapter: Option<&'static str>,
    pub(crate) zone: Option<&'static str>,
    pub(crate) priority: i32,
    pub(crate) output: u32,
    pub(crate) seed: u64,
    /// Time since the one before, in milliseconds.
    pub(crate) after_ms: u64,
}

/// How long each conversation is by now, in tokens.
#[derive(Default)]
pub(crate) struct Traffic {
    lengths: [u64; CONVERSATIONS],
}

impl Traffic {
    /// The request of a number. To be called for 0, 1, 2 and so on: conversations remember their length.
    pub(crate) fn ask(&mut self, number: u64) -> Asked {
        let mut chance = Chance::of(1, number);
        let bursts = number % 40 < 8;
        let (story, tokens) = if bursts {
            // One new prompt, eight times at once.
            let mut all = Chance::of(2, number / 40);
            let story = 1_000 + number / 40;
            (story, prompt(story, all.within(1, MOST_BLOCKS) * u64::from(BLOCK)))
        } else if chance.percent(25) {
            let longest = chance.one_of(&[2, 20, MOST_BLOCKS]);
            (2_000 + number, prompt(2_000 + number, chance.within(1, longest * u64::from(BLOCK))))
        } else {
            let conversation = chance.below(CONVERSATIONS);
            let length = &mut self.lengths[conversation];
            *length += chance.within(8, 30 * u64::from(BLOCK));
            if *length > MOST_BLOCKS * u64::from(BLOCK) {
                *length = u64::from(BLOCK);
            }
            (conversation as u64, prompt(conversation as u64, *length))
        };
        let session = if chance.percent(70) { format!("session-{story}") } else { String::new() };
        let waits = chance.one_of(&[0, 20, 150, 700, 2_500]);
        Asked {
            tokens: chance.percent(95).then_some(tokens),
            body: format!("{{\"user\": \"u-{}\", \"prompt\": \"story {story}\"}}", story % 7),
            session,
            // A conversation stays with its adapter, and thereby with its blocks.
            adapter: [None, None, None, Some("poet"), Some("coder")][(story % 5) as usize],
            zone: chance.one_of(&[None, Some("a"), Some("b")]),
            priority: chance.one_of(&[0, 0, 0, -1, 1, 2]),
            output: chance.within(1, 800) as u32,
            seed: chance.next(),
            // Now and then there is a long silence: sessions and recent work are forgotten.
            after_ms: if number % 90 == 89 {
                320_000
            } else if bursts && number % 40 > 0 {
                0
            } else {
                waits
            },
        }
    }
}

/// So many tokens of a story. Stories of one kind begin with the same instructions.
fn prompt(story: u64, tokens: u64) -> Vec<u32> {
    let kind = story % 4;
    let instructions = [5, 40, 130, 640][kind as usize];
    let token =
        |at: u64| Chance::of(if at < instructions { 10 + kind } else { 100 + story }, at).next() as u32 % 50_000;
    (0..tokens).map(token).collect()
}
