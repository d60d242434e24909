use std::collections::HashMap;
use std::time::Instant;

use proptest::prelude::*;

use super::*;

#[expect(clippy::disallowed_methods, reason = "a request has some instant; which one does not matter")]
fn key(tenant: Option<&str>, adapter: Option<&str>, prompt: u64) -> AnswerKey {
    let request = Request::new("m", Instant::now());
    let request = tenant.map_or(request, |tenant| request.tenant(tenant));
    AnswerKey::of(&adapter.map_or(request, |adapter| request.adapter(adapter)), prompt)
}

fn learn(lengths: &AnswerLengths, key: AnswerKey, tokens: u64, times: usize) {
    (0..times).for_each(|_| lengths.learn(key, tokens));
}

fn near(expected: f64, tokens: f64) -> bool {
    (expected / tokens - 1.0).abs() < 0.15
}

#[test]
fn before_there_were_any_an_answer_is_as_most_are() {
    let lengths = AnswerLengths::default();
    assert_eq!((lengths.typical(), lengths.expected(key(None, None, 100))), (256.0, 256.0));
    assert_eq!(lengths.learned(key(None, None, 100)), None);
    learn(&lengths, key(None, None, 100), 1_000, 1);
    assert!(lengths.learned(key(None, None, 100)).is_some());
    assert!((256.0..450.0).contains(&lengths.expected(key(None, None, 100))), "one says little");
}

#[test]
fn prompts_of_a_length_have_answers_of_a_length() {
    let (lengths, long, short) = (AnswerLengths::default(), key(None, None, 9_000), key(None, None, 300));
    for _ in 0..200 {
        lengths.learn(long, 27);
        lengths.learn(short, 600);
    }
    assert!(near(lengths.expected(short), 600.0), "{}", lengths.expected(short));
    assert!(lengths.expected(long) < 70.0 && near(lengths.typical(), 313.0), "{}", lengths.expected(long));
    assert_eq!(lengths.expected(key(None, None, 10_000)), lengths.expected(long), "about as long");
}

#[test]
fn a_tenant_and_an_adapter_have_answers_of_their_own() {
    let lengths = AnswerLengths::default();
    let of = [(Some("a"), None), (Some("b"), None), (None, Some("a")), (Some("a"), Some("b"))];
    for (at, (tenant, adapter)) in (1..).zip(of) {
        learn(&lengths, key(tenant, adapter, 1_000), at * 100, 100);
    }
    for (at, (tenant, adapter)) in (1..).zip(of) {
        let expected = lengths.expected(key(tenant, adapter, 1_000));
        assert!(near(expected, f64::from(at) * 100.0), "{tenant:?} {adapter:?} {expected}");
        // Of its prompts of another length nothing was seen.
        let other = lengths.expected(key(tenant, adapter, 50_000));
        assert!((other - expected).abs() < 0.3 * expected, "{other} of {expected}");
    }
}

#[test]
fn what_answers_were_is_forgotten() {
    let (lengths, key) = (AnswerLengths::default(), key(Some("a"), None, 1_000));
    learn(&lengths, key, 20, 1_000);
    learn(&lengths, key, 800, 400);
    assert!(near(lengths.expected(key), 800.0), "{}", lengths.expected(key));
}

#[test]
fn who_comes_once_does_not_push_out_who_comes_often() {
    let (lengths, often) = (AnswerLengths::default(), key(Some("often"), None, 1_000));
    for stranger in 0..20 * SLOTS {
        lengths.learn(key(Some(&stranger.to_string()), None, 1_000), 900);
        if stranger % 16 == 0 {
            lengths.learn(often, 10);
        }
    }
    assert!(lengths.expected(often) < 60.0, "{}", lengths.expected(often));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "whether threads get on is what this is about")]
fn threads_learn_without_waiting() {
    let (lengths, key) = (AnswerLengths::default(), key(Some("a"), None, 1_000));
    std::thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(|| learn(&lengths, key, 500, 10_000))));
    });
    assert!(near(lengths.expected(key), 500.0));
}

/// The dullest code that says the same, where no two kinds share a place: averages by name.
#[derive(Default)]
struct Model(HashMap<Vec<u64>, (f64, f64)>);

impl Model {
    fn chain(tenant: u64, octave: u64) -> [Vec<u64>; 3] {
        [vec![octave], vec![0, tenant], vec![1, tenant, octave]]
    }

    fn learn(&mut self, tenant: u64, octave: u64, tokens: f64) {
        for (name, most) in [(vec![], 255.0)].into_iter().chain(Self::chain(tenant, octave).map(|name| (name, 64.0))) {
            let first = if name.is_empty() { (8.0, 256.0) } else { (0.0, 0.0) };
            let (seen, mean) = self.0.entry(name).or_insert(first);
            *seen = (*seen + 1.0).min(most);
            *mean += (tokens - *mean) / *seen;
        }
    }

    fn expected(&self, tenant: u64, octave: u64) -> f64 {
        let all = self.0.get(&vec![]).map_or(256.0, |all| all.1);
        Self::chain(tenant, octave).iter().fold(all, |expected, name| {
            let (seen, mean) = self.0.get(name).copied().unwrap_or_default();
            (expected * 8.0 + mean * seen) / (8.0 + seen)
        })
    }
}

proptest! {
    #[test]
    fn it_agrees_with_the_model(answers in prop::collection::vec((0..3u64, 4..12u64, 0..3_000u64), 0..300)) {
        let (lengths, mut model) = (AnswerLengths::default(), Model::default());
        let key = |tenant: u64, octave: u64| key(Some(["a", "b", "c"][tenant as usize]), None, 3 << octave >> 1);
        for &(tenant, octave, tokens) in &answers {
            lengths.learn(key(tenant, octave), tokens);
            model.learn(tenant, octave, tokens as f64);
            let [told, expected] = [lengths.expected(key(tenant, octave)), model.expected(tenant, octave)];
            prop_assert!((told - expected).abs() <= 1e-3 * expected.max(1.0), "{told} {expected}");
        }
    }

    /// Whatever is learned, an estimate is a number no longer than the longest answer.
    #[test]
    fn no_number_is_too_much(answers in prop::collection::vec(any::<(u64, u64)>(), 0..50)) {
        let lengths = AnswerLengths::default();
        for (prompt, tokens) in answers {
            lengths.learn(key(None, None, prompt), tokens);
            prop_assert!((0.0..=MOST_TOKENS as f64).contains(&lengths.expected(key(None, None, prompt))));
        }
    }
}
