//! Batch source: the runner's view of a file's requests.

use std::sync::Arc;

use http::Request;
use http::header::CONTENT_TYPE;
use routing_core::Pod;
use routing_core::batch::{BatchPlan, BatchPod};
use routing_exec::ClientRequest;
use routing_exec::batch::{BatchSource, RequestSize};

use crate::input::{Batch, Line};
use crate::output::request_id;
use crate::planning::{PromptChains, plan};

/// A file's requests and its pods.
#[derive(Debug)]
pub(crate) struct FileSource {
    pub(crate) batch: Arc<Batch>,
    pub(crate) chains: PromptChains,
    pub(crate) pods: Vec<BatchPod>,
}

impl FileSource {
    fn line(&self, index: u32) -> &Line {
        &self.batch.lines[index as usize]
    }
}

impl BatchSource for FileSource {
    fn size(&self, index: u32) -> RequestSize {
        let request = self.chains.request(index);
        RequestSize { prompt: request.prompt_tokens, output: request.output_tokens }
    }

    fn request(&mut self, index: u32) -> ClientRequest {
        let line = self.line(index);
        let request = Request::post(&*line.url)
            .header(CONTENT_TYPE, "application/json")
            .header("x-request-id", request_id(index))
            .body(line.body.clone());
        let (parts, body) = request.expect("the path is one of two, and the headers are plain").into_parts();
        ClientRequest::new(&parts, body, u64::from(index))
    }

    fn replan(&mut self, requests: &[u32], pods: &[Pod]) -> Option<BatchPlan> {
        let pods: Vec<BatchPod> = self.pods.iter().filter(|pod| pods.contains(&pod.pod)).copied().collect();
        Some(plan(&self.chains, requests, &pods))
    }
}
