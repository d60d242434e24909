//! When to come again: what waits before a request, by what left lately, of its own band.

use std::time::{Duration, Instant};

use routing_core::flow::{BandConfig, FlowConfig, FlowQueue, FlowRequest, QueueLimits, Shed, ShedReason};

/// A queue that holds so many of each band.
struct Scene {
    queue: FlowQueue<u32>,
    start: Instant,
}

impl Scene {
    fn new(bands: impl IntoIterator<Item = BandConfig>) -> Self {
        let band =
            |band: BandConfig| band.time_to_live(Duration::from_secs(3_600)).limits(QueueLimits::default().requests(3));
        let config = bands.into_iter().fold(FlowConfig::default(), |config, one| config.band(band(one)));
        Self { queue: FlowQueue::new(config).unwrap(), start: Instant::now() }
    }

    /// One comes; what becomes of it, if it may not wait.
    fn push(&mut self, second: u64, band: usize) -> Option<Shed<u32>> {
        let now = self.start + Duration::from_secs(second);
        self.queue.push(FlowRequest::new(band, "k", 1_000), 0, now).ticket.err()
    }

    fn fill(&mut self, second: u64, band: usize) {
        while self.push(second, band).is_none() {}
    }

    fn take(&mut self, second: u64) {
        let first = self.queue.next_ticket().unwrap();
        self.queue.take(first, self.start + Duration::from_secs(second)).unwrap();
    }

    /// What one that is turned away is told.
    fn told(&mut self, second: u64, band: usize) -> u64 {
        let shed = self.push(second, band).unwrap();
        assert_eq!(shed.reason, ShedReason::BandFull);
        shed.retry_after.unwrap().as_secs_f64().round() as u64
    }
}

fn bands(low: BandConfig) -> [BandConfig; 2] {
    [low, BandConfig::new("high").priority(1)]
}

/// 1,000 tokens leave every two seconds, three wait, and it is the fourth.
#[test]
fn a_steady_rate_tells_the_wait() {
    let mut scene = Scene::new([BandConfig::new("all")]);
    for second in 0..60 {
        scene.fill(second, 0);
        if second % 2 == 0 {
            scene.take(second);
        }
    }
    scene.fill(60, 0);
    assert!((6..=10).contains(&scene.told(60, 0)));
}

#[test]
fn the_longer_nothing_leaves_while_many_wait_the_later() {
    let mut scene = Scene::new([BandConfig::new("all")]);
    for second in 0..60 {
        scene.fill(second, 0);
        scene.take(second);
    }
    scene.fill(60, 0);
    let told: Vec<u64> = [60, 70, 80, 120, 400].into_iter().map(|second| scene.told(second, 0)).collect();
    assert!((3..=6).contains(&told[0]), "{told:?}");
    assert!(told.is_sorted() && told[1] >= 10 && told[2] > 2 * told[1], "{told:?}");
    assert_eq!(told[3..], [600, 600], "and never more than ten minutes: {told:?}");
    // It goes on, and that is seen.
    for second in 400..460 {
        scene.take(second);
        scene.fill(second, 0);
    }
    assert!((3..=6).contains(&scene.told(460, 0)));
}

/// Nothing ever left: what waits may wait for as long again.
#[test]
fn where_nothing_is_known_it_is_as_long_again_as_somebody_has_waited() {
    let mut scene = Scene::new([BandConfig::new("all")]);
    scene.fill(0, 0);
    assert_eq!([0, 5, 40, 5_000].map(|second| scene.told(second, 0)), [1, 5, 40, 600]);
    // What was served before a quiet hour says nothing.
    (0..3).for_each(|_| scene.take(40));
    scene.fill(4_000, 0);
    assert_eq!(scene.told(4_000, 0), 1);
    assert_eq!(scene.told(4_030, 0), 30);
}

#[test]
fn a_band_that_gets_nothing_is_not_told_the_rate_of_those_above() {
    let scene = |low| {
        let mut scene = Scene::new(bands(low));
        scene.fill(0, 0);
        for second in 0..30 {
            scene.fill(second, 0);
            scene.fill(second, 1);
            scene.take(second);
        }
        scene.fill(30, 0);
        scene.fill(30, 1);
        scene
    };
    let mut strict = scene(BandConfig::new("low"));
    let [high, low] = [1, 0].map(|band| strict.told(30, band));
    assert!((3..=6).contains(&high), "{high}");
    assert!(low >= 30, "none of it left for half a minute: {low}");
    // A tenth of the tokens is its own: four seconds' worth in forty.
    let mut shared = scene(BandConfig::new("low").min_share(0.1));
    let low = shared.told(30, 0);
    assert!((15..=60).contains(&low), "{low}");
    assert!(shared.told(30, 1) < 10);
}

/// Those above take three of four: it is told by the fourth.
#[test]
fn who_has_had_little_is_told_what_it_had() {
    let mut scene = Scene::new(bands(BandConfig::new("low")));
    for second in 0..60 {
        scene.fill(second, 0);
        // The low one has each fourth second.
        if second % 4 != 0 {
            assert!(scene.push(second, 1).is_none());
        }
        scene.take(second);
    }
    scene.fill(60, 0);
    let low = scene.told(60, 0);
    assert!((12..=24).contains(&low), "four of them, four seconds each: {low}");
}

#[test]
fn who_is_too_large_is_not_told_to_come_again() {
    let limits = QueueLimits::default().tokens(500);
    let config = FlowConfig::default().band(BandConfig::new("all").limits(limits));
    let (mut queue, now) = (FlowQueue::new(config).unwrap(), Instant::now());
    let shed = queue.push(FlowRequest::new(0, "k", 501), 7, now).ticket.unwrap_err();
    assert_eq!((shed.reason, shed.retry_after, shed.reason.status()), (ShedReason::TooLarge, None, 413));
}

#[test]
fn who_does_not_wait_is_told_what_it_would_have_waited() {
    let mut scene = Scene::new([BandConfig::new("all")]);
    assert!((0..2).all(|second| scene.push(second, 0).is_none()));
    let now = scene.start + Duration::from_secs(9);
    let last = scene.queue.push(FlowRequest::new(0, "late", 10), 7, now).ticket.unwrap();
    let shed = scene.queue.refuse(last, now).unwrap();
    assert_eq!((shed.item, shed.reason.name(), shed.reason.status()), (7, "saturated", 429));
    assert_eq!(shed.retry_after, Some(Duration::from_secs(9)), "nothing has left for so long");
    assert_eq!((&*shed.trace.key, shed.trace.ahead, scene.queue.len()), ("late", 2, 2));
    assert!(scene.queue.refuse(last, now).is_none());
}
