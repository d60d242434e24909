//! The `flowControl` section as it is written.

use std::time::Duration;

use super::fields::Fields;
use super::schema::Reference;

/// What the section says.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowSection {
    pub(super) limits: Limits,
    pub(super) time_to_live: Option<Duration>,
    pub(super) default_band: Option<Band>,
    pub(super) negative_band: Option<Band>,
    pub(super) bands: Vec<Band>,
    pub(super) usage_limit: Option<Reference>,
    pub(super) detector: Option<Reference>,
    pub(super) evicts: bool,
    pub(super) splits_time_to_live: bool,
    /// Whether more is said than the detector, which counts also without the gate.
    pub(super) says_more: bool,
}

/// What may wait; 0 is the same as nothing said.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    pub(super) requests: Option<u64>,
    pub(super) bytes: Option<u64>,
}

/// A priority band.
#[derive(Clone, Debug, Default)]
pub(super) struct Band {
    pub(super) priority: i64,
    pub(super) limits: Limits,
    pub(super) fairness: Option<Reference>,
    pub(super) ordering: Option<Reference>,
}

impl Limits {
    fn read(fields: &Fields<'_>) -> Self {
        let some = |name| fields.quantity(name).filter(|limit| *limit > 0);
        Self { requests: some("maxRequests"), bytes: some("maxBytes") }
    }
}

impl Band {
    fn read(fields: &Fields<'_>) -> Self {
        Self {
            // The lowest is kept for what is below all bands.
            priority: fields.whole("priority").unwrap_or_default().clamp(i64::from(i32::MIN) + 1, i64::from(i32::MAX)),
            limits: Limits::read(fields),
            fairness: Reference::read(fields, "fairnessPolicyRef"),
            ordering: Reference::read(fields, "orderingPolicyRef"),
        }
    }
}

impl FlowSection {
    pub(super) fn read(fields: &Fields<'_>) -> Self {
        let band = |name| fields.fields(name).map(|band| Band::read(&band));
        let detector = fields.fields("saturationDetector");
        let mut section = Self {
            limits: Limits::read(fields),
            time_to_live: fields.duration("defaultRequestTTL"),
            default_band: band("defaultPriorityBand"),
            negative_band: band("defaultNegativePriorityBand"),
            bands: fields.objects("priorityBands").iter().map(Band::read).collect(),
            usage_limit: Reference::read(fields, "usageLimitPolicyPluginRef"),
            detector: detector.and_then(|detector| Reference::read(&detector, "pluginRef")),
            evicts: fields.flag("enableEviction").unwrap_or_default(),
            splits_time_to_live: fields.duration("noEndpointRequestTTL").is_some(),
            says_more: false,
        };
        let Limits { requests, bytes } = section.limits;
        let is_sized = requests.is_some() || bytes.is_some() || section.time_to_live.is_some();
        let has_bands = !section.bands.is_empty() || section.default_band.is_some() || section.negative_band.is_some();
        section.says_more = is_sized || has_bands || section.usage_limit.is_some() || section.splits_time_to_live;
        section
    }
}
