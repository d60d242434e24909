//! The index over restarts.

use std::path::PathBuf;
use std::time::Duration;

use kv_index::{BlockHash, Event, EventSemantics, Stored};
use pointsman_gateway::config::{Events, PodSettings, SnapshotSettings};
use pointsman_gateway::{Config, Gateway};

use super::fixture::{FakePod, Script, WHOLE, config, until};

fn folder(name: &str) -> PathBuf {
    pointsman_test_support::programs::temp_folder(env!("CARGO_TARGET_TMPDIR"), name)
}

fn kept(pod: &FakePod, path: PathBuf) -> Config {
    let mut config = config(&[pod]);
    config.pods[0].events = Events::Pushed;
    config.internal.token = Some("t".to_owned());
    config.snapshot = Some(SnapshotSettings::new(path));
    config
}

fn store(gateway: &Gateway) {
    let (index, hashes) = (gateway.index(), [BlockHash::new(1), BlockHash::new(2)]);
    index.apply(index.pod("a").unwrap(), EventSemantics::Copies, &Event::Stored(Stored::prompt(&hashes))).unwrap();
}

#[tokio::test]
async fn the_index_is_there_again_after_a_restart() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let folder = folder("restart");
    let mut config = kept(&pod, folder.join("index"));
    let gateway = Gateway::start(config.clone()).await.unwrap();
    store(&gateway);
    gateway.drain(Duration::ZERO).await;

    let again = Gateway::start(config.clone()).await.unwrap();
    assert_eq!(again.state().pods[0].blocks, 2);
    again.drain(Duration::ZERO).await;
    config.pods[0].name = "b".to_owned();
    let other = Gateway::start(config.clone()).await.unwrap();
    assert_eq!(
        (other.state().pods[0].blocks, other.index().pod("a")),
        (0, None),
        "pods that are no more are forgotten"
    );
    other.drain(Duration::ZERO).await;
    std::fs::write(folder.join("index"), b"not a snapshot").unwrap();
    let empty = Gateway::start(config).await.unwrap();
    assert_eq!(empty.state().pods[0].blocks, 0, "a damaged file is no reason not to start");
    empty.drain(Duration::ZERO).await;
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_gateway_that_dies_has_what_was_kept_last() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let folder = folder("periodic");
    let path = folder.join("index");
    let mut config = kept(&pod, path.clone());
    config.snapshot = Some(SnapshotSettings::new(&path));
    config.snapshot.as_mut().unwrap().interval = Duration::from_millis(100);
    let gateway = Gateway::start(config.clone()).await.unwrap();
    store(&gateway);
    // The first may have been taken before the blocks were there.
    let mut seen = 0;
    until("two snapshots", || {
        seen += usize::from(std::fs::remove_file(&path).is_ok());
        seen >= 2
    })
    .await;
    until("a third one", || path.exists()).await;
    drop(gateway);
    let again = Gateway::start(config).await.unwrap();
    assert_eq!(again.state().pods[0].blocks, 2);
    again.drain(Duration::ZERO).await;
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn what_nobody_reports_on_is_not_believed_for_ever() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let folder = folder("unreported");
    let mut config = kept(&pod, folder.join("index"));
    let gateway = Gateway::start(config.clone()).await.unwrap();
    store(&gateway);
    gateway.drain(Duration::ZERO).await;
    config.pods[0].events = Events::None;
    let again = Gateway::start(config).await.unwrap();
    assert_eq!(again.state().pods[0].blocks, 0);
    again.drain(Duration::ZERO).await;
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn the_pods_of_an_old_fleet_take_no_room_from_a_new_one() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let folder = folder("fleets");
    let mut config = kept(&pod, folder.join("index"));
    config.health_check.timeout = Duration::from_millis(500);
    // Nobody is there; names are what matters.
    let pod = |name: &str, at: u8| PodSettings::new(&format!("{name}-{at}"), &format!("http://127.0.0.{at}:1"));
    for name in ["old", "new"] {
        config.pods = (1..=200).map(|at| pod(name, at)).collect();
        let gateway = Gateway::start(config.clone()).await.unwrap();
        assert_eq!(gateway.index().alive().len(), 200);
        gateway.drain(Duration::ZERO).await;
    }
    std::fs::remove_dir_all(folder).unwrap();
}
