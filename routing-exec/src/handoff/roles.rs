//! Roles that a dialect carries: plans with others are refused before anything is sent.

use routing_core::Role;

use super::Handoff;

/// A step has a role that the dialect has no request for. The operator can act, by another dialect or a workflow without the step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "step `{step}` has the role `{}`, which the dialect `{dialect}` cannot carry: its pod would be sent the whole completion; give a \
     handoff whose `carries` says that it can, or leave the step out",
    word(*role)
)]
#[non_exhaustive]
pub struct RoleNotCarried {
    /// The step.
    pub step: Box<str>,
    /// Its role.
    pub role: Role,
    /// The dialect's name.
    pub dialect: Box<str>,
}

/// Checks that a dialect carries the role of every step, as [`Workflow::roles`](routing_core::Workflow::roles) lists them. Routers
/// do so when they are built or changed; a host that makes dispatches of its own does so when it reads its configuration, since a
/// [`Dispatch`](crate::Dispatch) can only refuse each request.
///
/// # Errors
///
/// With the first step whose role it does not carry.
///
/// # Examples
///
/// ```
/// use routing_core::Role;
/// use routing_exec::handoff::{Nixl, check_roles};
///
/// assert!(check_roles(&Nixl::default(), [("prefill", Role::Prefill), ("decode", Role::Decode)]).is_ok());
/// let error = check_roles(&Nixl::default(), [("see", Role::Encode)]).unwrap_err();
/// assert!(error.to_string().starts_with("step `see` has the role `encode`, which the dialect `nixl` cannot carry"));
/// ```
pub fn check_roles<'s>(
    handoff: &dyn Handoff,
    steps: impl IntoIterator<Item = (&'s str, Role)>,
) -> Result<(), RoleNotCarried> {
    let mut refused = steps.into_iter().filter(|(_, role)| !handoff.carries(*role));
    refused
        .next()
        .map_or(Ok(()), |(step, role)| Err(RoleNotCarried { step: step.into(), role, dialect: handoff.name().into() }))
}

fn word(role: Role) -> &'static str {
    match role {
        Role::Prefill => "prefill",
        Role::Decode => "decode",
        Role::Encode => "encode",
        Role::Both => "both",
    }
}
