//! Completion-time estimate of a pod that batches continuously: when each request is done.
//!
//! Requests begin in order, each as soon as the cache has room for it. Prompts are computed one after another,
//! so many tokens a step, and with each step all that run generate a token. What both take is added up: nothing is said of what an
//! engine gains by doing both at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::layer::Job;
use super::sequence::Item;

/// Seconds until a pod has done `items` in order; calls `done` with each place and when it is done.
pub(super) fn estimate(job: &Job<'_>, pod: usize, items: &[Item], mut done: impl FnMut(u32, f64)) -> f64 {
    let room = job.pods[pod].kv_tokens as f64;
    let most = job.config.most_running as usize;
    let mut batch = ContinuousBatch {
        job,
        speed: job.pods[pod].speed,
        items,
        running: BinaryHeap::new(),
        used: 0.0,
        context: 0.0,
        now: 0.0,
        steps: 0,
        chunk: 0,
    };
    for (i, item) in items.iter().enumerate() {
        // All of its prompt is in use while it runs, whoever computed it.
        let needs = job.queue.request(item.at as usize).room() as f64;
        while !batch.running.is_empty() && (batch.used + needs > room || batch.running.len() >= most) {
            batch.finish_next(&mut done);
        }
        batch.begin(i as u32, item, &mut done);
    }
    while !batch.running.is_empty() {
        batch.finish_next(&mut done);
    }
    batch.now
}

struct ContinuousBatch<'a> {
    job: &'a Job<'a>,
    speed: f64,
    items: &'a [Item],
    /// By the step after which they are done; which, by place in `items`.
    running: BinaryHeap<Reverse<(u64, u32)>>,
    /// Tokens of the cache that are in use; those of a prefix count for the one that computed it.
    used: f64,
    /// Tokens that a step reads.
    context: f64,
    now: f64,
    steps: u64,
    /// Tokens of prompts that are computed and do not fill a step yet.
    chunk: u64,
}

impl ContinuousBatch<'_> {
    fn begin(&mut self, i: u32, item: &Item, done: &mut impl FnMut(u32, f64)) {
        let (uses, reads, output) = self.needs(item);
        self.now += self.job.prefill(item.at, item.cached) / self.speed;
        // Short prompts share a step: only what fills one is a step of its own.
        self.chunk += u64::from(self.job.new_tokens(item.at, item.cached));
        let step = u64::from(self.job.config.step_tokens.get());
        let steps = self.chunk / step;
        self.chunk %= step;
        self.generate(steps, done);
        self.running.push(Reverse((self.steps + u64::from(output), i)));
        self.used += uses;
        self.context += reads;
    }

    /// Takes so many steps beside prompts, as long as something runs: what a step costs by itself is theirs.
    fn generate(&mut self, steps: u64, done: &mut impl FnMut(u32, f64)) {
        let until = self.steps + steps;
        while self.running.peek().is_some_and(|Reverse((step, _))| *step <= until) {
            self.finish_next(done);
        }
        if !self.running.is_empty() {
            let costs = &self.job.config.costs;
            let each = costs.beside_prompts(self.running.len(), self.context);
            self.now += (until - self.steps) as f64 * each / self.speed;
            self.steps = until;
        }
    }

    /// Goes on until one is done.
    fn finish_next(&mut self, done: &mut impl FnMut(u32, f64)) {
        let Some(Reverse((step, i))) = self.running.pop() else { return };
        let each = self.job.config.costs.decode_step(self.running.len() + 1, self.context);
        self.now += (step - self.steps) as f64 * each / self.speed;
        self.steps = step;
        let item = &self.items[i as usize];
        let (uses, reads, _) = self.needs(item);
        self.used -= uses;
        self.context -= reads;
        done(item.at, self.now);
    }

    /// Tokens that it takes up in the cache, that a step reads for it in the mean, and that it generates.
    fn needs(&self, item: &Item) -> (f64, f64, u32) {
        let request = self.job.queue.request(item.at as usize);
        let output = f64::from(request.output_tokens);
        let new = f64::from(self.job.new_tokens(item.at, item.cached));
        (new + output, f64::from(request.prompt_tokens) + output / 2.0, request.output_tokens)
    }
}
