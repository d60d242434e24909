//! Roles: a plan that the dialect cannot carry ends before anything is sent, and one that it can is carried out.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

use std::sync::Arc;

use crate::world::*;
use http::Request;
use routing_core::{FailurePolicy, Role, RoutingPlan};
use routing_exec::handoff::{self, Handoff, HandoffError, HandoffMode, HandoffReuse, LegBody, LegContext};
use routing_exec::{ClientRequest, Dispatch, DispatchConfig, DispatchError, DispatchOutcome};

fn world(handoff: Arc<dyn Handoff>, plan: RoutingPlan) -> World {
    let mut world = Setup::new(REUSABLE, plan.clone()).idle();
    let (parts, ()) = Request::post("/v1/chat/completions").body(()).unwrap().into_parts();
    let request = ClientRequest::new(&parts, r#"{"messages":[]}"#.into(), 7);
    world.dispatch = Dispatch::new(DispatchConfig::new(handoff, Arc::new(())), request, plan, Vec::new());
    world.dispatch.start(world.now);
    world.perform();
    world
}

fn assert_refused(world: &World, dialect: &str) {
    let error = world.error();
    let DispatchError::Role(refused) = error else { panic!("{error:?}") };
    assert_eq!((&*refused.step, refused.role, &*refused.dialect), ("encode", Role::Encode, dialect));
    assert_eq!((world.status().as_u16(), error.is_retryable(), error.code()), (501, false, "role_not_carried"));
    for word in ["`encode`", dialect] {
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn no_stock_dialect_sends_anything_of_a_plan_with_an_encode_step() {
    let plans = [
        plan([step("encode", &[0])]),
        plan([step("encode", &[0]), step("decode", &[2])]),
        plan([step("encode", &[0]).on_failure(FailurePolicy::Skip), step("prefill", &[1]), step("decode", &[2])]),
        plan([step("prefill", &[1]), step("encode", &[0]), step("decode", &[2])]),
    ];
    for dialect in handoff::Dialect::ALL {
        for plan in &plans {
            let world = world(dialect.handoff(Arc::new(())), plan.clone());
            assert!(world.sent.is_empty(), "{dialect:?}");
            assert_refused(&world, dialect.name());
        }
    }
}

#[test]
fn nor_of_a_new_plan() {
    let decode = step("decode", &[2]).on_failure(FailurePolicy::Replan);
    let mut world = world(handoff::Dialect::Plain.handoff(Arc::new(())), plan([decode]));
    world.fails(0, connect());
    world.replanned(Some(plan([step("encode", &[0]), step("decode", &[3])])));
    assert_eq!(world.pods(), [2]);
    assert_refused(&world, "plain");
}

/// A dialect of a host's own: the encoder gets a request of its own making, and the others what it said.
#[derive(Debug)]
struct Encodes;

impl Handoff for Encodes {
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
        let said = String::from_utf8_lossy(leg.encoded.unwrap_or(b"nothing"));
        let mut made = LegBody::new(format!("{} of {said}", leg.step));
        made.path = (leg.role == Role::Encode).then(|| "/encode".parse().unwrap());
        Ok(made)
    }
}

#[test]
fn a_dialect_that_carries_it_is_told_what_the_encoder_said() {
    let three = plan([step("encode", &[0]), step("prefill", &[1]), step("decode", &[2])]);
    let mut world = world(Arc::new(Encodes), three);
    world.head(0, 200).chunk(0, "a cat").end(0);
    world.head(1, 200).chunk(1, "blocks").end(1);
    world.head(2, 200).chunk(2, "meow").end(2);
    assert_eq!((world.outcome(), world.text()), (&DispatchOutcome::Completed(200), "meow"));
    let requests: Vec<String> = (0..3).map(|at| world.request(at)).collect();
    assert_eq!(requests, ["encode of nothing", "prefill of a cat", "decode of a cat"]);
    let paths: Vec<&str> = world.sent.iter().map(|sent| sent.request.uri().path()).collect();
    assert_eq!(paths, ["/encode", "/v1/chat/completions", "/v1/chat/completions"]);
}

#[test]
fn an_encoder_has_as_long_as_a_prefill_pod() {
    let mut world = Setup::new(REUSABLE, plan([step("encode", &[0]), step("decode", &[2])])).start();
    world.pass(seconds(9));
    assert!(world.report.is_none());
    world.pass(seconds(1));
    assert_eq!((world.status().as_u16(), world.charged()), (504, vec![0]));
}
