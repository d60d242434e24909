//! Runs the example, and shows that nothing of an asynchronous stack is compiled for it.

#[path = "../sync_host.rs"]
mod sync_host;

use std::process::Command;

#[test]
fn it_serves_by_threads_and_blocking_sockets() {
    assert!(sync_host::main().inspect_err(|error| println!("{error}")).is_ok());
}

#[test]
fn no_runtime_and_no_service_is_compiled_for_it() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["tree", "--offline", "-p", "pointsman-sync-host", "-e", "normal,dev", "--prefix", "none"];
    let tree = Command::new(cargo).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    let tree = String::from_utf8(tree.stdout).unwrap();
    assert!(tree.lines().any(|line| line.starts_with("pointsman v")), "{tree}");
    let asynchronous = ["tokio", "tower", "futures", "hyper", "async"];
    let found = tree.lines().find(|line| asynchronous.iter().any(|name| line.starts_with(name)));
    assert_eq!(found, None);
}
