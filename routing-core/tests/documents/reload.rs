//! A new document goes into service while the old one is in use; a bad one changes nothing.

use std::time::Instant;

use kv_index::{Config, Index};
use routing_core::{Fleet, PodInfo, Request, RoutingInput, RoutingPlan, Value, WorkflowCell};

use crate::YAML;
use crate::format;
use crate::plugins::registry;

#[test]
#[allow(clippy::disallowed_methods, reason = "the test is the host, and tells the time")]
fn a_document_is_built_aside_and_swapped_in() {
    let registry = registry();
    let mut document = format::yaml(&registry, YAML).expect("the sample is sound");
    document.workflow = None;
    document.profiles.remove(0);
    let cell = WorkflowCell::new(document.build(&registry).expect("the first document builds"));

    let index: Index = Index::new(Config::default());
    let (eu, us) = (index.join("eu").expect("there is room"), index.join("us").expect("there is room"));
    let pods = [PodInfo::new(eu, "eu").label("region", "eu"), PodInfo::new(us, "us").label("region", "us")];
    let fleet = Fleet::new(1, pods);
    let request = Request::new("any", Instant::now());

    let old = cell.load();
    let mut old_workspace = old.workspace();
    document.profiles[0].pick = "bset".to_owned();
    assert!(document.build(&registry).is_err());
    document.profiles[0].pick = "best".to_owned();
    document.plugins[2].parameters.insert("region".to_owned(), Value::from("us"));
    cell.replace(document.build(&registry).expect("the second document builds"));

    // What was loaded before the swap goes on as it began; what is loaded after it is new.
    let mut plan = RoutingPlan::default();
    old.decide(&mut old_workspace, RoutingInput::new(&request, &fleet), &mut plan).expect("the old workflow decides");
    assert_eq!(plan.steps()[0].candidates[0].pod, eu);
    let new = cell.load();
    new.decide(&mut new.workspace(), RoutingInput::new(&request, &fleet), &mut plan).expect("the new workflow decides");
    assert_eq!(plan.steps()[0].candidates[0].pod, us);
    assert_eq!(new.document(), Some(&document));
}
