//! The command line that reproduces a run: only what differs from the defaults, and files by their names, since their folders
//! are those of one machine.

use std::path::Path;

use clap::Parser;

use super::{Options, file_name};

impl Options {
    /// The command that reproduces the run.
    pub(crate) fn command(&self) -> String {
        let Ok(default) = Self::try_parse_from(["simulate"]) else { return String::new() };
        let mut said = vec!["cargo run --release -p pointsman-simulator --".to_owned()];
        let mut say = |flag: &str, value: String, usual: String| {
            if value != usual {
                said.push(format!("--{flag} {}", quoted(&value)));
            }
        };
        for path in &self.trace {
            say("trace", file_name(path), String::new());
        }
        if self.trace.is_empty() && self.synthetic != default.synthetic {
            self.synthetic.iter().for_each(|kind| say("synthetic", kind.to_string(), String::new()));
        }
        say("requests", self.requests.to_string(), default.requests.to_string());
        match self.rate {
            Some(rate) => say("rate", rate.to_string(), String::new()),
            None => say("load", joined(&self.load), joined(&default.load)),
        }
        say("pods", self.pods.to_string(), default.pods.to_string());
        say("prefill-pods", self.prefill_pods.to_string(), default.prefill_pods.to_string());
        say("kv-tokens", joined(&self.kv_tokens), joined(&default.kv_tokens));
        say("churn", self.churn.map(|seconds| seconds.to_string()).unwrap_or_default(), String::new());
        say("host-tokens", self.host_tokens.to_string(), default.host_tokens.to_string());
        say("step-tokens", self.step_tokens.to_string(), default.step_tokens.to_string());
        say("max-running", self.max_running.to_string(), default.max_running.to_string());
        say("costs", self.costs.as_deref().map(file_name).unwrap_or_default(), String::new());
        say("speeds", joined(&self.speeds), joined(&default.speeds));
        say("decode-speeds", joined(&self.decode_speeds), joined(&default.decode_speeds));
        say("gateways", self.gateways.to_string(), default.gateways.to_string());
        say("share-every", self.share_every.to_string(), default.share_every.to_string());
        say("report-every", self.report_every.to_string(), default.report_every.to_string());
        say("burstiness", self.burstiness.map(|shape| shape.to_string()).unwrap_or_default(), String::new());
        say("slo-ttft", self.slo_ttft.to_string(), default.slo_ttft.to_string());
        say("slo-tpot", self.slo_tpot.to_string(), default.slo_tpot.to_string());
        say("event-delay", self.event_delay.to_string(), default.event_delay.to_string());
        say("event-loss", self.event_loss.to_string(), default.event_loss.to_string());
        let names: Vec<String> = self.compare.iter().map(|name| file_name(Path::new(name))).collect();
        say("compare", joined(&names), String::new());
        say("sweep", self.sweep.as_deref().map(|sweep| file_name(Path::new(sweep))).unwrap_or_default(), String::new());
        say("seed", self.seed.to_string(), default.seed.to_string());
        say("seeds", self.seeds.to_string(), default.seeds.to_string());
        said.join(" ")
    }
}

fn joined<T: ToString>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

/// As a shell reads it as one word.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.,:=/+".contains(letter);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &str) -> Options {
        Options::try_parse_from(std::iter::once("simulate").chain(args.split_whitespace())).unwrap()
    }

    /// What is said after the program's own part.
    fn said(args: &str) -> String {
        read(args).command().split_once(" -p pointsman-simulator --").unwrap().1.trim().to_owned()
    }

    #[test]
    fn it_says_what_differs_and_reads_as_the_same() {
        assert_eq!(said(""), "");
        assert_eq!(said("--out somewhere --jobs 3"), "", "where it is written makes no other run");
        let args = "--synthetic rag --synthetic mixed:0.25 --requests 500 --load 60,95.5 --pods 4 --prefill-pods 1 --kv-tokens 1000 \
                    --host-tokens 7 --step-tokens 2048 --max-running 8 --speeds 1,0.5 --decode-speeds 1,3 --gateways 4 --share-every 100 --report-every 50 --burstiness 0.5 --slo-ttft 500 --slo-tpot 20 --event-delay 20 --event-loss 1.5 --compare random,lmetric --sweep lmetric:a=1,2 --seed 5 --seeds 2";
        let words: Vec<&str> = args.split_whitespace().collect();
        assert_eq!(said(args), words.join(" "));
        assert_eq!(said(&said(args)), said(args));
    }

    #[test]
    fn it_names_no_folders() {
        let args =
            "--trace /some/where/a.jsonl.gz --trace b.jsonl --rate 0 --compare /my/own.yaml,random --costs /x/c.json";
        assert_eq!(said(args), "--trace a.jsonl.gz --trace b.jsonl --rate 0 --costs c.json --compare own.yaml,random");
        assert_eq!(said("--sweep /my/own.yaml:load=1,2"), "--sweep own.yaml:load=1,2");
        assert_eq!(quoted("it's here"), r"'it'\''s here'");
    }
}
