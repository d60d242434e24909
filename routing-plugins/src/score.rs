//! Scorers: how good each candidate is, 0..=1.
