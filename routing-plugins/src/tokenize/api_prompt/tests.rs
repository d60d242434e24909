use super::*;

fn chat(api: PromptApi, body: &str) -> String {
    String::from_utf8(api.chat(body.as_bytes()).expect("a prompt").into_owned()).expect("text")
}

/// One token a byte of the body that it is given; refuses bodies with a picture, as a template for text does.
#[derive(Debug)]
struct TextOnly;

impl PromptTokenizer for TextOnly {
    fn tokenize(&self, body: &[u8], out: &mut Vec<u32>) -> Result<(), PromptError> {
        out.extend(body.iter().copied().map(u32::from));
        let has_picture = body.windows(7).any(|part| part == b"\"image\"");
        if has_picture { Err(PromptError::NoPrompt) } else { Ok(()) }
    }
}

fn told(api: PromptApi, body: &str) -> Result<String, PromptError> {
    let mut tokens = vec![1];
    api.tokenize(&TextOnly, body.as_bytes(), &mut tokens)?;
    assert_eq!(tokens.remove(0), 1, "what was there stays");
    Ok(tokens.into_iter().filter_map(char::from_u32).collect())
}

#[test]
fn completions_are_read_as_they_are() {
    let body = r#"{"prompt": "a"}"#;
    assert!(matches!(PromptApi::Completions.chat(body.as_bytes()), Ok(Cow::Borrowed(_))));
    assert_eq!(told(PromptApi::Completions, body).as_deref(), Ok(body));
}

#[test]
fn embeddings_are_prompts_and_of_several_the_first_counts() {
    for (body, expected) in [
        (r#"{"input": "a b"}"#, r#"{"prompt":"a b"}"#),
        (r#"{"input": ["a", "b"], "add_special_tokens": false}"#, r#"{"prompt":"a","add_special_tokens":false}"#),
        (r#"{"input": [1, 2]}"#, r#"{"prompt":[1, 2]}"#),
        (r#"{"input": [[1, 2], [3]]}"#, r#"{"prompt":[1, 2]}"#),
        (
            r#"{"messages": [{"role":"user","content":"a"}]}"#,
            r#"{"messages":[{"role":"user","content":"a"}],"add_generation_prompt":false}"#,
        ),
        (
            r#"{"input": [[{"role":"user","content":"a"}], []], "add_generation_prompt": true}"#,
            r#"{"messages":[{"role":"user","content":"a"}],"add_generation_prompt":true}"#,
        ),
    ] {
        assert_eq!(chat(PromptApi::Embeddings, body), expected);
    }
    assert_eq!(PromptApi::Embeddings.chat(b"{}"), Err(PromptError::NoPrompt));
}

#[test]
fn messages_are_a_chat_with_what_the_system_says_first() {
    let body = r#"{
        "system": [{"type":"text","text":"x-anthropic-billing-header: 7"}, {"type":"text","text":"Be "}, {"type":"text","text":"brief."}],
        "messages": [
            {"role":"user","content":"How warm is it?"},
            {"role":"assistant","content":[{"type":"thinking","thinking":"Look."},{"type":"text","text":"I look."},
                {"type":"tool_use","id":"t1","name":"look","input":{"at": "sky"}}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"21"},{"type":"text","text":"C"}]}]},
            {"role":"assistant","content":[{"type":"tool_use","id":"t2","name":"look"}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":"22"},{"type":"text","text":"So?"}]},
            {"role":"system","content":"Now."}
        ],
        "tools": [{"name":"look","input_schema":{"properties":{}}}, {"name":"b","description":"c","input_schema":{"type":"object"},"strict":true}],
        "output_config": {"effort": "low"}, "chat_template_kwargs": {"a": 1}
    }"#;
    let expected = concat!(
        r#"{"messages":[{"role":"system","content":"Be brief.Now."},{"role":"user","content":"How warm is it?"},"#,
        r#"{"role":"assistant","content":"I look.","reasoning":"Look.","reasoning_content":"Look.","tool_calls":"#,
        r#"[{"id":"t1","type":"function","function":{"name":"look","arguments":"{\"at\": \"sky\"}"}}]},"#,
        r#"{"role":"tool","tool_call_id":"t1","content":"21\nC"},"#,
        r#"{"role":"assistant","content":[],"tool_calls":[{"id":"t2","type":"function","function":{"name":"look","arguments":"{}"}}]},"#,
        r#"{"role":"tool","tool_call_id":"t2","content":"22"},{"role":"user","content":"So?"}],"#,
        r#""tools":[{"type":"function","function":{"name":"look","description":null,"parameters":{"properties":{},"type":"object"}}},"#,
        r#"{"type":"function","function":{"name":"b","description":"c","parameters":{"type":"object"},"strict":true}}],"#,
        r#""chat_template_kwargs":{"a":1,"reasoning_effort":"low","enable_thinking":true}}"#,
    );
    assert_eq!(chat(PromptApi::Messages, body), expected);
}

#[test]
fn responses_are_a_chat_whose_items_belong_together() {
    let simple = r#"{"instructions":"Be brief.","input":"Hi"}"#;
    let expected = r#"{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}],"add_special_tokens":true}"#;
    assert_eq!(chat(PromptApi::Responses, simple), expected);
    let items = r#"{"input": [
        {"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},
        {"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},
        {"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},
        {"type":"function_call","call_id":"c2","name":"g","arguments":"{}"},
        {"type":"function_call_output","call_id":"c1","output":"1"},
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]}
    ], "tools": [{"type":"function","name":"f","parameters":{}},{"type":"web_search"}], "reasoning": {"effort":"none"}}"#;
    let expected = concat!(
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},"#,
        r#"{"role":"assistant","content":[],"reasoning":"hm","reasoning_content":"hm","tool_calls":"#,
        r#"[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},"#,
        r#"{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]},"#,
        r#"{"role":"tool","tool_call_id":"c1","content":"1"},{"role":"assistant","content":"Done."}],"#,
        r#""tools":[{"type":"function","function":{"name":"f","description":null,"parameters":{}}}],"#,
        r#""chat_template_kwargs":{"reasoning_effort":"none","enable_thinking":false},"add_special_tokens":true}"#,
    );
    assert_eq!(chat(PromptApi::Responses, items), expected);
}

#[test]
fn what_only_the_pod_knows_leaves_the_beginning() {
    let open = r#"{"messages":[{"role":"system","content":"Be brief."}],"add_special_tokens":true,"add_generation_prompt":false}"#;
    let body = r#"{"instructions":"Be brief.","input":"Hi","previous_response_id":"resp_1"}"#;
    assert_eq!(chat(PromptApi::Responses, body), open);
    for item in [
        r#"{"type":"message","role":"assistant","status":"incomplete","content":[{"type":"output_text","text":"Once"}]}"#,
        r#"{"type":"item_reference","id":"x"}"#,
    ] {
        assert_eq!(chat(PromptApi::Responses, &format!(r#"{{"instructions":"Be brief.","input":[{item}]}}"#)), open);
    }
}

#[test]
fn a_picture_that_a_template_has_no_text_for_leaves_the_messages_before_it() {
    let picture = r#"{"type":"image","source":{"type":"base64","data":"AAAA"}}"#;
    let body = format!(
        r#"{{"system":"s","messages":[{{"role":"user","content":[{{"type":"text","text":"see"}},{picture}]}}]}}"#
    );
    let known = r#"{"messages":[{"role":"system","content":"s"}],"add_generation_prompt":false}"#;
    assert_eq!(told(PromptApi::Messages, &body).as_deref(), Ok(known));
    assert_eq!(told(PromptApi::Messages, &body.replace(r#""system":"s","#, "")), Err(PromptError::NoPrompt));
    let body = r#"{"input":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]}"#;
    let known =
        r#"{"messages":[{"role":"user","content":"a"}],"add_special_tokens":true,"add_generation_prompt":false}"#;
    assert_eq!(told(PromptApi::Responses, body).as_deref(), Ok(known));
}

#[test]
fn bodies_of_any_shape_are_answered() {
    let odd = ["", "[]", "{}", r#"{"messages":7}"#, r#"{"input":null}"#, r#"{"input":[[]]}"#, r#"{"messages":[{}]}"#];
    let nested = r#"{"messages":[{"role":"user","content":[{"type":"tool_result"},7,null]},{"role":"assistant","content":{}}],"tools":[1]}"#;
    for api in [PromptApi::Embeddings, PromptApi::Responses, PromptApi::Messages] {
        for body in odd.into_iter().chain([nested]) {
            let mut tokens = Vec::new();
            let _ = api.tokenize(&TextOnly, body.as_bytes(), &mut tokens);
        }
    }
    assert!(matches!(PromptApi::Messages.chat(b"{\"a\""), Err(PromptError::Body { line: 1, column: 5, .. })));
}
