//! The client's body: trailers, announced lengths, and how it ends.

use super::*;

#[test]
fn trailers_come_last_and_end_the_body() {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-cost", "3".parse().unwrap());
    let acts = vec![events(), chunk("data: a\n\n"), Act::Trailers(trailers.clone())];
    let (_, body, report) = carried_out(acts.clone());
    assert_eq!(body, (b"data: a\n\n".to_vec(), Some(trailers), false));
    assert_eq!(report.outcome, DispatchOutcome::Completed(200));
    // A server that does not ask again after trailers has let go of everything all the same.
    let clock = Clock::default();
    let world = Pods::new(&clock, move |_, _| acts.clone());
    let keeper = Keeper::default();
    let Poll::Ready(answer) = poll(&mut executor(world, clock).execute(dispatch(&pods(1)), keeper.clone())) else {
        panic!()
    };
    let mut body = answer.into_body();
    assert!(matches!(poll_frame(&mut body), Poll::Ready(Some(Ok(frame))) if frame.is_data()));
    assert!(!body.is_end_stream());
    assert!(matches!(poll_frame(&mut body), Poll::Ready(Some(Ok(frame))) if frame.is_trailers()));
    assert!(body.is_end_stream());
    assert_eq!((keeper.0.holds.load(SeqCst), keeper.0.reports.lock().unwrap().len()), (0, 1));
}

#[test]
fn an_answer_whose_body_ends_at_once_says_so_before_it_is_read() {
    let clock = Clock::default();
    let world = Pods::new(&clock, |_, _| vec![head(204, "text/plain")]);
    let Poll::Ready(answer) = poll(&mut executor(world, clock).execute(dispatch(&pods(1)), ())) else { panic!() };
    assert_eq!(answer.status(), 204);
    assert!(answer.body().is_end_stream());
    assert_eq!(answer.body().size_hint().exact(), Some(0));
}

#[test]
fn a_body_that_said_how_long_it_is_counts_down() {
    let clock = Clock::default();
    let said = Response::builder().header("content-length", "5").body(()).unwrap();
    let world = Pods::new(&clock, move |_, _| vec![Act::Head(said.clone()), chunk("abc"), chunk("de")]);
    let Poll::Ready(answer) = poll(&mut executor(world, clock).execute(dispatch(&pods(1)), ())) else { panic!() };
    let mut body = answer.into_body();
    for left in [5, 2] {
        assert_eq!(body.size_hint().exact(), Some(left));
        assert!(matches!(poll_frame(&mut body), Poll::Ready(Some(Ok(_)))));
    }
    assert_eq!(body.size_hint().exact(), Some(0));
    assert!(matches!(poll_frame(&mut body), Poll::Ready(None)));
    assert!(matches!(poll_frame(&mut body), Poll::Ready(None)), "and stays over");
}

/// What became of a dispatch whose body was read for so many pieces and then dropped.
fn read_and_dropped(acts: Vec<Act>, pieces: usize) -> DispatchOutcome {
    let clock = Clock::default();
    let said = Response::builder().header("content-length", "5").body(()).unwrap();
    let acts: Vec<Act> = [Act::Head(said)].into_iter().chain(acts).collect();
    let (world, keeper) = (Pods::new(&clock, move |_, _| acts.clone()), Keeper::default());
    let Poll::Ready(answer) = poll(&mut executor(world, clock).execute(dispatch(&pods(1)), keeper.clone())) else {
        panic!()
    };
    let mut body = answer.into_body();
    for _ in 0..pieces {
        assert!(matches!(poll_frame(&mut body), Poll::Ready(Some(Ok(_)))));
    }
    drop(body);
    let mut reports = keeper.0.reports.lock().unwrap();
    assert_eq!(reports.len(), 1);
    reports.remove(0).outcome
}

/// Servers drop a body when all of its announced length is sent, without asking whether it has an end.
#[test]
fn a_client_that_has_all_that_was_announced_has_not_left() {
    let whole = vec![chunk("abc"), chunk("de")];
    assert_eq!(read_and_dropped(whole.clone(), 2), DispatchOutcome::Completed(200));
    assert_eq!(read_and_dropped(whole, 1), DispatchOutcome::ClientDisconnected);
    let trailers = Act::Trailers(HeaderMap::from_iter([("x-sum".parse().unwrap(), "1".parse().unwrap())]));
    assert_eq!(read_and_dropped(vec![chunk("abcde"), trailers], 1), DispatchOutcome::Completed(200));
}

#[test]
fn what_comes_behind_an_announced_length_is_not_lost_on_who_reads_on() {
    let clock = Clock::default();
    let said = Response::builder().header("content-length", "2").body(()).unwrap();
    let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), "1".parse().unwrap())]);
    let world =
        Pods::new(&clock, move |_, _| vec![Act::Head(said.clone()), chunk("ab"), Act::Trailers(trailers.clone())]);
    let Poll::Ready(answer) = poll(&mut executor(world, clock).execute(dispatch(&pods(1)), ())) else { panic!() };
    let mut body = answer.into_body();
    assert!(matches!(poll_frame(&mut body), Poll::Ready(Some(Ok(frame))) if frame.is_data()));
    assert!(!body.is_end_stream());
    assert!(matches!(poll_frame(&mut body), Poll::Ready(Some(Ok(frame))) if frame.is_trailers()));
    assert!(body.is_end_stream());
    assert!(matches!(poll_frame(&mut body), Poll::Ready(None)));
}

#[test]
fn a_body_that_breaks_off_is_an_error_or_an_event_and_then_over() {
    let (_, (bytes, _, broken), report) = carried_out(vec![head(200, "application/json"), chunk("{\"a\":"), Act::Cut]);
    assert_eq!((&*bytes, broken), (&b"{\"a\":"[..], true));
    assert!(matches!(report.outcome, DispatchOutcome::Failed(_)));
    let (_, (bytes, _, broken), _) = carried_out(vec![events(), chunk("data: a\n\n"), chunk("data: {\"b\""), Act::Cut]);
    let text = String::from_utf8(bytes).unwrap();
    assert!(
        !broken && text.starts_with("data: a\n\ndata: {\"b\"\n\nevent: error\n") && text.ends_with("\n\n"),
        "{text}"
    );
}
