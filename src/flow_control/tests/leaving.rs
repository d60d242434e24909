//! Clients that leave, and settings that change meanwhile.

use super::*;
use crate::routed::{Attempt, Routed};

type Routing<'t> = Pin<Box<dyn Future<Output = Result<Routed, ApiError>> + Send + 't>>;

impl Scene {
    /// A request whose host sends it itself.
    fn route(&self, key: &str) -> Routing<'_> {
        let (parts, ()) = http::Request::post("/v1/completions").body(()).unwrap().into_parts();
        let request = self.router.read(parts, Bytes::from_static(br#"{"model":"m","prompt":"p"}"#)).unwrap();
        Box::pin(self.router.admit_routed(request.classify(FlowClass::new(0, key)), &self.clock))
    }
}

/// The attempt of a request, once it goes.
fn goes(routing: &mut Routing<'_>) -> Option<Attempt> {
    let Poll::Ready(routed) = routing.as_mut().poll(&mut Context::from_waker(Waker::noop())) else { return None };
    let mut routed = routed.unwrap();
    let pod = routed.first_pod().unwrap();
    Some(routed.begin(0, pod).unwrap())
}

/// Whoever goes away when the first token came has had its prompt computed: its next one is not before those who stay.
#[test]
fn who_leaves_in_the_midst_of_an_answer_pays_for_it() {
    let scene = Scene::new(1, 1, FlowConfig::default());
    let busy = scene.going();
    let [mut honest, mut cheat] = ["honest", "cheat"].map(|key| scene.route(key));
    assert!(goes(&mut honest).is_none() && goes(&mut cheat).is_none());
    drop(busy);
    let served = goes(&mut honest).expect("it came first");
    honest = scene.route("honest");
    assert!(goes(&mut honest).is_none());
    served.succeeded();
    for _ in 0..4 {
        if let Some(mut attempt) = goes(&mut cheat) {
            cheat = scene.route("cheat");
            assert!(goes(&mut cheat).is_none());
            attempt.first_token();
        }
    }
    assert!(goes(&mut honest).is_some(), "it waits for who never stays");
}

/// A pod that fails is not its client's fault: who was sent there is not behind others for it.
#[test]
fn what_a_pod_failed_is_given_back() {
    let scene = Scene::new(1, 1, FlowConfig::default());
    let busy = scene.going();
    let mut unlucky: Vec<_> = (0..3).map(|_| scene.route("unlucky")).collect();
    let mut others: Vec<_> = (0..2).map(|_| scene.route("other")).collect();
    assert!(unlucky.iter_mut().chain(&mut others).all(|routing| goes(routing).is_none()));
    drop(busy);
    let (mut failed, mut served) = (0, 0);
    while served < 2 {
        if let Some(attempt) = unlucky.get_mut(failed).and_then(goes) {
            failed += 1;
            attempt.failed(routing_exec::Failure::FirstByteTimeout);
        } else {
            goes(&mut others[served]).expect("one of the two").succeeded();
            served += 1;
        }
    }
    assert_eq!(failed, 3, "it had nothing of what it was charged");
}

#[test]
fn who_waits_may_wait_for_longer_once_settings_say_so() {
    let lives = |seconds| FlowConfig::default().band(BandConfig::new("all").time_to_live(Duration::from_secs(seconds)));
    let scene = Scene::new(1, 1, lives(2));
    let guard = scene.going();
    let mut waits = scene.admit(0, "k");
    assert!(now(&mut waits).is_none());
    let update = RouterUpdate::new().flow_control(move |state| Ok(control(1, &lives(60), state)));
    scene.router.apply(update).unwrap();
    for _ in 0..20 {
        scene.clock.advance(Duration::from_secs(1));
        assert!(now(&mut waits).is_none());
    }
    drop(guard);
    assert!(now(&mut waits).unwrap().is_ok());
}
