//! Other APIs than OpenAI's completions: how their streams end, the form of their errors, and which of them have one leg.

use crate::world::*;
use routing_exec::{DispatchError, DispatchOutcome};

const START: &str = "event: message_start\ndata: {\"type\":\"message_start\"}\n\n";
const STOP: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
const CREATED: &str = "event: response.created\ndata: {\"type\":\"response.created\"}\n\n";
const COMPLETED: &str = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{}}\n\n";

fn stream(path: &'static str, chunks: &[&'static str]) -> World {
    let setup = Setup::new(REUSABLE, single(&[0])).path(path).config(|config| config.require_done = true);
    let mut world = setup.start();
    world.stream(0);
    for chunk in chunks {
        world.chunk(0, chunk);
    }
    world.end(0);
    world
}

#[test]
fn each_api_says_in_its_own_way_that_a_stream_is_whole() {
    for (path, chunks) in [
        ("/v1/messages", &[START, STOP][..]),
        ("/v1/messages", &[START, "event: message", "_stop\ndata: {}\n\n"]),
        ("/v1/responses", &[CREATED, COMPLETED]),
        ("/v1/responses", &[CREATED, "event: response.incomplete\ndata: {}\n\n"]),
        // What says that it failed has said all.
        (
            "/v1/messages",
            &[START, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n"],
        ),
    ] {
        let world = stream(path, chunks);
        assert_eq!(world.outcome(), &DispatchOutcome::Completed(200), "{chunks:?}");
        assert_eq!(world.text(), chunks.concat());
    }
    for (path, chunks) in [
        ("/v1/messages", [START, COMPLETED]),
        ("/v1/responses", [CREATED, STOP]),
        ("/v1/messages", [START, "data: [DONE]\n\n"]),
    ] {
        let world = stream(path, &chunks);
        let is_truncated = matches!(world.outcome(), DispatchOutcome::Failed(DispatchError::Truncated(_)));
        assert!(is_truncated && world.charged() == [0], "{chunks:?}: {:?}", world.outcome());
    }
}

#[test]
fn a_response_that_failed_is_held_against_its_pod() {
    let world = stream("/v1/responses", &[CREATED, "event: response.failed\ndata: {}\n\n"]);
    assert_eq!((world.outcome(), world.charged()), (&DispatchOutcome::Completed(200), vec![0]));
    let mut world = Setup::new(REUSABLE, single(&[0, 1])).path("/v1/messages").start();
    world.stream(0).chunk(0, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\"}}\n\n");
    world.stream(1).chunk(1, START).chunk(1, STOP).end(1);
    assert_eq!((world.pods(), world.charged()), (vec![0, 1], vec![0]), "nothing was sent yet: another pod is tried");
}

#[test]
fn anthropics_clients_get_errors_of_its_form() {
    let world = stream("/v1/messages", &[START]);
    let last = world.text().strip_prefix(START).unwrap();
    let expected = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"";
    assert!(last.starts_with(expected) && !last.contains("[DONE]"), "{last}");
    for (path, is_anthropics) in [("/v1/messages", true), ("/v1/messages/count_tokens", true), ("/v1/responses", false)]
    {
        let mut world = Setup::new(REUSABLE, single(&[0])).path(path).start();
        world.fails(0, connect());
        let body = String::from_utf8(world.answer.as_ref().unwrap().body().to_vec()).unwrap();
        assert_eq!(body.starts_with(r#"{"type":"error","error":{"type":"#), is_anthropics, "{path}: {body}");
    }
}

#[test]
fn what_generates_nothing_goes_to_one_pod() {
    for dialect in [REUSABLE, CONCURRENT] {
        for path in ["/v1/embeddings", "/v1/messages/count_tokens"] {
            let mut world = Setup::new(dialect, two(&[0], &[1, 2])).path(path).start();
            assert_eq!(world.pods(), [1], "{path}: the last step's pod does all of it");
            world.head(0, 500);
            world.head(1, 200).chunk(1, "{}").end(1);
            assert_eq!((world.pods(), world.outcome()), (vec![1, 2], &DispatchOutcome::Completed(200)));
        }
        assert_eq!(Setup::new(dialect, two(&[0], &[1])).path("/v1/messages").start().pods()[0], 0);
    }
}
