//! A batch that is killed and goes on, and its journal under damage.
#![allow(clippy::unwrap_used, reason = "what helps a test may stop it")]

use std::collections::BTreeMap;
use std::io::{self, Cursor, Write};
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use routing_exec::TransportExecutor;
use routing_exec::batch::journal::{
    BatchDigest, Durable, Journal, JournalError, JournalReader, ResultSink, SyncPolicy, open,
};
use routing_exec::batch::{
    BatchError, BatchFailure, BatchResponse, BatchResult, BatchRunner, BatchRunnerConfig, BatchUsage, ConcurrencyLimit,
    ResultOrder,
};

use crate::executor_world::{Act, Clock, block_on, dispatch_config, pods};
use crate::world::*;

const REQUESTS: u32 = 30;

fn fleet(clock: &Clock) -> Fleet {
    Fleet::new(clock, 2, |_, index, before| match index % 10 {
        3 => says(400),
        5 if before == 0 => vec![Act::Wait(Duration::from_millis(2)), Act::Cut],
        _ => answers(index, u64::from(index * 13 % 9)),
    })
}

fn config(order: ResultOrder) -> BatchRunnerConfig {
    BatchRunnerConfig::default().limit(ConcurrencyLimit::default().requests(3).tokens(None)).order(order)
}

/// What a journal holds, the last record of a place winning, and where its whole part ends.
fn read(bytes: &[u8]) -> (BTreeMap<u32, BatchResult>, Option<u64>) {
    let mut reader = JournalReader::new(bytes, digest(), REQUESTS).unwrap();
    let results = (&mut reader).map(|record| record.unwrap().1).map(|result| (result.index, result)).collect();
    (results, reader.end())
}

/// Runs what a journal does not have, until so many results were taken or all were; what was sent.
fn run(disk: &Disk, order: ResultOrder, most: usize) -> Vec<u32> {
    let (clock, pods) = (Clock::default(), pods(2));
    let fleet = fleet(&clock);
    let bytes = disk.0.lock().unwrap().clone();
    let (found, end) = read(&bytes);
    let journal = match end {
        Some(end) => {
            disk.0.lock().unwrap().truncate(end as usize);
            Journal::resume(disk.clone(), digest(), REQUESTS, SyncPolicy::Each)
        }
        None => {
            disk.0.lock().unwrap().clear();
            Journal::create(disk.clone(), digest(), REQUESTS, SyncPolicy::Each).unwrap()
        }
    };
    let rest: Vec<u32> = (0..REQUESTS).filter(|index| !found.contains_key(index)).collect();
    let executor: TransportExecutor<_, _> = TransportExecutor::new(fleet.clone(), clock.clone());
    let mut runner =
        BatchRunner::new(executor, clock.clone(), dispatch_config(), Made::new(4), REQUESTS, split(&rest, &pods, 4))
            .config(config(order))
            .completed(found.keys().copied())
            .journal(journal);
    for _ in 0..most {
        match block_on(&clock, runner.next()) {
            Some(result) => assert!(!found.contains_key(&result.unwrap().index), "it is not handed out again"),
            None => break,
        }
    }
    fleet.log.indices()
}

fn whole(disk: &Disk) -> Vec<Essence> {
    essence(&read(&disk.0.lock().unwrap()).0.into_values().collect::<Vec<_>>())
}

fn order() -> impl Strategy<Value = ResultOrder> {
    prop_oneof![Just(ResultOrder::Completion), Just(ResultOrder::Index)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Killed several times, each time with some of its journal's last bytes lost, a batch ends with the results of one that
    /// was not, and sends nothing again whose record was whole.
    #[test]
    fn killed_anywhere_and_resumed_it_is_as_if_it_had_not_been(
        kills in prop::collection::vec((0_usize..40, 0_usize..200), 0..4),
        order in order(),
    ) {
        let undisturbed = Disk::default();
        run(&undisturbed, order, usize::MAX);
        let disk = Disk::default();
        for (taken, lost) in kills {
            let before = read(&disk.0.lock().unwrap()).0;
            let sent = run(&disk, order, taken);
            prop_assert!(sent.iter().all(|index| !before.contains_key(index)), "{:?}", sent);
            let mut bytes = disk.0.lock().unwrap();
            let left = bytes.len().saturating_sub(lost);
            bytes.truncate(left);
        }
        run(&disk, order, usize::MAX);
        prop_assert_eq!(whole(&disk), whole(&undisturbed));
    }

    /// A cut or a flipped bit costs what lies behind it and nothing before it, and is never read as a result.
    #[test]
    fn damage_costs_what_lies_behind_it_and_invents_nothing(
        results in prop::collection::vec(result(), 0..12),
        cut in any::<prop::sample::Index>(),
        flip in prop::option::of((any::<prop::sample::Index>(), 0_u8..8)),
    ) {
        let disk = Disk::default();
        let mut journal = Journal::create(disk.clone(), digest(), REQUESTS, SyncPolicy::AtEnd).unwrap();
        let mut ends = vec![36];
        for result in &results {
            journal.write(result).unwrap();
            ends.push(disk.0.lock().unwrap().len());
        }
        let mut bytes = disk.0.lock().unwrap().clone();
        let cut = cut.index(bytes.len() + 1);
        bytes.truncate(cut);
        let mut damaged = cut;
        if let Some((at, bit)) = flip.filter(|_| cut > 0) {
            let at = at.index(cut);
            bytes[at] ^= 1 << bit;
            damaged = damaged.min(at);
        }
        let reader = JournalReader::new(&*bytes, digest(), REQUESTS);
        let whole = ends.iter().filter(|end| **end <= damaged).count();
        match reader {
            Err(error) => {
                prop_assert_eq!(error, JournalError::NotAJournal);
                prop_assert!(damaged < 36);
            }
            Ok(mut reader) => {
                let found: Vec<BatchResult> = (&mut reader).map(|record| record.unwrap().1).collect();
                prop_assert_eq!(found.len(), whole.saturating_sub(1));
                prop_assert_eq!(&found[..], &results[..found.len()]);
                prop_assert_eq!(reader.end(), whole.checked_sub(1).map(|last| ends[last] as u64));
                // What is read one after the other is read by its place too.
                let mut starts = ends[..whole].iter();
                let mut by_place = JournalReader::new(Cursor::new(&bytes), digest(), REQUESTS).unwrap();
                for result in &found {
                    prop_assert_eq!(&by_place.read_at(*starts.next().unwrap() as u64).unwrap(), result);
                }
            }
        }
    }

    /// Any bytes at all are read without a panic.
    #[test]
    fn any_bytes_behind_a_header_are_read(tail in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = Journal::create(Vec::new(), digest(), REQUESTS, SyncPolicy::Each).unwrap().into_inner();
        bytes.extend(tail);
        prop_assert_eq!(read(&bytes).0.len(), 0);
    }
}

fn result() -> impl Strategy<Value = BatchResult> {
    let answer = (any::<u16>(), prop::collection::vec(any::<u8>(), 0..100))
        .prop_map(|(status, body)| Ok(BatchResponse { status, body: body.into() }));
    let failure = ("[a-z_]{0,12}", ".{0,20}")
        .prop_map(|(code, message)| Err(BatchFailure { code: code.into(), message: message.into() }));
    let outcome = prop_oneof![answer, failure];
    (0..REQUESTS, outcome, any::<u32>(), any::<[u32; 3]>(), any::<u32>()).prop_map(
        |(index, outcome, attempts, [prompt, cached, output], micros)| BatchResult {
            index,
            outcome,
            attempts,
            usage: BatchUsage { prompt, cached, output },
            duration: Duration::from_micros(u64::from(micros)),
            pod: None,
        },
    )
}

#[test]
fn another_batchs_journal_is_refused_and_left_as_it_is() {
    let mine = Journal::create(Vec::new(), digest(), REQUESTS, SyncPolicy::Each).unwrap().into_inner();
    let refused = |bytes: &[u8], batch, requests| JournalReader::new(bytes, batch, requests).err();
    assert_eq!(refused(&mine, digest(), REQUESTS), None);
    assert_eq!(refused(&mine, digest().with(b"more"), REQUESTS), Some(JournalError::OtherBatch));
    assert_eq!(refused(&mine, BatchDigest::default(), REQUESTS), Some(JournalError::OtherBatch));
    assert_eq!(refused(&mine, digest(), REQUESTS + 1), Some(JournalError::OtherBatch));
    assert_eq!(refused(b"something else", digest(), REQUESTS), Some(JournalError::NotAJournal));
    assert_eq!(refused(&mine[..20], digest(), REQUESTS), None, "torn in its header, it is an empty one");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test is a host")]
fn a_file_is_begun_gone_on_with_and_cut_to_what_is_whole() {
    let path = std::env::temp_dir().join(format!("pointsman-journal-{}", std::process::id()));
    std::fs::write(&path, b"").unwrap();
    let result = |index: u32| BatchResult {
        index,
        outcome: Ok(BatchResponse { status: 200, body: Bytes::from(answer(index)) }),
        attempts: 1,
        usage: BatchUsage::default(),
        duration: Duration::ZERO,
        pod: None,
    };
    for round in 0..5_u32 {
        let mut seen = Vec::new();
        let (mut journal, recovered) =
            open(&path, digest(), REQUESTS, SyncPolicy::Every(2), |result| seen.push(result.index)).unwrap();
        assert_eq!(seen, (0..round * 3).collect::<Vec<_>>());
        assert_eq!((recovered.indices().collect::<Vec<_>>(), recovered.len()), (seen, round as usize * 3));
        assert_eq!(recovered.truncated_bytes, if round == 0 { 0 } else { 3 });
        for index in round * 3..round * 3 + 3 {
            journal.write(&result(index)).unwrap();
        }
        journal.close().unwrap();
        let mut file = journal.into_inner();
        file.write_all(b"rot").unwrap();
    }
    let other = open(&path, digest().with(b"more"), REQUESTS, SyncPolicy::Each, |_| {});
    assert_eq!(other.err(), Some(JournalError::OtherBatch));
    let (_, recovered) = open(&path, digest(), REQUESTS, SyncPolicy::Each, |_| {}).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let mut reader = JournalReader::new(file, digest(), REQUESTS).unwrap();
    assert_eq!(reader.read_at(recovered.offset(7).unwrap()).unwrap(), result(7));
    assert_eq!(recovered.offset(20), None);
    std::fs::remove_file(&path).unwrap();
}

/// A disk that is full after so many bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = bytes.len().min(self.0);
        self.0 -= written;
        if written == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(written) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Durable for Full {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_journal_that_cannot_be_written_ends_the_batch() {
    let (clock, pods) = (Clock::default(), pods(2));
    let fleet = Fleet::new(&clock, 2, |_, index, _| answers(index, 5));
    let journal = Journal::create(Full(500), digest(), REQUESTS, SyncPolicy::Each).unwrap();
    let mut runner =
        runner(&clock, &fleet, &pods, REQUESTS, Made::new(4), config(ResultOrder::Completion)).journal(journal);
    let (results, error) = run_all(&clock, &mut runner);
    assert_eq!(error, Some(BatchError::Journal(io::ErrorKind::StorageFull)));
    assert!((1..5).contains(&results.len()), "those that were written");
    assert_eq!(clock.asleep(), 0);
}

#[test]
fn records_are_made_safe_as_often_as_is_asked_for() {
    #[derive(Default)]
    struct MeteredHost(Vec<u8>, usize);
    impl Write for MeteredHost {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    impl Durable for MeteredHost {
        fn sync(&mut self) -> io::Result<()> {
            self.1 += 1;
            Ok(())
        }
    }
    let outcome = Err(BatchFailure { code: "x".into(), message: "y".into() });
    let (usage, duration) = (BatchUsage::default(), Duration::ZERO);
    let result = BatchResult { index: 1, outcome, attempts: 1, usage, duration, pod: None };
    for (policy, syncs) in [(SyncPolicy::Each, 12), (SyncPolicy::Every(4), 4), (SyncPolicy::AtEnd, 2)] {
        let mut journal = Journal::create(MeteredHost::default(), digest(), REQUESTS, policy).unwrap();
        (0..10).for_each(|_| journal.write(&result).unwrap());
        journal.close().unwrap();
        assert_eq!(journal.into_inner().1, syncs, "{policy:?}: with the header's and the last");
    }
}
