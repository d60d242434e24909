//! Session affinity as llm-d has it: kept by the client as a token, or here by the session's name.

use serde_json::{Value, json};

use super::fields::Fields;
use super::parts::{Piece, World, one};
use super::settings::SessionToken;

/// The session scorer: 1 for the session's pod.
pub(super) fn scorer(world: World<'_>, fields: &Fields<'_>) -> Option<Piece> {
    affinity(world, fields, ["session_token_scorer", "session_scorer"])
}

/// The session filter: the session's pod alone, if it is there.
pub(super) fn filter(world: World<'_>, fields: &Fields<'_>) -> Option<Piece> {
    affinity(world, fields, ["session_token_filter", "session_filter"])
}

fn affinity(world: World<'_>, fields: &Fields<'_>, [by_token, by_name]: [&'static str; 2]) -> Option<Piece> {
    fields.skip(&["profileName"]);
    let (token, session) = (fields.fields("encodedEndpointHeaderConfig"), fields.fields("sessionIdConfig"));
    let header = token.as_ref().and_then(|token| token.text("header"));
    let sources = session.as_ref().map(|session| sources(world, session)).unwrap_or_default();
    match fields.text("strategy") {
        None | Some("encoded_endpoint_header") => Some(Piece::new(by_token, json!({ "header": lower(header) }))),
        Some("session_id") => {
            let mut piece = Piece::new(by_name, Value::Null);
            let default = || vec![one("header", DEFAULT_SESSION)];
            piece.needs.session = Some(if sources.is_empty() { default() } else { sources });
            Some(piece)
        }
        Some(other) => {
            fields.problem("strategy", format!("found `{other}`, expected encoded_endpoint_header or session_id"));
            None
        }
    }
}

/// Where a session's name is found.
fn sources(world: World<'_>, session: &Fields<'_>) -> Vec<Value> {
    for name in ["evictionTtlSeconds", "evictionSweepSeconds"] {
        if session.number(name).is_some_and(|seconds| seconds < 0.0) {
            session.problem(name, "expected a number above 0");
        }
    }
    let mut found = Vec::new();
    for source in session.objects("sources") {
        let producer = source.text("producer");
        match (source.text("header"), source.text("attribute")) {
            (Some(header), None) => found.push(one("header", header.to_ascii_lowercase())),
            (None, Some(AGENT)) if producer.is_none() && world.of_type(AGENT).next().is_some() => {
                found.extend(agent_headers(world).map(|header| one("header", header)));
            }
            (None, Some(attribute)) => match produced(world, producer).filter(|_| attribute != AGENT) {
                Some(place) => found.push(place),
                None => source.problem(
                    "attribute",
                    format!("nothing here writes `{attribute}`: name a `header`, or define a session-id-producer, or agent-identity for `{AGENT}`"),
                ),
            },
            _ => world.found.problem(&source.place, "expected one of `header` and `attribute`"),
        }
    }
    found
}

/// Where a `session-id-producer` looks: that of this name, or the first.
fn produced(world: World<'_>, name: Option<&str>) -> Option<Value> {
    let mut producers = world.of_type("session-id-producer");
    let producer = producers.find(|plugin| name.is_none_or(|name| name == plugin.name))?;
    let fields = world.parameters(producer);
    let (header, cookie) = (fields.text("headerName"), fields.text("cookieName"));
    header
        .map(|header| one("header", header.trim().to_ascii_lowercase()))
        .or_else(|| cookie.map(|cookie| one("cookie", cookie.trim())))
}

/// The headers by which agents tell their sessions, first those that `agent-identity` is told; none without it.
pub(super) fn agent_headers(world: World<'_>) -> impl Iterator<Item = String> {
    let plugin = world.of_type(AGENT).next();
    let own = plugin.map(|plugin| world.parameters(plugin).texts("additionalSessionHeaders")).unwrap_or_default();
    let own = own.into_iter().filter(|header| !header.is_empty());
    let known = AGENT_HEADERS.into_iter().filter(move |_| plugin.is_some());
    own.chain(known).map(str::to_ascii_lowercase)
}

/// Checks a `session-id-producer`.
pub(super) fn check_producer(fields: &Fields<'_>) {
    let both = (fields.text("headerName").is_some(), fields.text("cookieName").is_some());
    if both.0 == both.1 {
        fields.problem("headerName", "expected one of `headerName` and `cookieName`");
    }
}

/// The tokens that clients keep, and how long names are kept here, by the plugins that go by sessions.
pub(super) fn settings(world: World<'_>) -> (Vec<SessionToken>, Option<std::time::Duration>) {
    let (mut tokens, mut kept) = (Vec::new(), None);
    let plugins = ["session-affinity-scorer", "session-affinity-filter"].map(|kind| world.of_type(kind));
    for plugin in plugins.into_iter().flatten() {
        let mut fields = world.parameters(plugin);
        let step = fields.text("profileName").map(str::to_owned);
        if fields.text("strategy") == Some("session_id") {
            let seconds = fields.fields("sessionIdConfig").and_then(|mut session| {
                let seconds = session.number("evictionTtlSeconds");
                session.skip_all();
                seconds
            });
            let seconds = seconds.filter(|seconds| *seconds > 0.0).unwrap_or(300.0);
            kept = std::time::Duration::try_from_secs_f64(seconds).ok();
        } else {
            let header = fields.fields("encodedEndpointHeaderConfig").and_then(|config| config.text("header"));
            let token = SessionToken { header: lower(header), step };
            if !tokens.contains(&token) {
                tokens.push(token);
            }
        }
        fields.skip_all();
    }
    (tokens, kept)
}

fn lower(header: Option<&str>) -> String {
    let header = header.map(|header| header.trim().to_ascii_lowercase()).filter(|header| !header.is_empty());
    header.unwrap_or_else(|| "x-session-token".to_owned())
}

const DEFAULT_SESSION: &str = "x-session-id";
/// The plugin that knows agents, and what it writes.
const AGENT: &str = "agent-identity";
/// Claude Code's header, OpenCode's, and Codex', of which older ones have an underscore.
const AGENT_HEADERS: [&str; 4] = ["x-claude-code-session-id", "x-session-affinity", "session-id", "session_id"];
