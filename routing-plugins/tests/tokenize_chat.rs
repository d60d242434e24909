//! Bodies of requests become the prompts that engines make of them, or typed errors.

#![expect(clippy::disallowed_methods, reason = "a request has some instant; which one does not matter")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use proptest::prelude::*;
use routing_core::{
    Declare, Fleet, Picker, PluginError, ProfileBuilder, Ranking, Request, RoutingInput, RoutingPlan, Totals,
};
use routing_plugins::prepare::GivenTokensPreparer;
use routing_plugins::tokenize::{
    Chat, ChatTemplate, ContentFormat, Frame, ModelPrompts, PromptError, PromptTokenizer, TemplateError, TokenizeError,
    TokenizePreparer, Tokenizer, Tokenizers,
};

/// One token a byte, and a frame.
#[derive(Debug)]
struct Bytes;

impl Tokenizer for Bytes {
    fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        out.extend(text.bytes().map(u32::from));
        Ok(())
    }

    fn frame(&self) -> Frame<'_> {
        Frame::new(&[1_000], &[2_000])
    }
}

/// Uses what real templates use: methods and slices of Python's, namespaces, JSON, printing of all kinds, refusals.
const TEMPLATE: &str = r#"{%- set ns = namespace(last=-1) %}
{%- for m in messages[::-1] %}
    {%- if m.role == 'user' and ns.last < 0 %}
        {%- set ns.last = messages|length - 1 - loop.index0 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- if tools %}
    {%- for tool in tools %}
        {{- tool | tojson }}
    {%- endfor %}
{%- endif %}
{%- for m in messages %}
    {%- if m['role'] not in ['system', 'user', 'assistant', 'tool'] %}
        {{- raise_exception('unknown role ' + m.role) }}
    {%- endif %}
    {%- set content = m.content if m.content is string else '' %}
    {%- if '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\n') %}
    {%- endif %}
    {{- '<|im_start|>' + m.role + '\n' + content.strip() }}
    {%- for call in m.tool_calls or [] %}
        {%- for key, value in call.function.arguments.items() %}
            {{- ' ' ~ key ~ '=' }}{{ value }}
        {%- endfor %}
    {%- endfor %}
    {%- if loop.index0 == ns.last %}{{ '*' }}{% endif %}
    {{- eos_token + '\n' }}
    {%- generation %}{%- endgeneration %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think></think>' }}
    {%- endif %}
{%- endif %}"#;

const CONFIG: &str = r#"{"bos_token": {"__type": "AddedToken", "content": "<s>"}, "eos_token": "<|im_end|>",
    "pad_token": null, "model_max_length": 1000000000000000019884624838656, "add_bos_token": true}"#;

fn template() -> ChatTemplate {
    ChatTemplate::from_source(TEMPLATE, CONFIG).expect("a template")
}

fn render(body: &str) -> Result<String, TemplateError> {
    template().render(&Chat::from_json(body.as_bytes()).expect("a chat"))
}

fn tokens(body: &str) -> Result<Vec<u32>, PromptError> {
    let mut out = Vec::new();
    ModelPrompts::new(Bytes).chat(template()).tokenize(body.as_bytes(), &mut out).map(|()| out)
}

fn bytes(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

/// The expected text is what Python's Jinja makes of it, in the environment of `apply_chat_template`.
#[test]
fn a_chat_is_rendered_as_python_does() {
    let body = r#"{"model": "m", "messages": [
        {"role": "system", "content": " Be kind. "},
        {"role": "user", "content": [{"type": "text", "text": "What is"}, {"type": "text", "text": "it?"}]},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nWait.", "tool_calls": [{"type": "function",
            "function": {"name": "f", "arguments": "{\"z\": 1.0, \"a\": [true, null, \"it's\"], \"é\": 1e16}"}}]},
        {"role": "tool", "content": "42"}],
        "tools": [{"type": "function", "function": {"name": "f", "b": [1, 2.5], "a": {"x": "é\n\"", "y": null}}}],
        "chat_template_kwargs": {"enable_thinking": false, "messages": []}}"#;
    let expected = "<s>{\"type\": \"function\", \"function\": {\"name\": \"f\", \"b\": [1, 2.5], \"a\": {\"x\": \
        \"é\\n\\\"\", \"y\": null}}}<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nWhat is\nit?*<|im_end|>\n\
        <|im_start|>assistant\nWait. z=1.0 a=[True, None, \"it's\"] é=1e+16<|im_end|>\n<|im_start|>tool\n42<|im_end|>\n\
        <|im_start|>assistant\n<think></think>";
    assert_eq!(render(body).expect("rendered"), expected);
    assert_eq!(tokens(body).expect("tokens"), bytes(expected), "the template writes the frame");
    let without = body.replace("\"model\": \"m\"", "\"add_generation_prompt\": false");
    assert_eq!(render(&without).expect("rendered"), expected.split("<|im_start|>assistant\n<th").next().expect("text"));
}

#[test]
fn json_is_written_with_the_options_of_python() {
    let shown = |options: &str| {
        let source = format!("{{{{ tools | tojson{options} }}}}");
        let template = ChatTemplate::from_source(&source, "{}").expect("a template");
        let body = r#"{"messages": [{"role": "user"}], "tools": {"b": [1, {}], "a": "é𝒳\u0001", "c": []}}"#;
        template.render(&Chat::from_json(body.as_bytes()).expect("a chat")).expect("rendered")
    };
    assert_eq!(shown(""), r#"{"b": [1, {}], "a": "é𝒳\u0001", "c": []}"#);
    assert_eq!(shown("(sort_keys=true)"), r#"{"a": "é𝒳\u0001", "b": [1, {}], "c": []}"#);
    assert_eq!(shown("(ensure_ascii=true)"), r#"{"b": [1, {}], "a": "\u00e9\ud835\udcb3\u0001", "c": []}"#);
    assert_eq!(shown("(separators=[',', ':'])"), r#"{"b":[1,{}],"a":"é𝒳\u0001","c":[]}"#);
    let indented = "{\n  \"b\": [\n    1,\n    {}\n  ],\n  \"a\": \"é𝒳\\u0001\",\n  \"c\": []\n}";
    assert_eq!(shown("(indent=2)"), indented);
}

#[test]
fn the_day_is_the_clocks() {
    let source = "{{ strftime_now('%d %b %Y, %A %B %e, %H:%M:%S %y-%m 100%% %q') }}";
    let at = |seconds| {
        let template = ChatTemplate::from_source(source, "{}").expect("a template");
        let template = template.clock(move || UNIX_EPOCH + Duration::from_secs(seconds));
        template.render(&Chat::from_json(br#"{"messages": [{}]}"#).expect("a chat")).expect("rendered")
    };
    assert_eq!(at(0), "01 Jan 1970, Thursday January  1, 00:00:00 70-01 100% %q");
    assert_eq!(at(951_827_696), "29 Feb 2000, Tuesday February 29, 12:34:56 00-02 100% %q");
    assert_eq!(at(4_107_542_399), "28 Feb 2100, Sunday February 28, 23:59:59 00-02 100% %q");
    assert_eq!(at(4_107_542_400), "01 Mar 2100, Monday March  1, 00:00:00 00-03 100% %q");
}

#[test]
fn templates_that_want_arguments_as_text_get_them_so() {
    let source = "{% for c in messages[0].tool_calls %}{{ 'args: ' + c.function.arguments }}{% endfor %}";
    let template = ChatTemplate::from_source(source, "{}").expect("a template");
    let body = br#"{"messages": [{"tool_calls": [{"function": {"arguments": "{\"a\":1}"}}]}]}"#;
    assert_eq!(template.render(&Chat::from_json(body).expect("a chat")).expect("rendered"), "args: {\"a\":1}");
}

#[test]
fn parts_that_are_no_text_are_the_templates_or_refused() {
    let body = r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "see "},
        {"type": "image_url", "image_url": {"url": "u"}}]}]}"#;
    let kind = "image_url".into();
    assert_eq!(render(body), Err(TemplateError::ContentPart { message: 0, kind }));
    let source = "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}\
        {% if p.type == 'text' %}{{ p.text }}{% else %}<image>{% endif %}{% endfor %}{% endif %}{% endfor %}";
    let template = ChatTemplate::from_source(source, "{}").expect("a template");
    let chat = Chat::from_json(body.as_bytes()).expect("a chat");
    assert_eq!(template.render(&chat).expect("rendered"), "see <image>");
    let template = template.content_format(ContentFormat::Text);
    assert!(matches!(template.render(&chat), Err(TemplateError::ContentPart { .. })));
}

#[test]
fn named_templates_are_chosen_by_the_tools() {
    let config =
        r#"{"chat_template": [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "t"}]}"#;
    let template = ChatTemplate::from_config(config).expect("a template");
    let render = |body: &str| template.render(&Chat::from_json(body.as_bytes()).expect("a chat")).expect("rendered");
    assert_eq!(render(r#"{"messages": [{}], "tools": [{}]}"#), "t");
    assert_eq!(render(r#"{"messages": [{}], "tools": []}"#), "plain");
    let lone = r#"{"chat_template": [{"name": "rag", "template": ""}]}"#;
    assert_eq!(ChatTemplate::from_config(lone).err(), Some(TemplateError::Missing));
    assert_eq!(ChatTemplate::from_config("{}").err(), Some(TemplateError::Missing));
    assert!(matches!(ChatTemplate::from_config("[]"), Err(TemplateError::Config(_))));
    let parse = ChatTemplate::from_source("a\n{% if %}", "{}");
    assert!(matches!(parse, Err(TemplateError::Parse { line: 2, .. })), "{parse:?}");
}

#[test]
fn failures_say_what_and_whose() {
    assert_eq!(render(r#"{"messages": []}"#), Err(TemplateError::NoMessages));
    assert_eq!(render(r#"{"messages": "hello"}"#), Err(TemplateError::NoMessages));
    assert_eq!(render(r#"{"messages": [{"role": "user", "content": ""}, 7]}"#), Err(TemplateError::NotAMessage(1)));
    let refused = TemplateError::Refused("unknown role judge".into());
    assert_eq!(render(r#"{"messages": [{"role": "judge"}]}"#), Err(refused));
    let failed = render(r#"{"messages": [{"role": ["user"]}]}"#);
    assert!(matches!(failed, Err(TemplateError::Refused(_) | TemplateError::Failed { .. })), "{failed:?}");
    let unsupported = PromptError::Unsupported("continue_final_message");
    assert_eq!(tokens(r#"{"messages": [{}], "continue_final_message": true}"#), Err(unsupported));
    let mut out = Vec::new();
    let bare = ModelPrompts::new(Bytes).tokenize(br#"{"messages": [{}]}"#, &mut out);
    assert_eq!(bare, Err(PromptError::Template(TemplateError::Missing)));
}

#[test]
fn prompts_come_in_all_shapes() {
    let framed = [vec![1_000], bytes("hi"), vec![2_000]].concat();
    for body in [r#"{"prompt": "hi"}"#, r#"{"prompt": ["hi"]}"#, r#"{"text": "hi"}"#, r#"{"text": ["h\u0069"]}"#] {
        assert_eq!(tokens(body), Ok(framed.clone()), "{body}");
    }
    assert_eq!(tokens(r#"{"prompt": "hi", "add_special_tokens": false}"#), Ok(bytes("hi")));
    for body in
        [r#"{"prompt": [5, 6]}"#, r#"{"prompt": [[5, 6]]}"#, r#"{"input_ids": [5, 6]}"#, r#"{"input_ids": [[5, 6]]}"#]
    {
        assert_eq!(tokens(body), Ok(vec![5, 6]), "{body}");
    }
    assert_eq!(tokens(r#"{"prompt": []}"#), Ok(vec![]));
    for body in [r#"{"prompt": ["a", "b"]}"#, r#"{"input_ids": [[1], [2]]}"#, r#"{"prompt": [[1], "b"]}"#] {
        assert_eq!(tokens(body), Err(PromptError::SeveralPrompts(2)), "{body}");
    }
    assert_eq!(tokens(r#"{"model": "m", "prompt": null}"#), Err(PromptError::NoPrompt));
    for body in [
        "",
        "{",
        "[]",
        r#"{"prompt": 5}"#,
        r#"{"prompt": [-1]}"#,
        r#"{"prompt": [4294967296]}"#,
        r#"{"prompt": [1, "a"]}"#,
        r#"{"prompt": [[[1]]]}"#,
        r#"{"prompt": {"a": 1}}"#,
        "{\"prompt\": \"\u{0}\"}",
    ] {
        assert!(matches!(tokens(body), Err(PromptError::Body { .. })), "{body}: {:?}", tokens(body));
    }
}

proptest! {
    /// A client may send anything.
    #[test]
    fn nothing_in_a_body_makes_it_panic(
        body in prop_oneof![
            any::<String>(),
            "\\{\"(messages|prompt|text|input_ids)\":(\\[|\\{|\"|[0-9]|\\]|\\}|,|:|null){0,12}\\}",
            r#"\{"messages":\[(\{"(role|content|tool_calls)":("user"|5|null|\[\]|\[\{"type":"x"\}\]|\{\}|\[\{"function":\{"arguments":"\{"\}\}\])\},?){0,3}\]\}"#,
        ],
    ) {
        let _ = tokens(&body);
    }
}

struct Any;

impl Picker for Any {
    fn pick(
        &self,
        _: &routing_core::RoutingContext<'_>,
        totals: &Totals<'_>,
        ranking: &mut Ranking,
    ) -> Result<(), PluginError> {
        totals.rank(1, ranking);
        Ok(())
    }
}

/// What a profile with a preparer says to a request: how it fails, if it does.
fn decide(profile: ProfileBuilder, request: &Request<'_>) -> Option<String> {
    let workflow = profile.picker("any", |_: &mut Declare<'_>| Any).build().expect("they fit");
    let index: kv_index::Index = kv_index::Index::new(kv_index::Config::default());
    let fleet = Fleet::new(1, [routing_core::PodInfo::new(index.join("pod").expect("room"), "pod")]);
    let decided =
        workflow.decide(&mut workflow.workspace(), RoutingInput::new(request, &fleet), &mut RoutingPlan::default());
    let error = decided.err()?;
    Some(std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string))
}

#[test]
fn a_request_is_tokenized_by_its_model() {
    let known: HashMap<Box<str>, Arc<dyn PromptTokenizer>> =
        HashMap::from([("m".into(), Arc::new(ModelPrompts::new(Bytes)) as Arc<dyn PromptTokenizer>)]);
    let known: Arc<dyn Tokenizers> = Arc::new(known);
    let failure = |request: Request<'_>| {
        let known = Arc::clone(&known);
        let profile = ProfileBuilder::new("p");
        decide(profile.preparer("tokens", move |d: &mut Declare<'_>| TokenizePreparer::declare(d, known)), &request)
    };
    let now = Instant::now();
    assert_eq!(failure(Request::new("m", now).body(br#"{"prompt": "hi"}"#)), None);
    assert_eq!(failure(Request::new("n", now).tokens(&[1])), None, "given tokens need no tokenizer");
    assert_eq!(failure(Request::new("n", now)).as_deref(), Some("no tokenizer for model `n`"));
    let chat = failure(Request::new("m", now).body(br#"{"messages": [{}]}"#));
    assert_eq!(chat.as_deref(), Some("the messages cannot be rendered: the model has no chat template"));
}

#[test]
fn a_gateway_that_tokenizes_itself_has_to() {
    let profile = || ProfileBuilder::new("p").preparer("tokens", GivenTokensPreparer::declare);
    assert_eq!(decide(profile(), &Request::new("m", Instant::now()).tokens(&[])), None);
    let missing = decide(profile(), &Request::new("m", Instant::now()));
    assert_eq!(missing.as_deref(), Some("the request has no tokens, and this profile makes none of its text"));
}
