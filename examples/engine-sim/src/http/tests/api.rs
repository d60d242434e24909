//! OpenAI's API as clients use it.

use super::*;

/// The events of a stream.
fn events(bytes: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(bytes).unwrap();
    text.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_stream_and_a_whole_answer_say_the_same() {
    let (pod, told) = start(|_| {}).await;
    let (other, _) = start(|_| {}).await;
    let whole = ask(&pod, CHAT, &chat("hello there", &[])).await;
    let options = [("stream", json!(true)), ("stream_options", json!({"include_usage": true}))];
    let (status, headers, bytes) = post(&other, CHAT, &chat("hello there", &options)).await;
    assert_eq!(
        (status, &headers["content-type"]),
        (StatusCode::OK, &"text/event-stream; charset=utf-8".parse().unwrap())
    );
    assert_eq!(headers["x-request-id"], "abc");
    let mut events = events(&bytes);
    assert_eq!(events.pop().unwrap(), "[DONE]");
    let mut chunks: Vec<Value> = events.iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let usage = chunks.pop().unwrap();
    assert!(chunks.iter().all(|chunk| chunk.get("usage") == Some(&Value::Null)), "as OpenAI, before the last one");
    assert_eq!((&usage["usage"], &usage["choices"]), (&whole["usage"], &json!([])));
    assert_eq!(chunks[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    let content: String =
        chunks.iter().map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().unwrap()).collect();
    assert_eq!(content, whole["choices"][0]["message"]["content"].as_str().unwrap());
    let finish = |chunk: &Value| chunk["choices"][0]["finish_reason"].clone();
    assert_eq!(finish(chunks.last().unwrap()), "stop");
    assert!(chunks[..chunks.len() - 1].iter().all(|chunk| finish(chunk) == Value::Null));
    assert_eq!((&whole["object"], &whole["id"]), (&json!("chat.completion"), &json!("chatcmpl-abc")));
    assert_eq!(pod.cache(), told.copies());
    pod.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn the_second_turn_hits_what_the_first_left() {
    let (pod, told) = start(|_| {}).await;
    let question = words(200);
    let first = ask(&pod, CHAT, &chat(&question, &[("max_tokens", json!(64)), ("ignore_eos", json!(true))])).await;
    assert_eq!(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    assert_eq!(
        (&first["usage"]["completion_tokens"], &first["choices"][0]["finish_reason"]),
        (&json!(64), &json!("length"))
    );
    let answer = &first["choices"][0]["message"];
    let messages = json!([{"role": "user", "content": question}, answer, {"role": "user", "content": "go on"}]);
    let second = ask(&pod, CHAT, &json!({"model": "sim", "messages": messages, "max_completion_tokens": 1})).await;
    let before = first["usage"]["total_tokens"].as_u64().unwrap() - 1;
    assert_eq!(second["usage"]["prompt_tokens_details"]["cached_tokens"], before / 16 * 16);
    assert_eq!(pod.cache(), told.copies());
    let metrics = pod.metrics();
    assert_eq!((metrics.finished(), metrics.generated_tokens, metrics.cached_tokens), (2, 65, before / 16 * 16));
    assert_eq!((metrics.running, metrics.waiting, metrics.blocks_used), (0, 0, 0));
    let salted = json!({"model": "sim", "messages": messages, "max_tokens": 1, "cache_salt": "mine"});
    let salted = ask(&pod, CHAT, &salted).await;
    assert_eq!(salted["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    assert_eq!(salted["choices"], second["choices"], "a salt changes no answer");
    pod.stop().await;
}

#[tokio::test]
async fn completions_take_text_and_tokens() {
    let (pod, _) = start(|_| {}).await;
    let body = |prompt: Value| json!({"model": "sim", "prompt": prompt, "max_tokens": 5});
    let text = ask(&pod, COMPLETIONS, &body(json!(" a about all"))).await;
    let ids = [" a", " about", " all"].map(pointsman_example_common::words::id);
    let tokens = ask(&pod, COMPLETIONS, &body(json!(ids))).await;
    assert_eq!((&text["choices"], &text["usage"]["prompt_tokens"]), (&tokens["choices"], &json!(3)));
    assert_eq!(text["object"], "text_completion");
    let streamed = json!({"prompt": ids, "max_tokens": 5, "stream": true});
    let (_, _, bytes) = post(&pod, COMPLETIONS, &streamed).await;
    assert!(events(&bytes).iter().all(|event| !event.contains("usage")), "nobody asked for it");
    let parts: String = events(&bytes)[..]
        .iter()
        .filter(|event| *event != "[DONE]")
        .map(|event| serde_json::from_str::<Value>(event).unwrap()["choices"][0]["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(parts, text["choices"][0]["text"].as_str().unwrap());
    pod.stop().await;
}

#[tokio::test]
async fn errors_are_in_openais_form() {
    let (pod, _) = start(|config| config.blocks = 8).await;
    let cases = [
        ("{", 400, "the body cannot be read"),
        (r#"{"model":"other","messages":[]}"#, 404, "the model `other` does not exist"),
        (r#"{"model":"sim"}"#, 400, "chats have `messages`"),
        (r#"{"messages":[{"role":"user","content":"x"}],"max_tokens":0}"#, 400, "at least 1"),
        (r#"{"messages":[],"stream_options":{"include_usage":true}}"#, 400, "when `stream=True`"),
        (
            r#"{"messages":[{"role":"user","content":"x"}],"max_tokens":1000}"#,
            400,
            "maximum context length is 128 tokens",
        ),
        (r#"{"messages":[{"role":"user","content":"x"}],"max_tokens":-1}"#, 400, "the body cannot be read"),
    ];
    for (body, status, message) in cases {
        let response = send(&pod, CHAT, body).await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{body}");
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let error = serde_json::from_slice::<Value>(&bytes).unwrap()["error"].clone();
        assert!(error["message"].as_str().unwrap().contains(message), "{error}");
        assert_eq!(error["code"], status);
    }
    let long = chat(&words(200), &[]);
    assert_eq!(post(&pod, CHAT, &long).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(get(&pod, "/nowhere").await.0, StatusCode::NOT_FOUND);
    pod.stop().await;
}

#[tokio::test]
async fn health_models_and_metrics_are_there() {
    let (pod, _) = start(|_| {}).await;
    ask(&pod, CHAT, &chat("hi", &[])).await;
    assert_eq!(get(&pod, "/health").await.0, StatusCode::OK);
    let (_, models) = get(&pod, "/v1/models").await;
    assert_eq!(serde_json::from_slice::<Value>(&models).unwrap()["data"][0]["id"], "sim");
    let (_, metrics) = get(&pod, "/metrics").await;
    let metrics = std::str::from_utf8(&metrics).unwrap();
    assert!(metrics.contains("vllm:request_success_total{finished_reason=\"stop\",model_name=\"sim\"} 1"), "{metrics}");
    pod.stop().await;
}

#[tokio::test]
async fn a_client_that_hangs_up_frees_its_blocks() {
    // As slow as the measured machine: the answers would take minutes.
    let (pod, told) = start(|config| config.speed = 1.0).await;
    for stream in [true, false] {
        let body =
            chat(&words(100), &[("max_tokens", json!(9_000)), ("ignore_eos", json!(true)), ("stream", json!(stream))]);
        let request = Request::post(CHAT).body(Full::from(body.to_string())).unwrap();
        let mut sender = connect(pod.address()).await.unwrap();
        let answer = tokio::spawn(async move { sender.send_request(request).await.map(|response| (response, sender)) });
        until("running", || pod.metrics().blocks_used > 0).await;
        if stream {
            drop(soon("head", answer).await.unwrap().unwrap());
        } else {
            answer.abort();
        }
        until("aborted", || pod.metrics().blocks_used == 0).await;
    }
    let metrics = pod.metrics();
    assert_eq!((metrics.aborted, metrics.running, metrics.finished()), (2, 0, 0));
    until("told at the end of the step", || pod.cache() == told.copies()).await;
    pod.stop().await;
}
