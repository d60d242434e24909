//! Minimum shares of bands: deficits in tokens, kept while a band waits.
//!
//! Each token that leaves owes a band that waits its share of it. A band that is owed anything goes first, pays for what it takes, and
//! may be left with debts: then it waits until others had theirs. So over time it gets its share, however large its requests
//! are, and credit is not saved up while nothing of it waits.

/// What bands are owed.
#[derive(Clone, Debug)]
pub(super) struct Owed {
    bands: Vec<Account>,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    /// Parts of [`WHOLE`].
    share: i64,
    /// Tokens, in parts of [`WHOLE`].
    owed: i64,
}

impl Owed {
    pub(super) fn new(shares: impl Iterator<Item = f32>) -> Self {
        let account = |share| Account { share: (f64::from(share) * WHOLE as f64).round() as i64, owed: 0 };
        Self { bands: shares.map(account).collect() }
    }

    /// So many tokens of a band leave. `waits` says of each band whether some of it waited, this one included.
    pub(super) fn left(&mut self, band: usize, tokens: u64, waits: impl Fn(usize) -> bool) {
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX).min(MOST_TOKENS);
        for (at, account) in self.bands.iter_mut().enumerate() {
            account.owed += account.share * tokens;
            if !waits(at) {
                account.owed = account.owed.min(0);
            }
            account.owed = account.owed.clamp(-WHOLE * MOST_TOKENS, WHOLE * MOST_TOKENS);
        }
        let account = &mut self.bands[band];
        if account.owed > 0 {
            account.owed -= WHOLE * tokens;
        }
    }

    /// Nothing of a band waits any more.
    pub(super) fn emptied(&mut self, band: usize) {
        self.bands[band].owed = self.bands[band].owed.min(0);
    }

    /// Whether a band is owed anything.
    pub(super) fn is_owed(&self, band: usize) -> bool {
        self.bands[band].owed > 0
    }

    /// Bands, given from the highest priority to the lowest, in the order of their turn: those that are owed most first.
    pub(super) fn sort(&self, bands: &mut [usize]) {
        bands.sort_by_key(|&band| std::cmp::Reverse(self.bands[band].owed.max(0)));
    }
}

/// What a share is a part of.
const WHOLE: i64 = 10_000;
/// More than any request has; products of it and shares do not overflow.
const MOST_TOKENS: i64 = 1 << 40;
