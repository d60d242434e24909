//! Batch work source: the runner's view of a file's requests.

use std::sync::Arc;

use http::Request;
use http::header::CONTENT_TYPE;
use routing_core::Pod;
use routing_core::batch::{BatchPlan, BatchPod};
use routing_exec::ClientRequest;
use routing_exec::batch::{BatchWork, Size};

use crate::input::{Batch, Line};
use crate::output::request_id;
use crate::planning::{PromptChains, plan};

/// A file's requests and its pods.
#[derive(Debug)]
pub(crate) struct FileWork {
    pub(crate) batch: Arc<Batch>,
    pub(crate) chains: PromptChains,
    pub(crate) pods: Vec<BatchPod>,
}

impl FileWork {
    fn line(&self, place: u32) -> &Line {
        &self.batch.lines[place as usize]
    }
}

impl BatchWork for FileWork {
    fn size(&self, place: u32) -> Size {
        let request = self.chains.request(place);
        Size { prompt: request.prompt_tokens, output: request.output_tokens }
    }

    fn request(&mut self, place: u32) -> ClientRequest {
        let line = self.line(place);
        let request = Request::post(&*line.url)
            .header(CONTENT_TYPE, "application/json")
            .header("x-request-id", request_id(place))
            .body(line.body.clone());
        let (parts, body) = request.expect("the path is one of two, and the headers are plain").into_parts();
        ClientRequest::new(&parts, body, u64::from(place))
    }

    fn replan(&mut self, rest: &[u32], living: &[Pod]) -> Option<BatchPlan> {
        let pods: Vec<BatchPod> = self.pods.iter().filter(|pod| living.contains(&pod.pod)).copied().collect();
        Some(plan(&self.chains, rest, &pods))
    }
}
