//! Other people's clients through Envoy and the picker, to simulated engines.

use std::path::Path;
use std::process::Command;

use pointsman_epp::PickerOptions;
use pointsman_test_support::programs;

use crate::engines::{addresses, engines};
use crate::envoy::{Cluster, Envoy, is_there};
use crate::picker_server::PickerServer;
use crate::scene::router;

/// The same checks as of the gateway: chats and completions, whole and streamed, errors.
#[tokio::test(flavor = "multi_thread")]
async fn the_openai_client_is_served() {
    if !is_there() || !programs::is_installed("python3", &["-c", "import openai"]) {
        return;
    }
    for cluster in [Cluster::OriginalDst, Cluster::OverrideHost] {
        let pods = engines(2).await;
        let picker = PickerServer::start(
            router(&addresses(&pods)).build().unwrap(),
            PickerOptions::default(),
            ([127, 0, 0, 1], 0).into(),
        )
        .await;
        let envoy = Envoy::start(cluster, picker.address, &addresses(&pods), 0).await;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gateway/clients/openai_client.py");
        let url = format!("http://{}", envoy.clients);
        let folder = programs::temp_folder(env!("CARGO_TARGET_TMPDIR"), "openai");
        let run = tokio::task::spawn_blocking(move || {
            programs::run(Command::new("python3").arg(script).arg(url).args(["sim", "engine"]), &folder)
        });
        let output = run.await.unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{cluster:?}\n{out}\n{err}");
    }
}
