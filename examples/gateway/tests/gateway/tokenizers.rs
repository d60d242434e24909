//! A model's own vocabulary and chat template.

use std::path::PathBuf;
use std::time::Duration;

use pointsman_gateway::{Config, Gateway};

use super::fixture::{CHAT, Client, FakePod, Script, WHOLE};

const TEMPLATE: &str = "{% for message in messages %}<{{ message.content }}>{% endfor %}";

/// A vocabulary whose tokens are bytes, in the letters that stand for them in such files.
fn vocabulary() -> String {
    let is_shown = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..);
    let (shown, hidden): (Vec<u8>, Vec<u8>) = (0..=u8::MAX).partition(is_shown);
    let hidden = (0..hidden.len() as u32).filter_map(|at| char::from_u32(256 + at));
    let letters = shown.into_iter().map(char::from).chain(hidden);
    let vocab: serde_json::Map<_, _> = letters.zip(0..).map(|(letter, id)| (letter.to_string(), id.into())).collect();
    let split =
        serde_json::json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let model = serde_json::json!({"type": "BPE", "vocab": vocab, "merges": []});
    let none = serde_json::Value::Null;
    serde_json::json!({"version": "1.0", "added_tokens": [], "normalizer": none, "pre_tokenizer": split,
        "post_processor": none, "decoder": none, "model": model})
    .to_string()
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pointsman-tokenizer-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("tokenizer.json"), vocabulary()).unwrap();
    std::fs::write(folder.join("chat_template.jinja"), TEMPLATE).unwrap();
    let config = serde_json::json!({"chat_template": TEMPLATE.replace('<', "<<")});
    std::fs::write(folder.join("tokenizer_config.json"), config.to_string()).unwrap();
    folder
}

fn config(pod: &FakePod, tokenizer: &str) -> Config {
    let text = format!(
        "listen: 127.0.0.1:0\nmodel: {{ name: sim, tokenizer: {tokenizer} }}\npods: [{{ name: a, url: 'http://{}' }}]",
        pod.address
    );
    Config::parse(&text).unwrap()
}

#[tokio::test]
async fn prompts_are_tokens_of_the_models_own_vocabulary() {
    let (pod, folder) = (FakePod::start("a", Script::Whole(WHOLE)).await, folder("own"));
    let path = |name: &str| format!("'{}'", folder.join(name).display());
    let text = r#"{"model":"sim","prompt":"hi hi"}"#;
    let chat = CHAT.replace("hello there", "hi");
    let special = serde_json::json!({"eos_token": "</s>"}).to_string();
    std::fs::write(folder.join("special.json"), special).unwrap();
    // The text is five letters, and the chat as many as its template makes of it: the one that is named, the one beside a
    // configuration that has none, the one beside the vocabulary. Without one there are none.
    let templates = [
        ("chat_template.jinja", 4),
        ("tokenizer_config.json", 5),
        ("special.json", 4),
        ("", 4),
        ("gone", 5),
        ("gone", 0),
    ];
    for (template, of_chat) in templates {
        if template == "gone" {
            let last = ["chat_template.jinja", "tokenizer_config.json"][usize::from(of_chat == 0)];
            std::fs::remove_file(folder.join(last)).unwrap();
        }
        let template = template.trim_start_matches("gone");
        let template = if template.is_empty() { String::new() } else { format!(", template: {}", path(template)) };
        let files = format!("{{ file: {}{template} }}", path("tokenizer.json"));
        let gateway = Gateway::start(config(&pod, &files)).await.unwrap();
        let client = Client::new(gateway.address());
        assert_eq!(client.post("/v1/completions", text, &[]).await.status, 200);
        assert_eq!(gateway.state().decisions[0].prompt_tokens, 5);
        assert_eq!(client.post("/v1/chat/completions", &chat, &[]).await.status, 200);
        assert_eq!(gateway.state().decisions[0].prompt_tokens, of_chat, "{files}");
        let failures = format!("pointsman_gateway_tokenize_failures_total {}", u8::from(of_chat == 0));
        assert!(client.get("/metrics").await.text().contains(&failures), "{files}");
        gateway.drain(Duration::ZERO).await;
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn files_that_are_no_vocabulary_or_template_keep_a_gateway_from_starting() {
    let (pod, folder) = (FakePod::start("a", Script::Whole(WHOLE)).await, folder("wrong"));
    std::fs::write(folder.join("bad.jinja"), "{% for %}").unwrap();
    let path = |name: &str| format!("'{}'", folder.join(name).display());
    for files in [
        format!("{{ file: {} }}", path("none.json")),
        format!("{{ file: {} }}", path("bad.jinja")),
        format!("{{ file: {}, template: {} }}", path("tokenizer.json"), path("none.jinja")),
        format!("{{ file: {}, template: {} }}", path("tokenizer.json"), path("bad.jinja")),
    ] {
        let error = Gateway::start(config(&pod, &files)).await.unwrap_err();
        assert!(error.to_string().starts_with("model.tokenizer: "), "{files}: {error}");
        assert!(error.is_configuration());
    }
    std::fs::remove_dir_all(folder).unwrap();
}
