//! Edge cases: pages that leave and come back, and page sizes.

use super::*;

/// the map is not freed with its blocks: a revived page that nothing follows stays for ever, past max_pages
#[test]
fn a_page_that_was_brought_back_for_nothing_is_forgotten_again() {
    setup(|index, pod| {
        let mut config = EngineFeedConfig::tokens(model(), size(4));
        config.accumulate = true;
        config.max_pages = 4;
        let feed: Feed<'_> = EngineFeed::new(index, pod, config).unwrap();
        let mut seq = 0;
        for n in 0..100u64 {
            let a = 1000 + n;
            // page a comes and leaves; what is announced under it has no tokens and is dropped
            for events in [
                vec![stored(&[a], None, &[1, n as u32], 2)],
                vec![removed(&[a])],
                vec![stored(&[5000 + n], Some(a), &[], 2)],
            ] {
                feed.receive_batch(seq, &batch(seq as f64, events)).unwrap();
                seq += 1;
            }
        }
        assert_eq!(blocks(index, pod), 0);
        assert_eq!(feed.page_map_size().0, 0, "nothing is held, max_pages is 4; {}", feed.drop_counts());
    });
}

/// deep recursion
#[test]
fn pages_that_left_in_odd_orders_come_back_without_end() {
    setup(|index, pod| {
        let mut config = EngineFeedConfig::tokens(model(), size(8));
        config.accumulate = true;
        let feed: Feed<'_> = EngineFeed::new(index, pod, config).unwrap();
        let mut seq = 0;
        let n = 4000u64;
        for i in (1..=n).rev() {
            feed.receive_batch(
                seq,
                &batch(seq as f64, vec![stored(&[i - 1, i], None, &[1, 2, 3, 4], 2), removed(&[i]), removed(&[i - 1])]),
            )
            .unwrap();
            seq += 1;
        }
        assert_eq!(feed.page_map_size().0, 0);
        feed.receive_batch(seq, &batch(seq as f64, vec![stored(&[99_999], Some(n), &[1, 2], 2)])).unwrap();
    });
}

/// a restarted engine with another (fitting) page size is refused for ever, and the old engine's blocks stay
#[test]
fn a_restart_with_another_page_size_is_a_restart() {
    setup(|index, pod| {
        let mut config = EngineFeedConfig::tokens(model(), size(4));
        config.accumulate = true;
        let feed: Feed<'_> = EngineFeed::new(index, pod, config).unwrap();
        feed.receive_batch(0, &batch(1.0, vec![stored(&[1, 2], None, &[1, 2, 3, 4], 2)])).unwrap();
        assert_eq!(blocks(index, pod), 1);
        let r = feed.receive_batch(0, &batch(9.0, vec![stored(&[7], None, &[1, 2, 3, 4], 4)]));
        assert!(
            matches!(r, Ok(Received { outcome: BatchOutcome::Restarted(_), .. })),
            "{r:?}, {} blocks",
            blocks(index, pod)
        );
    });
}

/// page size learnt from another layer's chunk
#[test]
fn the_page_size_is_learned_from_the_engine_itself() {
    setup(|index, pod| {
        let mut config = EngineFeedConfig::tokens(model(), size(4));
        config.accumulate = true;
        let feed: Feed<'_> = EngineFeed::new(index, pod, config).unwrap();
        let mut chunk = st(&[900], None, &[1, 2, 3, 4], 4);
        chunk.medium = Some("cpu".into());
        feed.receive_batch(0, &batch(1.0, vec![EngineEvent::Stored(chunk)])).unwrap();
        let r = feed.receive_batch(1, &batch(2.0, vec![stored(&[1, 2], None, &[1, 2, 3, 4], 2)]));
        assert!(r.is_ok(), "{r:?}");
    });
}
