//! Validation of the command line, before anything runs.

use kv_index::DEFAULT_POD_WORDS;

use super::{Options, Study};
use crate::SimulateError;
use crate::policy::CLAIRVOYANT;

impl Options {
    /// Checks every value, and values that depend on each other; the error names the first flag that is wrong.
    pub(crate) fn check(&self) -> Result<(), SimulateError> {
        let within = |flag, value: f64, least: f64, most: f64| match value {
            _ if (least..=most).contains(&value) => Ok(()),
            _ => Err(SimulateError::flag(flag, format!("{value} is not from {least} to {most}"))),
        };
        let counts = [
            ("requests", self.requests, MOST_REQUESTS),
            ("pods", self.pods, MOST_PODS),
            ("step-tokens", self.step_tokens, MOST_TOKENS),
            ("max-running", self.max_running, MOST_REQUESTS),
            ("jobs", self.jobs.unwrap_or(1), MOST_JOBS),
        ];
        for (flag, value, most) in counts {
            within(flag, value as f64, 1.0, most as f64)?;
        }
        for &tokens in &self.kv_tokens {
            within("kv-tokens", tokens as f64, 1.0, MOST_TOKENS as f64)?;
        }
        within("churn", self.churn.unwrap_or(1.0), 0.1, MOST_CHURN)?;
        self.check_churn()?;
        self.check_clairvoyant()?;
        within("host-tokens", self.host_tokens as f64, 0.0, MOST_TOKENS as f64)?;
        if self.prefill_pods >= self.pods {
            let wrong = format!("{} of {} pods leave none that decodes", self.prefill_pods, self.pods);
            return Err(SimulateError::flag("prefill-pods", wrong));
        }
        for &load in &self.load {
            within("load", load, 1.0, MOST_LOAD)?;
        }
        within("rate", self.rate.unwrap_or(0.0), 0.0, MOST_RATE)?;
        for (flag, speeds) in [("speeds", &self.speeds), ("decode-speeds", &self.decode_speeds)] {
            speeds.iter().try_for_each(|&speed| within(flag, speed, 0.001, 1_000.0))?;
        }
        within("gateways", self.gateways as f64, 1.0, MOST_GATEWAYS)?;
        within("share-every", self.share_every, 0.0, MOST_DELAY)?;
        if self.share_every > 0.0 && self.share_every < LEAST_SHARE {
            let wrong = format!("{} is not 0, nor from {LEAST_SHARE} to {MOST_DELAY}", self.share_every);
            return Err(SimulateError::flag("share-every", wrong));
        }
        within("report-every", self.report_every, 0.001, MOST_DELAY)?;
        within("burstiness", self.burstiness.unwrap_or(1.0), 0.01, 100.0)?;
        within("slo-ttft", self.slo_ttft, 0.0, MOST_DELAY)?;
        within("slo-tpot", self.slo_tpot, 0.0, MOST_DELAY)?;
        within("event-delay", self.event_delay, 0.0, MOST_DELAY)?;
        within("event-loss", self.event_loss, 0.0, 100.0)?;
        within("seeds", self.seeds as f64, 1.0, MOST_SEEDS)?;
        if self.seed.checked_add(self.seeds).is_none() {
            return Err(SimulateError::flag("seed", "there are no seeds after it"));
        }
        match &self.out {
            Some(out) if out.exists() && !out.is_dir() => {
                Err(SimulateError::flag("out", format!("{} is no folder", out.display())))
            }
            _ => Ok(()),
        }
    }
}

impl Options {
    fn check_churn(&self) -> Result<(), SimulateError> {
        let wrong = match self.study {
            _ if self.churn.is_none() => return Ok(()),
            Some(Study::OfflineBatch | Study::ColocatedBatch) => "a batch is planned for pods that stay",
            _ if self.pods >= DEFAULT_POD_WORDS * 64 => "the index has no place for one more pod",
            _ => return Ok(()),
        };
        Err(SimulateError::flag("churn", wrong))
    }

    /// Who foresees everything is asked about one request at a time, for a pod that does all of it.
    fn check_clairvoyant(&self) -> Result<(), SimulateError> {
        let is_named = self.compare.iter().any(|name| name.trim() == CLAIRVOYANT);
        let is_apart = self.prefill_pods > 0 || self.flow.is_some();
        let studies =
            [Study::Disaggregation, Study::ColocatedBatch, Study::FlowControl, Study::ProgramOrder, Study::Programs];
        if is_named && (is_apart || self.study.is_some_and(|study| studies.contains(&study))) {
            let wrong = "`clairvoyant` knows neither flow control nor pods that only prefill, nor batches and programs";
            return Err(SimulateError::flag("compare", wrong));
        }
        Ok(())
    }
}

/// Places of requests are `u32`s, and their prompts must fit into memory.
const MOST_REQUESTS: usize = 100_000_000;
const MOST_PODS: usize = 4_096;
const MOST_TOKENS: usize = 1 << 40;
const MOST_JOBS: usize = 1_024;
/// Percent; ten times what a fleet takes shows all there is to see.
const MOST_LOAD: f64 = 1_000.0;
const MOST_RATE: f64 = 1e6;
/// An hour, in ms.
const MOST_DELAY: f64 = 3.6e6;
/// As report-every: a µs.
const LEAST_SHARE: f64 = 0.001;
/// A year, in seconds.
const MOST_CHURN: f64 = 3.2e7;
const MOST_GATEWAYS: f64 = 256.0;
const MOST_SEEDS: f64 = 1_000.0;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn read(args: &str) -> Options {
        Options::try_parse_from(std::iter::once("simulate").chain(args.split_whitespace())).unwrap()
    }

    #[test]
    fn nonsense_is_told_by_its_flag() {
        read("").check().unwrap();
        let wrong = [
            "--pods 0",
            "--pods 5000",
            "--requests 0",
            "--kv-tokens 0",
            "--kv-tokens 4096,0",
            "--step-tokens 0",
            "--max-running 0",
            "--churn 0",
            "--churn nan",
            "--churn 60 --pods 256",
            "--churn 60 --study colocated-batch",
            "--compare clairvoyant --prefill-pods 4",
            "--compare clairvoyant --study flow-control",
            "--jobs 0",
            "--prefill-pods 16",
            "--load 80,0",
            "--load nan",
            "--load 1e9",
            "--rate inf",
            "--rate=-1",
            "--event-delay nan",
            "--event-delay=-1",
            "--event-loss 101",
            "--event-loss nan",
            "--speeds 1,0",
            "--decode-speeds 1,0",
            "--gateways 0",
            "--share-every=-1",
            "--share-every nan",
            "--share-every 0.0001",
            "--report-every 0",
            "--burstiness 0",
            "--slo-ttft=-1",
            "--slo-tpot nan",
            "--seeds 0",
            "--seed 18446744073709551615",
            "--out /dev/null",
        ];
        for args in wrong {
            let error = read(args).check().unwrap_err().to_string();
            let flag = args.split([' ', '=']).next().unwrap();
            assert!(error.starts_with(&format!("{flag}: ")), "{args}: {error}");
        }
        let error = read("--kv-tokens 100").fleet(512).unwrap_err().to_string();
        assert!(error.starts_with("--kv-tokens: 100 tokens"), "{error}");
    }
}
