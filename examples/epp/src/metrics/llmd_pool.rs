//! The pool under llm-d's names: how full its pods are, how decisions went, what waits.

use pointsman::{RegisteredPod, Router};

use super::page::Page;

/// Writes what is told of the pool, called by its name.
pub(super) fn write(page: &mut Page, router: &Router, pool: &str) {
    let pods = router.pods();
    let healthy: Vec<_> = pods.iter().filter(|pod| pod.healthy).collect();
    let mut by_pool = |names: &[&str], help: &str, value: Option<f64>| {
        for name in names {
            page.family(name, "gauge", help);
            value.into_iter().for_each(|value| page.sample(name, &[("name", pool)], value));
        }
    };
    let ready = ["inference_pool_ready_pods", "llm_d_epp_ready_endpoints"];
    by_pool(&ready, "Pods that pass their health checks.", Some(healthy.len() as f64));
    for (figure, help, of) in FIGURES {
        let reported = healthy.iter().filter(|pod| pod.reported.is_some());
        let figures: Vec<f64> = reported.map(|pod| of(pod)).collect();
        let (mean, deviation) = mean_and_deviation(&figures).unzip();
        let names = [format!("inference_pool_average_{figure}"), format!("llm_d_epp_average_{figure}")];
        by_pool(&names.each_ref().map(String::as_str), &format!("{help}, the mean of pods."), mean);
        let name = format!("llm_d_epp_std_dev_{figure}");
        by_pool(&[&name], &format!("{help}, how far pods are apart."), deviation);
    }
    let queues = [
        ("inference_pool_per_pod_queue_size", "model_server_pod"),
        ("llm_d_epp_per_endpoint_queue_size", "model_server_endpoint"),
    ];
    for (name, label) in queues {
        page.family(name, "gauge", "Requests that wait in a pod's engine.");
        for pod in &pods {
            page.sample(name, &[("name", pool), (label, &pod.spec.name)], f64::from(pod.load.waiting));
        }
    }
}

/// What engines report: its name in metrics, what it is, where it is.
type Figure = (&'static str, &'static str, fn(&RegisteredPod) -> f64);
const FIGURES: [Figure; 3] = [
    ("kv_cache_utilization", "How much of the KV cache is in use", |pod| f64::from(pod.load.kv_used)),
    ("queue_size", "Requests that wait in engines", |pod| f64::from(pod.load.waiting)),
    ("running_requests", "Requests that engines work on", |pod| f64::from(pod.load.running)),
];

/// The mean, and the deviation of a sample; of nothing there is none.
fn mean_and_deviation(figures: &[f64]) -> Option<(f64, f64)> {
    let count = figures.len() as f64;
    let mean = figures.iter().sum::<f64>() / count;
    let squares: f64 = figures.iter().map(|figure| (figure - mean).powi(2)).sum();
    (!figures.is_empty()).then(|| (mean, (squares / (count - 1.0).max(1.0)).sqrt()))
}

/// Writes what waits, by band, and how full the pool is that it waits for.
pub(super) fn write_flow_control(page: &mut Page, router: &Router, pool: &str, saturation: f64) {
    let mut twin = |name: &str, help: &str, samples: &[(Vec<(&str, &str)>, f64)]| {
        for prefix in ["inference_extension", "llm_d_epp"] {
            let name = format!("{prefix}_{name}");
            page.family(&name, "gauge", help);
            samples.iter().for_each(|(labels, value)| page.sample(&name, labels, *value));
        }
    };
    let bands: Vec<_> = router.flow_status(0).into_iter().map(|band| (band.priority.to_string(), band)).collect();
    let of_band = |priority| vec![("priority", priority), ("inference_pool", pool)];
    let requests: Vec<_> = bands.iter().map(|(priority, band)| (of_band(priority), band.requests as f64)).collect();
    twin("flow_control_queue_size", "Requests that wait for a pod to have room.", &requests);
    let bytes: Vec<_> = bands.iter().map(|(priority, band)| (of_band(priority), band.bytes as f64)).collect();
    twin("flow_control_queue_bytes", "Bytes of requests that wait.", &bytes);
    let labels = vec![("inference_pool", pool), ("stage", "effective")];
    let help = "How full the pool is: from 1 on nothing more goes to it.";
    twin("flow_control_pool_saturation", help, &[(labels, saturation)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deviation_is_that_of_a_sample() {
        assert_eq!(mean_and_deviation(&[]), None);
        assert_eq!(mean_and_deviation(&[3.0]), Some((3.0, 0.0)));
        assert_eq!(mean_and_deviation(&[1.0, 3.0]), Some((2.0, 2.0_f64.sqrt())));
    }
}
