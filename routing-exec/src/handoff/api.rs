//! Inference APIs, by path.

/// The API of a request, by its path.
///
/// # Examples
///
/// ```
/// use routing_exec::handoff::Api;
///
/// assert_eq!(Api::of("/v1/chat/completions?user=7"), Api::Chat);
/// assert_eq!(Api::of("/tenant/v1/completions/"), Api::Completions);
/// assert_eq!(Api::of("/v1/messages"), Api::Messages);
/// assert_eq!(Api::of("/v1/audio/speech"), Api::Other);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Api {
    /// OpenAI's chat completions.
    #[default]
    Chat,
    /// OpenAI's completions.
    Completions,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Messages,
    /// SGLang's `/generate`.
    Generate,
    /// vLLM's `/inference/v1/generate`: tokens in, tokens out.
    InferenceGenerate,
    /// OpenAI's embeddings.
    Embeddings,
    /// Anthropic's count of a request's tokens.
    CountTokens,
    /// Any other: no handoff.
    Other,
}

impl Api {
    /// The API of a path, whatever its prefix.
    #[must_use]
    pub fn of(path: &str) -> Self {
        // Asked several times a request: by the last part of it, rather than by each that is known.
        let end = path.bytes().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(path.len());
        let Some((before, last)) = path[..end].trim_end_matches('/').rsplit_once('/') else { return Self::Other };
        match last {
            "completions" if before.ends_with("/chat") => Self::Chat,
            "completions" => Self::Completions,
            "responses" => Self::Responses,
            "messages" => Self::Messages,
            "count_tokens" if before.ends_with("/messages") => Self::CountTokens,
            "embeddings" => Self::Embeddings,
            "generate" if before.ends_with("/inference/v1") => Self::InferenceGenerate,
            "generate" => Self::Generate,
            _ => Self::Other,
        }
    }

    /// Whether its streams end with `data: [DONE]`.
    #[must_use]
    pub fn ends_with_done(self) -> bool {
        matches!(self, Self::Chat | Self::Completions | Self::Generate | Self::InferenceGenerate)
    }

    /// The kinds of events that its streams may end with, where those are named: one without such an event is no whole answer.
    pub(crate) fn last_events(self) -> &'static [&'static [u8]] {
        match self {
            Self::Messages => &[b"message_stop"],
            Self::Responses => &[b"response.completed", b"response.incomplete", b"response.failed"],
            _ => &[],
        }
    }

    /// Whether its requests generate tokens. One that does not is never split into prefill and decode: it goes to one pod, in one
    /// plain leg.
    #[must_use]
    pub fn generates(self) -> bool {
        !matches!(self, Self::Embeddings | Self::CountTokens)
    }

    /// Whether it is Anthropic's, whose clients read errors of another form.
    #[must_use]
    pub fn is_anthropic(self) -> bool {
        matches!(self, Self::Messages | Self::CountTokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_its_api() {
        let cases = [
            ("/v1/chat/completions", Api::Chat),
            ("/v1/completions", Api::Completions),
            ("/v1/responses", Api::Responses),
            ("/v1/responses/resp_1", Api::Other),
            ("/v1/messages", Api::Messages),
            ("/v1/messages/count_tokens", Api::CountTokens),
            ("/v1/embeddings", Api::Embeddings),
            ("/generate", Api::Generate),
            ("/inference/v1/generate", Api::InferenceGenerate),
            ("/inference/v1/generate?x=/v1/completions", Api::InferenceGenerate),
            ("/v1/models", Api::Other),
            ("", Api::Other),
        ];
        for (path, api) in cases {
            assert_eq!(Api::of(path), api, "{path}");
        }
    }

    const OTHERS: [(&str, Api); 3] =
        [("chat/completions", Api::Other), ("/count_tokens", Api::Other), ("", Api::Other)];

    /// Literally: the first of these that a path ends with.
    const ENDS: [(&str, Api); 8] = [
        ("/chat/completions", Api::Chat),
        ("/completions", Api::Completions),
        ("/responses", Api::Responses),
        ("/messages", Api::Messages),
        ("/messages/count_tokens", Api::CountTokens),
        ("/embeddings", Api::Embeddings),
        ("/inference/v1/generate", Api::InferenceGenerate),
        ("/generate", Api::Generate),
    ];

    #[test]
    fn an_api_is_told_by_the_end_of_its_path() {
        for start in ["", "/", "/v1", "v1", "/a/chat", "/inference/v1", "/messages", "/x?/y"] {
            for (middle, _) in ENDS.iter().chain(&OTHERS) {
                for end in ["", "/", "//", "?x=/generate", "#/messages", "s"] {
                    let path = format!("{start}{middle}{end}");
                    let bare = path.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
                    let api = ENDS.iter().find(|(known, _)| bare.ends_with(known)).map_or(Api::Other, |(_, api)| *api);
                    assert_eq!(Api::of(&path), api, "{path}");
                }
            }
        }
    }
}
