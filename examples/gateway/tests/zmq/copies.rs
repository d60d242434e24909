//! Copies of a block: what one eviction of two means is for the configuration to say.

use kv_index::BlockHash;
use pointsman_engine_sim::events::{Block, CacheEvent, EventSink};
use pointsman_gateway::config::{Removals, ZmqEndpoints};

use crate::engine::model;
use crate::fixture::{Gateway, Source, end};

#[tokio::test]
async fn an_eviction_is_of_one_copy_or_of_the_last() {
    for (removals, blocks) in [(Removals::EveryCopy, 1), (Removals::LastCopy, 0)] {
        let mut source = Source::new(31, 100).await;
        let size = model().1.tokens() as u32;
        let block = Block { hash: BlockHash::new(7), engine_hash: 7 };
        let tokens: Vec<u32> = (0..size).collect();
        let stored =
            CacheEvent::Stored { parent: None, blocks: vec![block.clone()], tokens, block_size: size, salt: None };
        source.sink.step(&[stored.clone(), stored, CacheEvent::Removed(block)]);
        let gateway = Gateway::follow(ZmqEndpoints { removals, ..source.endpoints() });
        gateway.until("the batch is applied", |view| view.batches == 1).await;
        assert_eq!(gateway.index.pod_stats(gateway.pod).unwrap().blocks, blocks, "{removals:?}");
        end(source, gateway).await;
    }
}

#[test]
fn it_is_named_in_a_configuration() {
    let read = |text: &str| serde_yaml_ng::from_str::<ZmqEndpoints>(text).map(|sockets| sockets.removals);
    assert_eq!(read("events: a").unwrap(), Removals::EveryCopy);
    assert_eq!(read("{ events: a, removals: last_copy }").unwrap(), Removals::LastCopy);
    assert!(read("{ events: a, removals: some }").is_err());
}
