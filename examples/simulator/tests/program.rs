//! The program as a process: its table, its files, its exit status and its error messages.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use std::process::Command;

use serde_json::Value;

fn program(args: &[&str]) -> (bool, String, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_simulate")).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (done.status.success(), text(done.stdout), text(done.stderr))
}

#[test]
fn the_program_prints_a_table_and_writes_a_page_that_says_how_to_make_it_again() {
    let folder = std::env::temp_dir().join(format!("pointsman-simulate-{}", std::process::id()));
    let out = folder.display().to_string();
    let args =
        ["--synthetic", "rag", "--requests", "40", "--rate", "3", "--pods", "2", "--compare", "random,cache_aware"];
    let (well, text, progress) = program(&[&args[..], &["--out", &out]].concat());
    assert!(well, "{progress}");
    assert!(text.contains("TTFT p99") && text.contains("\ncache_aware ") && text.contains("report.html"), "{text}");
    assert!(progress.contains("100%"), "{progress}");
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains(&format!("-p pointsman-simulator -- {}</code>", args.join(" "))) && !page.contains(&out));
    let json: Value = serde_json::from_str(&std::fs::read_to_string(folder.join("report.json")).unwrap()).unwrap();
    assert_eq!(json["outcomes"].as_array().unwrap().len(), 2);
    let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let files: Vec<String> = files.collect();
    assert!(files.len() > 6 && !files.iter().any(|name| name.contains("unfinished")), "{files:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_program_says_what_is_wrong_by_its_flag_and_names_the_policies() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let wrong: [(&[&str], &str); 9] = [
        (&["--pods", "0"], "--pods: 0 is not from 1"),
        (&["--load", "nan"], "--load: NaN is not from 1"),
        (&["--rate", "inf"], "--rate: inf is not from 0"),
        (&["--compare", "lmetrik"], "did you mean `lmetric`?"),
        (&["--sweep", "lmetric:cost"], "--sweep lmetric:cost: there is no `=`"),
        (&["--sweep", "lmetric:cost.colour=1"], "colour"),
        (&["--trace", manifest], "line 1 of the trace is not a request"),
        (&["--trace", "no/such/file"], "--trace no/such/file: cannot read the trace: No such file"),
        (&["--synthetic", "poems"], "--synthetic"),
    ];
    for (args, part) in wrong {
        let (well, text, error) = program(args);
        assert!(!well && text.is_empty() && error.contains(part), "{args:?}: {error}");
    }
    let (well, text, _) = program(&["--list"]);
    assert!(well && text.lines().count() >= 19, "{text}");
    assert!(text.lines().any(|line| line.starts_with("lmetric ") && line.contains("smallest product")), "{text}");
}
