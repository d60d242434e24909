//! Bad days of a fleet, through a router with its defaults: pods that fail fast, faults of all of them at once, and requests
//! that fail everywhere.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

mod fast_failures;
mod poison;
mod setup;
mod whole_fleet;
