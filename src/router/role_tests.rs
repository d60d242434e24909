//! Roles at every entry of a router: a profile that its dialect cannot carry is refused, and nothing changes.

use std::sync::Arc;

use routing_core::{ProfileBuilder, Role, StepBuilder, WorkflowBuilder};
use routing_exec::handoff::{Dialect, Handoff, HandoffError, HandoffMode, HandoffReuse, LegBody, LegContext};
use routing_plugins::{PluginState, profiles};

use super::{Router, RouterBuilder, RouterError, RouterFault, RouterUpdate};
use crate::PodSpec;

/// An encoder before the pod that serves.
fn encodes(state: &PluginState) -> WorkflowBuilder {
    let profile = |state| -> ProfileBuilder { profiles::round_robin(state) };
    WorkflowBuilder::new()
        .step(StepBuilder::new("see", profile(state)).role(Role::Encode))
        .step(StepBuilder::new("serve", profile(state)))
}

fn builder() -> RouterBuilder {
    Router::builder("m").pod(PodSpec::new("a", "http://a")).tokens_given()
}

fn nixl() -> Arc<dyn Handoff> {
    Dialect::Nixl.handoff(Arc::new(()))
}

#[derive(Debug)]
struct Carries;

impl Handoff for Carries {
    fn carries(&self, _: Role) -> bool {
        true
    }

    fn mode(&self) -> HandoffMode {
        HandoffMode::Serial
    }

    fn reuse(&self) -> HandoffReuse {
        HandoffReuse::Always
    }

    fn leg(&self, leg: &LegContext<'_>) -> Result<LegBody, HandoffError> {
        Ok(LegBody::new(leg.body.clone()))
    }
}

/// Says which step, which role and which dialect.
#[track_caller]
fn assert_refused(error: &RouterError, dialect: &str) {
    let [RouterFault::Role(fault)] = &error.faults[..] else { panic!("{error}") };
    assert_eq!((&*fault.step, fault.role, &*fault.dialect), ("see", Role::Encode, dialect));
    for word in ["`see`", "`encode`", dialect] {
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn a_router_is_not_built_for_a_role_that_its_dialect_cannot_carry() {
    assert_refused(&builder().profile(encodes).build().unwrap_err(), "nixl");
    for dialect in Dialect::ALL {
        let error = builder().profile(encodes).handoff(dialect.handoff(Arc::new(()))).build().unwrap_err();
        assert_refused(&error, dialect.name());
    }
    assert!(builder().profile(encodes).handoff(Arc::new(Carries)).build().is_ok());
}

#[test]
fn nor_changed_to_one_by_its_profile_or_by_its_dialect() {
    let router = builder().build().unwrap();
    assert_refused(&router.set_profile(encodes).unwrap_err(), "nixl");
    let joins = RouterUpdate::new().profile(encodes).pods([PodSpec::new("b", "http://b")]);
    assert_refused(&router.apply(joins).unwrap_err(), "nixl");
    assert_eq!((&*router.profile(), router.pod("b")), ("total_latency", None), "nothing changed");

    router.apply(RouterUpdate::new().profile(encodes).handoff(Arc::new(Carries))).unwrap();
    assert_refused(&router.apply(RouterUpdate::new().handoff(nixl())).unwrap_err(), "nixl");
    assert_eq!(router.live().dispatch.handoff.name(), "custom");
    router.apply(RouterUpdate::new().profile("least_load").handoff(nixl())).unwrap();
}

#[cfg(feature = "serde")]
#[test]
fn nor_by_a_document() {
    const DOCUMENT: &str = r#"{"plugins": [{"type": "round_robin_picker"}],
        "profiles": [{"name": "any", "pick": "round_robin_picker"}],
        "workflow": {"steps": [{"name": "see", "profile": "any", "role": "encode"}, {"name": "serve", "profile": "any"}]}}"#;
    let document = |state: &PluginState| crate::document(&mut serde_json::Deserializer::from_str(DOCUMENT), state);
    assert_refused(&builder().profile(document).build().unwrap_err(), "nixl");
    let router = builder().build().unwrap();
    assert_refused(&router.set_profile(document).unwrap_err(), "nixl");
    assert!(builder().profile(document).handoff(Arc::new(Carries)).build().is_ok());
}

#[test]
fn a_pod_that_only_encodes_gets_no_request_of_any_stock_profile() {
    for name in profiles::NAMES.iter().filter(|name| !name.starts_with("prefill")) {
        let encoder = PodSpec::new("e", "http://e").role(Role::Encode);
        let router = builder().pod(encoder).profile(name.to_string()).build().unwrap();
        let pods = (0..20).map(|_| router.route(&router.request(router.now()).tokens(&[1; 64])).unwrap().first_pod());
        assert!(pods.into_iter().all(|pod| pod == router.pod("a")), "{name}");
    }
}
