//! Their index of what was routed where, forgotten by age.

use std::collections::BTreeMap;

use kv_index::{BlockHash, Config, Index, Matches, Pod, Predictor};
use serde_json::{Value, json};

use crate::case::Case;
use crate::read::{equal, known, texts, tokens, whole};

/// What was routed is taken to be cached, as far as there is room. Each block is a prompt of its own, as in their tests.
pub(super) fn predicted(case: &Case) -> Result<(), String> {
    known(&case.params, &[])?;
    known(&case.input, &["capacity", "server_gpu_blocks", "add", "add_both", "then_add", "then_remove"])?;
    known(&case.expected, &["len", "holders"])?;
    let capacity = match whole(&case.input, "server_gpu_blocks")?.filter(|blocks| *blocks > 0) {
        Some(reported) => reported,
        None => whole(&case.input, "capacity")?.ok_or("unknown capacity")?,
    };
    let mut servers = Servers::new(capacity as usize);
    servers.add(&case.input["add"], &["server1"])?;
    servers.add(&case.input["add_both"], &["server1", "server2"])?;
    servers.add(&case.input["then_add"], &["server1"])?;
    if !case.input["then_remove"].is_null() {
        texts(&case.input["then_remove"])?.iter().try_for_each(|name| servers.remove(name))?;
    }
    servers.expect(&case.expected)
}

struct Servers {
    index: Index,
    predictor: Predictor,
    pods: BTreeMap<String, Pod>,
}

impl Servers {
    fn new(capacity: usize) -> Self {
        Self { index: Index::new(Config::default()), predictor: Predictor::new(capacity), pods: BTreeMap::new() }
    }

    /// Blocks, or how many of them, for these servers, or for those that a map names.
    fn add(&mut self, blocks: &Value, servers: &[&str]) -> Result<(), String> {
        if let Value::Object(by_server) = blocks {
            return by_server.iter().try_for_each(|(server, blocks)| self.add(blocks, &[server]));
        }
        let blocks = if blocks.is_null() { Vec::new() } else { tokens(blocks)? };
        for block in blocks {
            for server in servers {
                let pod = match self.pods.get(*server) {
                    Some(pod) => *pod,
                    None => self.index.join(server).map_err(|error| error.to_string())?,
                };
                self.pods.insert((*server).to_owned(), pod);
                let routed = self.predictor.routed(&self.index, pod, &[BlockHash::new(u64::from(block))]);
                routed.map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    fn remove(&mut self, server: &str) -> Result<(), String> {
        let pod = self.pods.get(server).copied().ok_or_else(|| format!("unknown server {server}"))?;
        self.predictor.forget(pod);
        if self.index.retire(pod) { Ok(()) } else { Err(format!("{server} was not there")) }
    }

    fn len(&self, server: &str) -> Result<usize, String> {
        let pod = self.pods.get(server).ok_or_else(|| format!("unknown server {server}"))?;
        Ok(self.predictor.blocks(*pod))
    }

    fn holders(&self, block: &str) -> Result<Vec<&str>, String> {
        let hash = BlockHash::new(block.parse().map_err(|_| format!("unknown block {block}"))?);
        let mut matches = Matches::default();
        self.index.search(&[hash], &mut matches);
        let holds = |pod: &Pod| matches.depth(pod.id()) > 0;
        Ok(self.pods.iter().filter(|(_, pod)| holds(pod)).map(|(name, _)| &**name).collect())
    }

    /// Of one server a number of blocks, of more by name; and who holds a block.
    fn expect(&self, expected: &Value) -> Result<(), String> {
        match &expected["len"] {
            Value::Object(by_server) => {
                for (server, len) in by_server {
                    equal(&json!(self.len(server)?), len)?;
                }
            }
            Value::Null if expected["holders"].is_object() => {}
            len => equal(&json!(self.len("server1")?), len)?,
        }
        for (block, holders) in expected["holders"].as_object().into_iter().flatten() {
            equal(&json!(self.holders(block)?), holders)?;
        }
        Ok(())
    }
}
