//! Startup of simulated pods and a gateway in front of them.

use std::io;

use pointsman_gateway::{Config, Gateway, StartError};

use crate::fleet::{Fleet, FleetShape};

/// Why pods or gateway cannot start: the machine lacks something, or the profile is unknown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartupError {
    #[error("the pods cannot start")]
    Fleet(#[source] io::Error),
    #[error("the gateway cannot start")]
    Gateway(#[source] StartError),
}

/// Starts pods, and a gateway whose configuration `configure` completes.
pub(crate) async fn start(
    shape: &FleetShape,
    configure: impl FnOnce(&mut Config),
) -> Result<(Fleet, Gateway), StartupError> {
    let fleet = Fleet::start(shape).await.map_err(StartupError::Fleet)?;
    let mut config = fleet.gateway_config();
    configure(&mut config);
    let gateway = Gateway::start(config).await.map_err(StartupError::Gateway)?;
    Ok((fleet, gateway))
}

/// Prefill-only pods of a fleet under a profile; 0 if all pods do both. Half of them: with fewer, first tokens wait for a prefill
/// pod; with more, decode steps get longer.
pub(crate) fn prefill_pods(profile: &str, pods: usize) -> usize {
    if profile.starts_with("prefill_decode") { (pods / 2).max(1) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_pods_prefill_where_the_profile_tells_them_apart() {
        let split = |profile: &str| [2, 8, 16].map(|pods| prefill_pods(profile, pods));
        assert_eq!(split("cache_aware"), [0, 0, 0]);
        assert_eq!(split("prefill_decode"), [1, 4, 8]);
        assert_eq!(split("prefill_decode_conditional"), [1, 4, 8]);
    }
}
