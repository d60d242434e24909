//! Events that come late or never: how much worse does a policy get?

use std::fmt::{self, Write};

use super::{Cell, Site, grid, ttft_p99};
use crate::SimulateError;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::policy::{DEFAULT, Policy};

/// Runs the default, or the policies asked for, with events late and lost; tells it as Markdown.
///
/// # Errors
///
/// As [`simulate`](crate::online::simulate).
pub fn events(options: &Options) -> Result<String, SimulateError> {
    let sites = Site::all(options)?;
    let names = if options.compare.is_empty() { vec![DEFAULT.to_owned()] } else { options.compare.clone() };
    let policies = names.iter().map(|name| Policy::find(name)).collect::<Result<Vec<_>, _>>()?;
    let mut worlds = Vec::new();
    for (delay, loss) in TROUBLES {
        let mut troubled = sites.clone();
        for site in &mut troubled {
            (site.config.event_delay_us, site.config.event_loss) = (delay * 1_000, loss);
        }
        worlds.push((delay, loss, grid(&troubled, &policies, options)?));
    }
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = tell(&mut text, &sites, &worlds);
    Ok(text)
}

fn tell(text: &mut String, sites: &[Site], worlds: &[(u64, f64, Vec<Cell>)]) -> fmt::Result {
    writeln!(text, "| trace | load | policy | events | p99 | against the first | hits | against the first |")?;
    writeln!(text, "|---|---|---|---|---|---|---|---|")?;
    let Some((.., sound)) = worlds.first() else { return Ok(()) };
    for (at, first) in sound.iter().enumerate() {
        for (delay, loss, cells) in worlds {
            let cell = &cells[at];
            let (p99, hits) = (cell.median(ttft_p99), cell.median(Outcome::hit_rate));
            writeln!(
                text,
                "| {} | {}% | `{}` | {delay} ms late, {:.0}% lost | {p99:.2} s | {:.2} | {:.1}% | {:.2} |",
                sites[cell.site].name,
                cell.load,
                cell.policy(),
                loss * 100.0,
                p99 / first.median(ttft_p99).max(f64::MIN_POSITIVE),
                hits * 100.0,
                hits / first.median(Outcome::hit_rate).max(f64::MIN_POSITIVE),
            )?;
        }
    }
    Ok(())
}

/// Milliseconds until an event is known, and the share that never is; the first is as good as it gets.
const TROUBLES: [(u64, f64); 6] = [(1, 0.0), (100, 0.0), (1_000, 0.0), (1, 0.01), (1, 0.1), (1_000, 0.1)];
