//! The five minutes of `docs/envoy.md`: the script as a newcomer runs it, with programs that are built already.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};

use pointsman_test_support::programs;

fn quickstart(arguments: &[&str], built: &Path) -> Output {
    let folder = programs::temp_folder(env!("CARGO_TARGET_TMPDIR"), "quickstart");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("quickstart.sh");
    let mut command = Command::new(script);
    command.args(arguments).env("POINTSMAN_BUILT", built).env("POINTSMAN_QUICKSTART", folder.join("work"));
    programs::run(&mut command, &folder)
}

/// The folder of this picker, with the simulated pods in it: tests of the whole workspace have built them before this one runs.
fn built() -> &'static Path {
    let folder = Path::new(env!("CARGO_BIN_EXE_epp")).parent().unwrap();
    if !folder.join("engine-sim").exists() {
        let arguments = ["build", "--quiet", "-p", "pointsman-engine-sim", "--bin", "engine-sim"];
        assert!(Command::new(env!("CARGO")).args(arguments).status().unwrap().success());
    }
    folder
}

#[test]
fn the_second_request_of_a_topic_goes_where_the_first_was_computed() {
    if !programs::is_installed("envoy", &["--version"]) || !programs::is_installed("curl", &["--version"]) {
        return;
    }
    let output = quickstart(&["--once", "--free-ports"], built());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    for topic in ["weather", "music", "bread"] {
        let rows: Vec<_> = said.lines().map(words).filter(|row| row.len() == 4 && row[0] == topic).collect();
        let [first, second] = &rows[..] else { panic!("{topic}: {said}") };
        assert_eq!((&first[1], &first[2], &*first[3]), (&second[1], &second[2], "0"), "{said}");
        let [prompt, cached] = [&second[2], &second[3]].map(|number| number.parse::<u32>().unwrap());
        assert_eq!(cached, prompt / 16 * 16, "all whole blocks: {said}");
    }
    assert!(said.contains("pointsman_epp_decisions_total 6"), "{said}");
    // Nothing of it runs on.
    let envoy = said.lines().find_map(|line| line.strip_prefix("Envoy   http://")).unwrap();
    assert!(TcpStream::connect(envoy).is_err(), "{said}");
}

#[test]
fn what_is_missing_or_no_option_is_said() {
    let empty = programs::temp_folder(env!("CARGO_TARGET_TMPDIR"), "no-programs");
    for (arguments, said) in [(&["--twice"][..], "`--twice` is no option"), (&["--free-ports"], "there is no epp in ")]
    {
        let output = quickstart(arguments, &empty);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
}
