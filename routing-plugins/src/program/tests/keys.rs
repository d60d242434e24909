//! Keys of programs: where they are looked for, whose they are, and which counts.

use std::sync::Arc;

use kv_index::BlockSize;
use routing_core::{Fleet, PodInfo, Request, RoutingInput, RoutingPlan, Workflow};

use super::*;
use crate::{Hashing, PluginState, profiles};

/// The profile `programs` on one pod, and a prompt of its own for each request: programs are told by their keys alone.
struct Fixture {
    fleet: Fleet,
    workflow: Workflow,
    next: u64,
}

impl Fixture {
    fn new() -> Self {
        let index: Arc<Index> = Arc::new(Index::new(Config::default()));
        let fleet = Fleet::new(1, [PodInfo::new(index.join("pod").unwrap(), "pod")]);
        let state = PluginState::new(index, Hashing::Given(BlockSize::new(BLOCK as u32).unwrap()));
        Self { fleet, workflow: profiles::programs(&state).build().unwrap().into(), next: 0 }
    }

    /// The program of a request with these headers and this body, of whom the closure says.
    fn program(&mut self, headers: &[(&str, &str)], body: &str, of: impl Fn(Request<'_>) -> Request<'_>) -> u64 {
        self.next += 1;
        let hashes = [BlockHash::new(self.next), BlockHash::new(self.next << 32)];
        let request = of(Request::new("m", start()).hashes(&hashes).headers(&headers).body(body.as_bytes()).seed(1));
        let mut plan = RoutingPlan::default();
        let input = RoutingInput::new(&request, &self.fleet);
        self.workflow.decide(&mut self.workflow.workspace(), input, &mut plan).unwrap();
        plan.steps()[0].program.unwrap().program
    }

    fn named(&mut self, headers: &[(&str, &str)], body: &str) -> u64 {
        self.program(headers, body, |request| request)
    }
}

#[test]
fn each_header_that_is_documented_names_a_program() {
    for name in [
        "x-session-id",
        "x-conversation-id",
        "x-claude-code-session-id",
        "session-id",
        "thread-id",
        "x-dynamo-session-id",
        "x-agent-id",
    ] {
        let mut fixture = Fixture::new();
        let [first, other, again] = ["a", "b", "a"].map(|value| fixture.named(&[(name, value)], "{}"));
        assert!(first == again && first != other, "{name}");
        assert_ne!(fixture.named(&[("x-nobody-knows-id", "a")], "{}"), first, "{name}");
    }
}

#[test]
fn each_field_that_is_documented_names_a_program() {
    for field in [
        r#"{"conversation":"ID"}"#,
        r#"{"conversation":{"id":"ID"}}"#,
        r#"{"prompt_cache_key":"ID"}"#,
        r#"{"metadata":{"user_id":"ID"}}"#,
        r#"{"session_id":"ID"}"#,
    ] {
        let mut fixture = Fixture::new();
        let [first, other, again] = ["a", "b", "a"].map(|value| fixture.named(&[], &field.replace("ID", value)));
        assert!(first == again && first != other, "{field}");
    }
    // Its answer is on one pod, and says nothing of the turns before.
    let mut fixture = Fixture::new();
    let [first, again] = [0; 2].map(|_| fixture.named(&[], r#"{"previous_response_id":"resp_1"}"#));
    assert_ne!(first, again);
}

#[test]
fn the_first_that_is_found_counts() {
    let mut fixture = Fixture::new();
    let body = r#"{"conversation":"c","prompt_cache_key":"p"}"#;
    let session = fixture.named(&[("x-agent-id", "x"), ("x-session-id", "s")], body);
    assert_eq!(fixture.named(&[("x-session-id", "s")], "{}"), session);
    assert_ne!(fixture.named(&[("x-agent-id", "x")], body), session, "one agent may have several sessions");
    let conversation = fixture.named(&[], body);
    assert_eq!(fixture.named(&[], r#"{"conversation":"c"}"#), conversation);
    assert_ne!(fixture.named(&[], r#"{"prompt_cache_key":"p"}"#), conversation);
}

/// Neither a user's name nor a key counts for another client.
#[test]
fn clients_and_users_have_programs_of_their_own() {
    let mut fixture = Fixture::new();
    let headers = &[("x-session-id", "s")][..];
    let mut of = |client: Option<&'static str>, user: Option<&'static str>| {
        fixture.program(headers, "{}", |mut request| {
            (request.client, request.tenant) = (client, user);
            request
        })
    };
    let who =
        [(None, None), (Some("team-a"), None), (Some("team-b"), None), (Some("team-a"), Some("u")), (None, Some("u"))];
    let programs = who.map(|(client, user)| of(client, user));
    assert_eq!(who.map(|(client, user)| of(client, user)), programs, "the same again");
    let distinct: std::collections::BTreeSet<u64> = programs.into_iter().collect();
    assert_eq!(distinct.len(), who.len());
}
