//! llm-d's pickers.

use serde_json::json;

use super::parts::{Parts, PickerPiece, Piece, World};
use super::schema::PluginSpec;

/// What a picker becomes; none if the plugin is no picker.
pub(super) fn picker(world: World<'_>, plugin: &PluginSpec) -> Option<Parts> {
    let mut fields = world.parameters(plugin);
    if !["max-score-picker", "weighted-random-picker", "random-picker"].contains(&plugin.kind.as_str()) {
        fields.skip_all();
        return None;
    }
    // What is not above 0 is 1, as there.
    let most = fields.whole("maxNumOfEndpoints").and_then(|most| usize::try_from(most).ok()).filter(|most| *most > 0);
    Some(Parts { picker: Some(of(&plugin.kind, most.unwrap_or(1))), ..Parts::default() })
}

/// The picker of a type. By chance alone is in proportion to scores that are all the same: scorers are left out beside it.
pub(super) fn of(kind: &str, most: usize) -> PickerPiece {
    let by_score = kind != "random-picker";
    let piece = match kind {
        "max-score-picker" => Piece::new("max_score_picker", json!({ "most": most })),
        _ => Piece::new("weighted_random_picker", json!({ "most": most, "softened": false })),
    };
    PickerPiece { piece, most, by_score }
}
