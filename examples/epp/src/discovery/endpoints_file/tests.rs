//! What an endpoints file may hold, how its faults are told, and how it is followed.

use pointsman::core::Role;

use super::*;

const TWO: &str = r#"
endpoints:
  - name: vllm-0
    address: "10.0.0.1"
    port: "8000"
  - name: vllm-1
    namespace: prod
    address: "fd00::2"
    port: 8001
    labels: {llm-d.ai/role: decode, zone: a}
"#;

fn two() -> [PodSpec; 2] {
    let second = PodSpec::new("prod/vllm-1", "[fd00::2]:8001").role(Role::Decode);
    let second = second.label("llm-d.ai/role", "decode").label("zone", "a");
    [PodSpec::new("vllm-0", "10.0.0.1:8000"), second]
}

#[test]
fn yaml_and_json_list_pods() {
    assert_eq!(parse(TWO.as_bytes()).unwrap(), two());
    let json = r#"{"endpoints": [{"name": "a", "address": "10.0.0.1", "port": "80", "unknown": 1}]}"#;
    assert_eq!(parse(json.as_bytes()).unwrap(), [PodSpec::new("a", "10.0.0.1:80")]);
    assert_eq!(parse(b"endpoints: []").unwrap(), []);
}

#[test]
fn every_fault_is_told_with_its_entry_and_field() {
    let text = "endpoints:\n- {name: a, address: vllm.local, port: '0'}\n- {address: 10.0.0.1, port: '80'}\n\
                - {name: b, address: 10.0.0.1, port: '80'}\n- {name: b, address: 10.0.0.2}\n";
    let EndpointsFileError::Entries(faults) = parse(text.as_bytes()).unwrap_err() else { panic!("entries") };
    let found: Vec<_> = faults.iter().map(|fault| (fault.entry, fault.field)).collect();
    assert_eq!(found, [(0, "address"), (0, "port"), (1, "name"), (3, "name"), (3, "port")]);
    let text = EndpointsFileError::Entries(faults).to_string();
    assert!(text.starts_with("endpoints[0].address: `vllm.local` is no IP address; endpoints[0].port: "), "{text}");
}

#[test]
fn what_is_no_list_has_its_line_and_an_empty_file_is_not_an_empty_list() {
    for (text, part) in [
        ("endpoints:\n- name: [a\n", "line "),
        ("endpoints:\n- name: a\n  labels: 3\n", "line "),
        ("", "endpoints"),
        ("pods: []", "endpoints"),
    ] {
        let error = parse(text.as_bytes()).unwrap_err();
        assert!(matches!(&error, EndpointsFileError::Malformed(why) if why.contains(part)), "{text:?}: {error}");
    }
    assert_eq!(parse(&vec![b' '; LIMIT as usize + 1]), Err(EndpointsFileError::TooLarge));
}

struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("pointsman-epp-{name}-{}", std::process::id())))
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn a_watched_file_is_followed_and_a_fault_is_told_once() {
    let file = TempFile::new("followed");
    let mut pods = EndpointsFile::new(&file.0).watch_file(true).period(Duration::from_millis(1));
    assert!(matches!(pods.next().await, Err(EndpointsFileError::Unreadable { .. })));
    file.write(TWO);
    assert_eq!(pods.next().await.unwrap(), two());
    file.write("endpoints: 3");
    assert!(matches!(within(pods.next()).await, Some(Err(EndpointsFileError::Malformed(_)))));
    assert!(tokio::time::timeout(Duration::from_millis(20), pods.next()).await.is_err(), "told once");
    file.write("endpoints: []");
    assert_eq!(within(pods.next()).await, Some(Ok(Vec::new())));
}

#[tokio::test]
async fn a_file_that_is_not_watched_is_read_until_it_gives_a_list() {
    let file = TempFile::new("once");
    file.write("endpoints: 3");
    let mut pods = EndpointsFile::new(&file.0).period(Duration::from_millis(1));
    assert!(pods.next().await.is_err());
    file.write(TWO);
    assert_eq!(within(pods.next()).await, Some(Ok(two().to_vec())));
    file.write("endpoints: []");
    assert!(tokio::time::timeout(Duration::from_millis(20), pods.next()).await.is_err(), "read no more");
}

async fn within<T>(future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(Duration::from_secs(10), future).await.ok()
}
