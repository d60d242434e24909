//! Another configuration: all of it or nothing, while streams go on.

use std::time::Duration;

use pointsman_gateway::config::Profile;
use pointsman_gateway::{Gateway, ReloadError, watch};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::fixture::{CHAT, Client, EVENTS, FakePod, STREAMED, Script, WHOLE, config, gateway, piece, until, within};

#[tokio::test]
async fn pods_come_and_go_while_a_stream_runs() {
    let (a, b) = (FakePod::start("a", Script::Gated(EVENTS)).await, FakePod::start("b", Script::Whole(WHOLE)).await);
    let (gateway, client) = gateway(&[&a]).await;
    let mut body = client.begin("/v1/chat/completions", STREAMED, &[]).await.into_body();
    piece(&mut body).await.unwrap().unwrap();
    let gone = gateway.index().pod("a").unwrap();

    let mut next = config(&[&b]);
    next.profile = Profile::stock("least_load");
    gateway.reload(next.clone()).unwrap();
    until("the new pod to be well", || gateway.state().pods[0].healthy).await;
    let state = gateway.state();
    assert_eq!((&*state.models[0].profile, &*state.pods[0].name, state.pods.len()), ("least_load", "b", 1));
    let answer = client.post("/v1/chat/completions", CHAT, &[("x-pointsman-explain", "1")]).await;
    assert_eq!((answer.status, answer.header("x-pointsman-pod")), (200, Some("b")));

    a.let_go(2);
    let mut rest = String::new();
    while let Some(piece) = piece(&mut body).await {
        rest.push_str(&piece.unwrap());
    }
    assert_eq!(rest, EVENTS[1..].concat(), "the stream of a pod that was removed goes on");
    until("the removed pod to be swept", || gateway.index().stats().pending_sweeps == 0).await;
    assert_eq!(
        (gateway.index().pod("a"), gateway.router().plugin_state().load.in_flight(gone.id()).requests),
        (None, 0)
    );
    assert_eq!(gateway.config(), next);
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn what_is_wrong_changes_nothing() {
    let (a, b) = (FakePod::start("a", Script::Whole(WHOLE)).await, FakePod::start("b", Script::Whole(WHOLE)).await);
    let (gateway, client) = gateway(&[&a]).await;
    let before = (gateway.config(), gateway.state().pods, gateway.index().alive());

    let mut wrong = config(&[&a, &b]);
    wrong.pods[1].name = "a".to_owned();
    assert!(gateway.reload(wrong).unwrap_err().to_string().contains("pods[1].name"));
    let mut wrong = config(&[&a, &b]);
    wrong.profile =
        Profile::Document(serde_yaml_ng::from_str("{ plugins: [{ type: nothing }], profiles: [] }").unwrap());
    assert!(matches!(gateway.reload(wrong), Err(ReloadError::Wrong(_))));
    let mut wrong = config(&[&a, &b]);
    wrong.model.name = "other".to_owned();
    wrong.listen.set_port(1);
    let error = gateway.reload(wrong).unwrap_err();
    assert_eq!(error, ReloadError::NeedsRestart(vec!["listen", "model"]));
    assert_eq!(error.to_string(), "changes of `listen`, `model` need a restart");

    assert_eq!(before.0, gateway.config());
    assert_eq!(before.1.iter().map(|pod| &pod.name).collect::<Vec<_>>(), ["a"]);
    assert_eq!(before.2, gateway.index().alive());
    assert_eq!(client.chat().await.status, 200);
    let metrics = client.get("/metrics").await;
    assert!(metrics.text().contains("pointsman_gateway_reload_failures_total 3"));
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn breakers_and_retries_are_those_of_the_configuration_in_force() {
    let (a, b) = (FakePod::start("a", Script::Status(500)).await, FakePod::start("b", Script::Whole(WHOLE)).await);
    let (gateway, client) = gateway(&[&a, &b]).await;
    let mut next = config(&[&a, &b]);
    next.profile = Profile::stock("round_robin");
    (next.breakers.consecutive_failures, next.breakers.failure_rate) = (1, None);
    gateway.reload(next.clone()).unwrap();
    until("both to be well", || gateway.state().pods.iter().all(|pod| pod.healthy)).await;
    for _ in 0..4 {
        assert_eq!(client.chat().await.status, 200);
    }
    assert_eq!(a.seen().len(), 1, "one failure is enough");
    let state = client.get("/state").await.json();
    assert_eq!(
        (state["breakers"]["consecutive_failures"].as_u64(), state["pods"][0]["circuit"].as_str()),
        (Some(1), Some("open"))
    );
    assert_eq!(state["breakers"]["open_duration"], "10s");

    // A budget of nothing, and no breaker that opens: every request that falls to the broken pod fails.
    (next.breakers.consecutive_failures, next.breakers.open_duration) = (1000, Duration::from_millis(1));
    (next.retry.budget_ratio, next.retry.budget_per_second, next.retry.budget_reserve) = (0.0, 0.0, 0.0);
    gateway.reload(next.clone()).unwrap();
    // The pod is another one at another place of the list, with a breaker of its own.
    gateway.reload(config(&[&b])).unwrap();
    gateway.reload(next.clone()).unwrap();
    until("both to be well", || gateway.state().pods.iter().all(|pod| pod.healthy)).await;
    let mut failed = 0;
    for _ in 0..10 {
        failed += usize::from(client.chat().await.status == 500);
    }
    assert_eq!(failed, 5, "nothing is tried again");
    gateway.drain(Duration::ZERO).await;
}

/// Two at once: the one that comes last is in force, all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn reloads_at_once_do_not_mix() {
    let (a, b) = (FakePod::start("a", Script::Whole(WHOLE)).await, FakePod::start("b", Script::Whole(WHOLE)).await);
    let (gateway, _) = gateway(&[&a]).await;
    let gateway = std::sync::Arc::new(gateway);
    let mut tasks = Vec::new();
    for (pods, profile) in [(vec![&a], "round_robin"), (vec![&b], "least_load"), (vec![&a, &b], "total_latency")] {
        let (gateway, mut next) = (std::sync::Arc::clone(&gateway), config(&pods));
        next.profile = Profile::stock(profile);
        tasks.push(tokio::task::spawn_blocking(move || (0..50).for_each(|_| gateway.reload(next.clone()).unwrap())));
    }
    for task in tasks {
        within("all of them", task).await.unwrap();
    }
    let (config, state) = (gateway.config(), gateway.state());
    let names = |names: &mut dyn Iterator<Item = &String>| names.cloned().collect::<Vec<_>>();
    assert_eq!(names(&mut config.pods.iter().map(|pod| &pod.name)), names(&mut state.pods.iter().map(|pod| &pod.name)));
    assert_eq!(config.profile, Profile::stock(&state.models[0].profile));
    assert_eq!(gateway.index().alive().len(), config.pods.len(), "no pod is left of the others");
}

#[tokio::test]
async fn a_file_is_followed_and_a_bad_one_is_not_taken() {
    let (a, b) = (FakePod::start("a", Script::Whole(WHOLE)).await, FakePod::start("b", Script::Whole(WHOLE)).await);
    let folder = std::env::temp_dir().join(format!("pointsman-watch-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("gateway.yaml");
    let text = |pods: &[&FakePod], profile: &str| {
        let pods: String =
            pods.iter().map(|pod| format!("  - {{ name: {}, url: 'http://{}' }}\n", pod.name, pod.address)).collect();
        format!("listen: 127.0.0.1:0\nmodel: {{ name: sim }}\nprofile: {profile}\npods:\n{pods}")
    };
    std::fs::write(&path, text(&[&a], "round_robin")).unwrap();
    let gateway = Gateway::start(pointsman_gateway::Config::read(&path).unwrap()).await.unwrap();
    let (now, stop) = (Notify::new(), CancellationToken::new());
    let following = watch::watch(&gateway, &path, &now, &stop);
    let steps = async {
        replace(&path, &text(&[&a, &b], "round_robin"));
        until("the change to be seen", || gateway.state().pods.len() == 2).await;
        replace(&path, &text(&[&a], "round_robbin"));
        let failed = async || {
            let page = Client::new(gateway.address()).get("/metrics").await;
            page.text().contains("pointsman_gateway_reload_failures_total 1")
        };
        within("the mistake to be seen", async {
            while !failed().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        assert_eq!(gateway.state().pods.len(), 2, "what runs goes on");
        stop.cancel();
    };
    within("the file to be followed", async { tokio::join!(following, steps) }).await;
    let metrics = Client::new(gateway.address()).get("/metrics").await;
    assert!(metrics.text().contains("pointsman_gateway_reload_failures_total 1"));
    gateway.drain(Duration::ZERO).await;
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_profile_in_a_file_of_its_own_is_followed_too() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let folder = std::env::temp_dir().join(format!("pointsman-profile-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (path, profile) = (folder.join("gateway.yaml"), folder.join("profile.yaml"));
    let document = |name: &str| {
        format!("{{ plugins: [{{ name: p, type: max_score_picker }}], profiles: [{{ name: {name}, pick: p }}] }}")
    };
    std::fs::write(&profile, document("first")).unwrap();
    let text = format!(
        "listen: 127.0.0.1:0\nmodel: {{ name: sim }}\nprofile: {{ file: '{}' }}\npods: [{{ name: a, url: 'http://{}' }}]",
        profile.display(),
        pod.address
    );
    std::fs::write(&path, text).unwrap();
    let gateway = Gateway::start(pointsman_gateway::Config::read(&path).unwrap()).await.unwrap();
    let (client, now, stop) = (Client::new(gateway.address()), Notify::new(), CancellationToken::new());
    let following = watch::watch(&gateway, &path, &now, &stop);
    let step = async || {
        client.chat().await;
        gateway.state().decisions[0].steps[0].step.clone()
    };
    assert_eq!(step().await, "first");
    let steps = async {
        // At a signal, and without one.
        for (name, signalled) in [("second", true), ("third", false)] {
            replace(&profile, &document(name));
            if signalled {
                now.notify_one();
            }
            within("the change to be seen", async {
                while step().await != name {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            })
            .await;
        }
        stop.cancel();
    };
    within("the file to be followed", async { tokio::join!(following, steps) }).await;
    gateway.drain(Duration::ZERO).await;
    std::fs::remove_dir_all(folder).unwrap();
}

/// Puts a text in place of a file: whoever reads it gets all of the old one or all of the new one.
pub(crate) fn replace(path: &std::path::Path, text: &str) {
    let aside = path.with_extension("new");
    std::fs::write(&aside, text).unwrap();
    std::fs::rename(aside, path).unwrap();
}
