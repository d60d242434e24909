//! Access to pods: keys that they ask for, and TLS towards them.

use std::fmt;
use std::path::{Path, PathBuf};

use pointsman::PodKey;
use serde::Deserialize;

use super::{Config, Problem};

/// A text that is not shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// A secret.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Whether it is this text.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.0 == text
    }
}

/// A configuration may be logged; its keys may not.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

/// What all pods ask for, unless a pod has its own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct PodAuth {
    /// The bearer key of pods.
    pub api_key: Option<Secret>,
    /// A file whose first line is the key.
    pub api_key_file: Option<PathBuf>,
    /// Whether the client's own `authorization` reaches pods that have no key here.
    pub forward_client: bool,
}

impl Default for PodAuth {
    fn default() -> Self {
        Self { api_key: None, api_key_file: None, forward_client: true }
    }
}

/// TLS towards pods at `https://`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct PodTls {
    /// Certificates that are trusted, as a PEM file; those of the system if unset.
    pub ca: Option<PathBuf>,
    /// The gateway's own certificate chain, for pods that ask for one.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// The name that pods' certificates are for; each pod's host if unset.
    pub server_name: Option<String>,
}

/// The key of a pod: its own, or that of all; none if there is none.
///
/// # Errors
///
/// When the file cannot be read, or what is in it is no key. The key is not in the error.
pub(crate) fn key(config: &Config, own: (&Option<Secret>, &Option<PathBuf>)) -> Result<Option<PodKey>, String> {
    let read = |key: &Secret| PodKey::bearer(&key.0).map_err(|error| error.to_string()).map(Some);
    let all = (&config.pod_auth.api_key, &config.pod_auth.api_key_file);
    for (given, file) in [own, all] {
        match (given, file) {
            (Some(key), _) => return read(key),
            (None, Some(path)) => return read(&Secret(first_line(path)?)).map_err(|error| in_file(path, &error)),
            (None, None) => {}
        }
    }
    Ok(None)
}

fn first_line(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| in_file(path, &error))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn in_file(path: &Path, error: &dyn fmt::Display) -> String {
    format!("api_key_file `{}`: {error}", path.display())
}

/// Problems of keys and TLS.
pub(super) fn check(config: &Config, found: &mut Vec<Problem>) {
    let mut one_of = |place: String, given: &Option<Secret>, file: &Option<PathBuf>| match (given, file) {
        (Some(_), Some(_)) => found.push(Problem::new(place, "`api_key` and `api_key_file` are both set; remove one")),
        (Some(key), None) if PodKey::bearer(&key.0).is_err() => {
            found.push(Problem::new(format!("{place}.api_key"), "the key is empty, or no text that a header may have"));
        }
        _ => {}
    };
    one_of("pod_auth".to_owned(), &config.pod_auth.api_key, &config.pod_auth.api_key_file);
    for served in config.served() {
        for (at, pod) in served.pods.iter().enumerate() {
            one_of(format!("{}pods[{at}]", served.place), &pod.api_key, &pod.api_key_file);
        }
    }
    if config.pod_tls.as_ref().is_some_and(|tls| tls.certificate.is_some() != tls.key.is_some()) {
        found.push(Problem::new("pod_tls", "a certificate needs its key and a key its certificate; give both or none"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::PodSettings;
    use super::*;

    #[test]
    fn a_pods_own_key_comes_first_and_none_is_shown() {
        let mut config =
            Config::default_for(vec![PodSettings::new("a", "http://a"), PodSettings::new("b", "http://b")]);
        let file = std::env::temp_dir().join(format!("pointsman-key-{}", std::process::id()));
        std::fs::write(&file, "of-all\nmore").unwrap();
        config.pod_auth.api_key_file = Some(file.clone());
        config.pods[0].api_key = Some(Secret::new("its-own"));
        let keys = config.pods.iter().map(|pod| key(&config, (&pod.api_key, &pod.api_key_file)).unwrap().unwrap());
        let keys: Vec<String> = keys.map(|key| key.header().to_str().unwrap().to_owned()).collect();
        assert_eq!(keys, ["Bearer its-own", "Bearer of-all"]);
        assert!(!format!("{config:?}").contains("its-own"));
        std::fs::write(&file, "\n").unwrap();
        let error = key(&config, (&None, &None)).unwrap_err();
        assert!(error.contains("is empty") && error.contains("pointsman-key"), "{error}");
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn what_contradicts_itself_is_told_without_the_key() {
        let text = "model: { name: sim }\npod_tls: { key: k.pem }\npod_auth: { api_key: x, api_key_file: y }\n\
            pods: [{ name: a, url: 'https://a', api_key: \"se\\ncret\" }]";
        let error = Config::parse(text).unwrap_err().to_string();
        assert!(["pod_tls", "pod_auth", "pods[0].api_key"].iter().all(|place| error.contains(place)), "{error}");
        assert!(!error.contains("cret"), "{error}");
    }
}
