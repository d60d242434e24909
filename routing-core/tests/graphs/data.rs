//! A workflow as data, and how to draw one at random.

use proptest::prelude::*;

/// A workflow that may be anything but sound.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    pub(crate) steps: Vec<Step>,
    pub(crate) executed: Option<Vec<String>>,
    /// Numbers for names that are nobody's yet.
    pub(crate) fresh: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) condition: Option<Plugin>,
    pub(crate) plugins: Vec<Plugin>,
    pub(crate) independent: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Plugin {
    pub(crate) name: String,
    pub(crate) kind: Option<String>,
    pub(crate) stage: Stage,
    /// Slots by number.
    pub(crate) reads: Vec<usize>,
    pub(crate) tries: Vec<usize>,
    pub(crate) writes: Vec<usize>,
    /// Steps whose picks it reads, and whether it relies on them.
    pub(crate) picks: Vec<(String, bool)>,
    pub(crate) relations: Vec<(Relation, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stage {
    Condition,
    Prepare,
    Filter,
    Score(f64),
    Pick,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Relation {
    Requires,
    Conflicts,
    After,
    Before,
}

impl Plugin {
    pub(crate) fn new(name: &str, stage: Stage) -> Self {
        let (reads, tries, writes) = (Vec::new(), Vec::new(), Vec::new());
        Self { name: name.into(), kind: None, stage, reads, tries, writes, picks: Vec::new(), relations: Vec::new() }
    }

    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.kind.as_deref().unwrap_or(&self.name) == name
    }
}

impl Flow {
    pub(crate) fn fresh(&mut self, prefix: &str) -> String {
        self.fresh += 1;
        format!("{prefix}-{}", self.fresh)
    }

    /// Every plugin with its step's number, in the order they run.
    pub(crate) fn in_order(&self) -> Vec<(usize, &Plugin)> {
        let mut order = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            order.extend(step.condition.iter().map(|plugin| (at, plugin)));
            let of = |wanted: fn(Stage) -> bool| step.plugins.iter().filter(move |plugin| wanted(plugin.stage));
            order.extend(of(|stage| stage == Stage::Prepare).map(|plugin| (at, plugin)));
            order.extend(of(|stage| stage == Stage::Filter).map(|plugin| (at, plugin)));
            order.extend(of(|stage| matches!(stage, Stage::Score(_))).map(|plugin| (at, plugin)));
            order.extend(of(|stage| stage == Stage::Pick).map(|plugin| (at, plugin)));
        }
        order
    }
}

/// Workflows of up to three steps, some sound, most not.
pub(crate) fn flow() -> impl Strategy<Value = Flow> {
    let steps =
        prop_oneof![1 => Just(0..=0), 15 => Just(1..=3)].prop_flat_map(|len| prop::collection::vec(step(), len));
    (steps, rarely(prop::collection::vec(0_usize..4, 0..5)), 0_usize..8).prop_map(|(mut steps, executed, twin)| {
        for (at, step) in steps.iter_mut().enumerate() {
            // One time in eight two steps have one name.
            step.name = if twin == 0 { "s0".into() } else { format!("s{at}") };
        }
        let executed = executed.map(|order| order.into_iter().map(|at| format!("s{at}")).collect());
        Flow { steps, executed, fresh: 0 }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let stage = prop_oneof![
        6 => Just(Stage::Prepare),
        2 => Just(Stage::Filter),
        3 => weight().prop_map(Stage::Score),
    ];
    let pickers = prop_oneof![1 => Just(0), 10 => Just(1), 1 => Just(2)];
    let parts = (prop::collection::vec(stage.prop_flat_map(plugin), 0..6), pickers, rarely(plugin(Stage::Condition)));
    (parts, prop::bool::weighted(0.2), 0_usize..100, 0_usize..12).prop_flat_map(
        |((others, pickers, condition), independent, at, twin)| {
            prop::collection::vec(plugin(Stage::Pick), pickers).prop_map(move |pickers| {
                let mut plugins = others.clone();
                for picker in pickers {
                    plugins.insert(at % (plugins.len() + 1), picker);
                }
                for (at, plugin) in plugins.iter_mut().enumerate() {
                    plugin.name = format!("p{}", if at == twin { 0 } else { at });
                }
                let condition = condition.clone().map(|plugin| Plugin { name: "if".into(), ..plugin });
                Step { name: String::new(), condition, plugins, independent }
            })
        },
    )
}

fn plugin(stage: Stage) -> impl Strategy<Value = Plugin> {
    let slots = |most| rarely(prop::collection::vec(0_usize..6, 1..=most)).prop_map(Option::unwrap_or_default);
    let writes = match stage {
        Stage::Prepare => prop::collection::vec(0_usize..6, 0..=2).boxed(),
        _ => prop_oneof![20 => Just(vec![]), 1 => (0_usize..6).prop_map(|slot| vec![slot])].boxed(),
    };
    let step = prop_oneof![Just("s0"), Just("s1"), Just("s2"), Just("s4")];
    let picks = rarely((step.prop_map(String::from), any::<bool>())).prop_map(|pick| pick.into_iter().collect());
    let relation = prop_oneof![
        Just(Relation::Requires),
        Just(Relation::Conflicts),
        Just(Relation::After),
        Just(Relation::Before),
    ];
    let whom = prop_oneof![4 => (0_usize..6).prop_map(|at| format!("p{at}")), 1 => Just(String::from("k"))];
    let relations = prop_oneof![5 => Just(vec![]), 2 => prop::collection::vec((relation, whom), 1..=2)];
    let kind = rarely(Just(String::from("k")));
    (kind, slots(2), slots(1), writes, picks, relations).prop_map(
        move |(kind, reads, tries, writes, picks, relations)| {
            // Nobody can say of which type a condition is.
            let kind = kind.filter(|_| stage != Stage::Condition);
            Plugin { kind, reads, tries, writes, picks, relations, ..Plugin::new("", stage) }
        },
    )
}

fn weight() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => 0.0..10.0,
        2 => Just(0.0),
        1 => prop_oneof![
            Just(-1.0), Just(-0.0), Just(f64::NAN), Just(f64::INFINITY), Just(1e39), Just(3e38), Just(1e-46), Just(5e-324),
        ],
    ]
}

fn rarely<S: Strategy>(inner: S) -> impl Strategy<Value = Option<S::Value>> {
    prop::option::weighted(0.25, inner)
}
