//! Three pods on two continents, for examples that care where pods are.

use kv_index::{Config, Index, JoinError};
use routing_core::{Fleet, Load, PodInfo};

/// Oslo and Rome in `eu`, nearly full and half full; Reno in `us`, empty.
///
/// # Errors
///
/// Never: there is room for three.
pub fn fleet_of_cities() -> Result<Fleet, JoinError> {
    let index: Index = Index::new(Config::default());
    let mut pods = Vec::new();
    for (name, region, kv_used) in [("oslo", "eu", 0.9), ("rome", "eu", 0.5), ("reno", "us", 0.0)] {
        let info = PodInfo::new(index.join(name)?, name).label("region", region);
        pods.push(info.load(Load { kv_used, ..Load::default() }));
    }
    Ok(Fleet::new(1, pods))
}
