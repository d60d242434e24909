//! Tools of requests, in the form that vLLM gives to chat templates: the fields of a function in its order, absent ones as null.

use json_edit::{Fragment, Object};

/// A tool as a chat has it, with the schema of its parameters.
pub(super) fn function<'b>(tool: Object<'b>, schema: Option<Fragment<'b>>) -> Fragment<'b> {
    let given = |name: &str| tool.get(name).filter(|value| !value.is_null()).map(Fragment::from);
    let mut members = vec![
        ("name", given("name").unwrap_or(Fragment::NULL)),
        ("description", given("description").unwrap_or(Fragment::NULL)),
        ("parameters", schema.unwrap_or(Fragment::NULL)),
    ];
    members.extend(["strict", "defer_loading"].into_iter().filter_map(|name| Some((name, given(name)?))));
    Fragment::object([("type", Fragment::from("function")), ("function", Fragment::object(members))])
}

/// A call of a function in a message.
pub(super) fn call<'b>(id: Fragment<'b>, name: Fragment<'b>, arguments: Fragment<'b>) -> Fragment<'b> {
    let function = Fragment::object([("name", name), ("arguments", arguments)]);
    Fragment::object([("id", id), ("type", Fragment::from("function")), ("function", function)])
}

/// A message that tells what a call came to.
pub(super) fn result<'b>(id: Fragment<'b>, content: Fragment<'b>) -> Fragment<'b> {
    Fragment::object([("role", Fragment::from("tool")), ("tool_call_id", id), ("content", content)])
}
