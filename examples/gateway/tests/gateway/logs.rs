//! What the program logs: one line for each change, with fields, as text or as JSON; and a line for each request, if asked for.

use std::path::Path;

use serde_json::Value;

use super::event_ingest;
use super::fixture::{CHAT, Client, FakePod, STREAMED, Script, WHOLE, within};
use super::process::{Process, folder, write};
use super::reload::replace;

/// The next line of a log in JSON that says so, and has these fields.
async fn line(process: &mut Process, message: &str, fields: &[(&str, &str)]) -> Value {
    loop {
        let text = process.line(&format!("\"message\":\"{message}\"")).await;
        let json: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}"));
        let has = |(name, value): &(&str, &str)| json[*name].as_str().unwrap_or(&json[*name].to_string()) == *value;
        if fields.iter().all(has) {
            return json;
        }
    }
}

#[tokio::test]
async fn health_breakers_reloads_and_drains_are_lines_with_fields() {
    let (mut a, b) = (FakePod::start("a", Script::Status(500)).await, FakePod::start("b", Script::Whole(WHOLE)).await);
    let folder = folder("logs");
    let path = folder.join("gateway.yaml");
    let more = "log: { format: json }\nhealth_check: { interval: 50ms }\nprofile: round_robin\n";
    write(&path, &[&a, &b], more);
    let mut process = Process::start(&path);
    line(&mut process, "pod is healthy", &[("pod", "a"), ("model", "sim"), ("level", "INFO")]).await;
    let listening = line(&mut process, "listening", &[("listener", "clients")]).await;
    let client = Client::new(listening["address"].as_str().unwrap().parse().unwrap());

    for _ in 0..20 {
        client.chat().await;
    }
    let opened = line(&mut process, "circuit breaker", &[("pod", "a"), ("after", "open")]).await;
    assert_eq!((&opened["before"], &opened["level"]), (&"closed".into(), &"WARN".into()), "{opened}");
    assert_eq!(opened["cause"], "responded 500");

    a.is_healthy(false);
    let ill = line(&mut process, "pod is unhealthy", &[("pod", "a"), ("level", "WARN")]).await;
    assert!(ill["why"].as_str().unwrap().contains("health check"), "{ill}");
    a.is_healthy(true);
    line(&mut process, "pod is healthy", &[("pod", "a")]).await;
    line(&mut process, "circuit breaker", &[("pod", "a"), ("after", "closed")]).await;
    a.die().await;
    line(&mut process, "pod is unhealthy", &[("pod", "a"), ("why", "nobody is there")]).await;

    write(&path, &[&a, &b], &more.replace("round_robin", "round_robbin"));
    process.signal("HUP");
    let refused = line(&mut process, "the configuration is refused, and the old one stays", &[("level", "WARN")]).await;
    assert!(refused["error"].as_str().unwrap().contains("did you mean `round_robin`?"), "{refused}");
    write(&path, &[&b], more);
    process.signal("HUP");
    line(&mut process, "the configuration is applied", &[("level", "INFO")]).await;
    process.signal("TERM");
    line(&mut process, "draining", &[]).await;
    line(&mut process, "stopped", &[("truncated", "0")]).await;
    assert_eq!(process.exit_code().await, Some(0));
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn events_truncated_responses_and_findings_are_lines_with_fields() {
    let pod = FakePod::start("a", Script::Events(&["data: {\"choices\":[]}\n\n"])).await;
    let folder = folder("findings");
    let path = folder.join("gateway.yaml");
    // The second one's port was forgotten.
    let pods = format!(
        "- {{ name: a, url: 'http://{0}', events: pushed }}\n- {{ name: b, url: 'http://127.0.0.1' }}\n",
        pod.address
    );
    let more = "internal: { token: a token }\nlog: { format: json }\nhealth_check: { interval: 50ms }\n";
    replace(&path, &format!("listen: 127.0.0.1:0\nmodel: {{ name: sim }}\npods:\n{pods}{more}"));
    let mut process = Process::start(&path);
    let listening = line(&mut process, "listening", &[("listener", "clients")]).await;
    let client = Client::new(listening["address"].as_str().unwrap().parse().unwrap());
    let waits = line(&mut process, "events of a pod", &[("pod", "a"), ("after", "connecting")]).await;
    assert_eq!(
        (&waits["level"], &waits["before"], &waits["gaps"]),
        (&"WARN".into(), &"off".into(), &0.into()),
        "{waits}"
    );

    assert_eq!(event_ingest::report(&client, &event_ingest::stored(0, 1..3)).await.status, 200);
    line(&mut process, "events of a pod", &[("pod", "a"), ("after", "live"), ("level", "INFO")]).await;

    // It ends without `[DONE]`.
    client.post("/v1/chat/completions", STREAMED, &[("x-request-id", "cut")]).await;
    let cut = line(&mut process, "responses were truncated", &[("id", "cut"), ("responses", "1")]).await;
    assert_eq!(
        (&cut["level"], cut["pod"].is_string(), cut["error"].is_string()),
        (&"WARN".into(), true, true),
        "{cut}"
    );

    let finding = line(&mut process, "something is probably wrong", &[("kind", "no_port"), ("pod", "b")]).await;
    assert_eq!((&finding["level"], &finding["model"]), (&"WARN".into(), &"sim".into()), "{finding}");
    assert!(finding["finding"].as_str().unwrap().contains("has no port"), "{finding}");
    process.signal("TERM");
    assert_eq!(process.exit_code().await, Some(0));
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn what_is_odd_about_a_profile_is_told_at_the_start_and_at_a_reload() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let folder = folder("odd");
    let path = folder.join("gateway.yaml");
    let odd = "log: { format: json }\nprofile: { plugins: [{ name: p, type: max_score_picker }, { name: q, type: max_score_picker }], \
               profiles: [{ name: x, pick: p }] }\n";
    write(&path, &[&pod], odd);
    let mut process = Process::start(&path);
    let warned = line(&mut process, "the profile is odd", &[("model", "sim"), ("level", "WARN")]).await;
    assert!(warned["warning"].as_str().unwrap().contains('q'), "{warned}");
    line(&mut process, "listening", &[]).await;
    process.signal("HUP");
    line(&mut process, "the profile is odd", &[]).await;
    process.signal("TERM");
    assert_eq!(process.exit_code().await, Some(0));
    std::fs::remove_dir_all(folder).unwrap();
}

/// The lines of an access log, once it has so many.
async fn lines(path: &Path, count: usize) -> Vec<Value> {
    let read = || std::fs::read_to_string(path).unwrap_or_default();
    let waits = async {
        while read().lines().count() < count {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    within("lines of the access log", waits).await;
    read().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn an_access_log_has_a_line_a_request_whatever_became_of_it() {
    let usage = r#"{"id":"x","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}"#;
    let pod = FakePod::start("a", Script::Whole(usage)).await;
    let folder = folder("access");
    let (path, access) = (folder.join("gateway.yaml"), folder.join("access.jsonl"));
    write(&path, &[&pod], &format!("access_log: {}\n", access.display()));
    let mut process = Process::start(&path);
    let client = Client::new(process.address().await);
    client.post("/v1/chat/completions", CHAT, &[("x-request-id", "one")]).await;
    pod.answers(Script::Status(422));
    client.post("/v1/chat/completions", CHAT, &[("x-request-id", "two")]).await;
    client.post("/v1/chat/completions", "{", &[("x-request-id", "three")]).await;
    let lines = lines(&access, 3).await;
    let of = |id: &str| lines.iter().find(|line| line["id"] == id).unwrap_or_else(|| panic!("{id}: {lines:?}"));
    let one = of("one");
    assert!(one["client"].as_str().unwrap().starts_with("127.0.0.1:"), "{one}");
    assert_eq!((&one["path"], &one["model"]), (&"/v1/chat/completions".into(), &"sim".into()));
    assert_eq!((&one["status"], &one["attempts"], &one["pods"][0]), (&200.into(), &1.into(), &"a".into()));
    assert_eq!((&one["bytes"], &one["outcome"]), (&usage.len().into(), &"completed 200".into()));
    assert!(
        one["ttft_ms"].is_number() && one["total_ms"].is_number() && one["prompt_tokens"].as_u64() > Some(0),
        "{one}"
    );
    let two = of("two");
    assert_eq!((&two["status"], &two["ttft_ms"]), (&422.into(), &Value::Null), "an error has no first token");
    let three = of("three");
    assert_eq!((&three["status"], &three["outcome"]), (&400.into(), &"rejected: invalid_json".into()));
    assert_eq!(three["pods"], Value::Array(Vec::new()));
    process.signal("TERM");
    assert_eq!(process.exit_code().await, Some(0));
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn an_access_log_may_go_into_the_log_and_a_filter_decides_what_is_in_it() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let folder = folder("filter");
    let path = folder.join("gateway.yaml");
    write(&path, &[&pod], "access_log: true\nlog: { level: 'warn,pointsman_gateway=info,access=info' }\n");
    let mut process = Process::start(&path);
    let client = Client::new(process.address().await);
    client.post("/v1/chat/completions", CHAT, &[("x-request-id", "one")]).await;
    let line = process.line("access: request").await;
    assert!(line.contains("id=one") && line.contains("status=200") && line.contains("pods=\"a\""), "{line}");
    assert!(!process.seen().iter().any(|line| line.contains("pod is healthy")), "that is `pointsman`'s, at info");
    process.signal("TERM");
    assert_eq!(process.exit_code().await, Some(0));
    replace(&path, "model: { name: sim }\nlog: { level: 'loud=?' }\n");
    let (code, error) = super::process::ends(&path);
    assert!(code == Some(2) && error.contains("log.level"), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}
