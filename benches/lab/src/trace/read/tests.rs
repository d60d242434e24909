use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

const OPEN: &str = r#"{"timestamp": 1000, "input_length": 1100, "output_length": 3, "hash_ids": [0, 7, 8]}
{"timestamp": 1000, "input_length": 20, "output_length": 0, "hash_ids": [9]}
{"timestamp": 3000.5, "input_length": 1024, "output_length": 1, "hash_ids": [0, 5]}
{"timestamp": 3000.5, "input_length": 1536, "output_length": 1, "hash_ids": [0, 7, 6]}
"#;

const CLOSED: &str = r#"{"timestamp": 500, "session_id": "a", "input_length": 40, "output_length": 100, "hash_ids": [1, 2]}
{"timestamp": 1500, "session_id": "a", "input_length": 0, "output_length": 5, "hash_ids": []}
{"timestamp": 2500, "session_id": "a", "input_length": 57, "output_length": 100, "hash_ids": [1, 2, 3]}
{"timestamp": 400, "session_id": "b", "input_length": 7, "output_length": 10, "hash_ids": []}
{"timestamp": 410, "session_id": "b", "input_length": 33, "output_length": 10, "hash_ids": [4, 5]}
{"timestamp": 99999, "session_id": "b", "input_length": 48, "output_length": 10, "hash_ids": [4, 5, 6]}
"#;

fn fault(text: &str) -> (usize, Fault) {
    match Trace::read(text.as_bytes()) {
        Err(TraceError::Request(line, fault)) => (line, fault),
        other => panic!("{other:?}"),
    }
}

#[test]
fn lines_become_requests_spread_over_their_time() {
    let trace = Trace::read(OPEN.as_bytes()).expect("sound");
    assert_eq!((trace.block, trace.skipped), (512, 0));
    let starts: Vec<_> = trace.requests.iter().map(|request| request.start).collect();
    assert_eq!(starts, [Start::At(0), Start::At(1_000_250), Start::At(2_000_500), Start::At(2_000_500)]);
    assert_eq!(trace.requests[0].ids, [0, 7, 8]);
    assert_eq!(trace.requests[1].output, 1);
}

#[test]
fn a_second_id_in_common_makes_a_conversation() {
    let trace = Trace::read(OPEN.as_bytes()).expect("sound");
    assert_eq!(trace.requests.iter().map(|request| request.session).collect::<Vec<_>>(), [0, 1, 2, 0]);
}

#[test]
fn what_branches_into_many_is_no_conversation() {
    let sessions = |branches: usize| {
        let row = |id: usize| {
            format!(r#"{{"timestamp": 0, "input_length": 60, "output_length": 1, "hash_ids": [0, 1, 2, {}]}}"#, id + 3)
        };
        // The last one says again what the first did.
        let lines: Vec<String> = (0..branches).chain([0]).map(row).collect();
        Trace::read(lines.join("\n").as_bytes()).expect("sound").stats().sessions
    };
    assert_eq!(sessions(MOST_BRANCHES), 1);
    assert_eq!(sessions(MOST_BRANCHES + 1), MOST_BRANCHES + 1);
}

#[test]
fn turns_follow_answers_also_over_rows_without_tokens() {
    let trace = Trace::read(CLOSED.as_bytes()).expect("sound");
    assert_eq!((trace.block, trace.skipped), (16, 1));
    let starts: Vec<_> = trace.requests.iter().map(|request| (request.session, request.start)).collect();
    let expected = [
        (1, Start::At(0)),
        // The answer took longer than the gap, they say.
        (1, Start::After(0, 0)),
        (0, Start::At(100_000)),
        (0, Start::After(2, 2_000_000 - 800_000)),
        (1, Start::After(1, MOST_THINK_US)),
    ];
    assert_eq!(starts, expected);
}

#[test]
fn a_gzipped_file_reads_the_same() {
    let path = std::env::temp_dir().join(format!("pointsman-trace-{}.jsonl.gz", std::process::id()));
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(OPEN.as_bytes()).expect("to memory");
    std::fs::write(&path, packed.finish().expect("to memory")).expect("a temporary file");
    let trace = Trace::open(&path);
    std::fs::remove_file(&path).expect("it is there");
    assert_eq!(trace.expect("sound"), Trace::read(OPEN.as_bytes()).expect("sound"));
    assert!(matches!(Trace::open(&path), Err(TraceError::Read(_))));
}

#[test]
fn times_are_spread_up_to_the_latest_and_refused_after_it() {
    let row = |ms: f64| format!(r#"{{"timestamp": {ms:?}, "input_length": 8, "output_length": 1, "hash_ids": [0]}}"#);
    let latest = MOST_US as f64 / 1e3;
    let mut lines = vec![row(0.0); 1 << 12];
    lines.push(row(latest));
    let trace = Trace::read(lines.join("\n").as_bytes()).expect("sound");
    let step = MOST_US >> 12;
    assert!((0..).zip(&trace.requests).all(|(at, request)| request.start == Start::At(at * step)));
    for late in [latest * 1.001, 1e300] {
        assert_eq!(fault(&format!("{}\n{}", row(0.0), row(late))), (2, Fault::Late));
        let turns = CLOSED.replace("99999", &format!("{late:?}"));
        assert_eq!(fault(&turns), (6, Fault::Late));
    }
    assert_eq!(fault(&format!("{}\n{}", row(1e300), row(0.0))), (2, Fault::Early));
}

#[test]
fn errors_name_the_line() {
    let broken = format!("{OPEN}{{\"timestamp\": 1");
    assert!(matches!(Trace::read(broken.as_bytes()), Err(TraceError::Line(5, _))));
    let early = format!("{OPEN}{}", OPEN.lines().next().expect("a line"));
    assert_eq!(fault(&early), (5, Fault::Early));
    let error = Trace::read(early.as_bytes()).expect_err("too early");
    assert_eq!(error.to_string(), "line 5 of the trace comes before the one above it");
    assert_eq!(fault(&CLOSED.replace("410", "390")), (5, Fault::Early));
    assert_eq!(fault(&OPEN.replace("1024", "24")), (3, Fault::Length));
    assert_eq!(fault(&OPEN.replace("[9]", "[]")), (2, Fault::Length));
    assert_eq!(fault(&CLOSED.replace(": 40", ": 0")), (1, Fault::Length));
    assert_eq!(fault(&OPEN.replace("[0, 5]", "[5, 7]")), (3, Fault::Unchained));
    assert_eq!(fault(&format!("{OPEN}{CLOSED}")), (5, Fault::Session));
    assert!(matches!(Trace::read(io::empty()), Err(TraceError::Empty)));
    let bare = CLOSED.lines().nth(1).expect("a line");
    assert!(matches!(Trace::read(bare.as_bytes()), Err(TraceError::Empty)));
}
