//! Multimodal condition: the prompt has something that an encoder works on.

use routing_core::{Condition, PluginError, RoutingContext};
use serde_json::Value;

/// Holds if a message of the body has a part that is an image, audio or video.
#[derive(Clone, Copy, Debug)]
pub(super) struct MultimodalCondition;

impl<const W: usize> Condition<W> for MultimodalCondition {
    fn holds(&self, context: &RoutingContext<'_, W>) -> Result<bool, PluginError> {
        let body = context.request().body;
        // Most bodies have none of these words, and need not be parsed.
        let says = |word: &str| body.windows(word.len()).any(|part| part == word.as_bytes());
        if !KINDS.iter().any(|kind| says(kind)) {
            return Ok(false);
        }
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let messages = ["messages", "input"].iter().find_map(|name| body[name].as_array());
        Ok(messages.into_iter().flatten().any(|message| is_multimodal(&message["content"])))
    }
}

fn is_multimodal(content: &Value) -> bool {
    let kinds = content.as_array().into_iter().flatten().filter_map(|part| part["type"].as_str());
    kinds.into_iter().any(|kind| KINDS.iter().any(|known| kind.contains(known)))
}

/// What is in the types of such parts: `image_url`, `input_image`, `input_audio`, `video_url`.
const KINDS: [&str; 3] = ["image", "audio", "video"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_messages_are_told_by_their_types() {
        let content = |text: &str| is_multimodal(&serde_json::from_str::<Value>(text).unwrap());
        assert!(content(r#"[{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "u"}}]"#));
        assert!(content(r#"[{"type": "input_audio"}]"#));
        assert!(!content(r#"[{"type": "text", "text": "an image"}]"#));
        assert!(!content(r#""an image""#));
    }
}
