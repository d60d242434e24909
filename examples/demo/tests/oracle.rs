//! Simulated pods against the oracle of their answers, through a real client.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

use std::time::Duration;

use pointsman_demo::load::{Client, Ledger, Message, chat};
use pointsman_engine_sim::{Oracle, PodConfig, SimPod};

#[tokio::test]
async fn a_pod_answers_what_the_oracle_says() {
    let mut config = PodConfig::new("a", "sim");
    config.speed = 1_000.0;
    let pod = SimPod::start(config, Vec::new()).await.unwrap();
    let client = Client::new(&format!("http://{}", pod.address()), Duration::from_secs(10));
    let (oracle, ledger) = (Oracle::new(), Ledger::default());
    for (says, tokens, stream) in [(" a day", 7, true), (" a day", 12, false), (" by and by", 500, true)] {
        let body = chat("sim", &[Message { role: "user", content: says.to_owned() }], tokens, stream);
        let answer = client.ask(ledger.begin(), body.clone()).await.unwrap();
        assert_eq!(answer.text, oracle.answer(&body));
    }
    assert_eq!(oracle.answer(b"{}"), "");
    pod.stop().await;
}
