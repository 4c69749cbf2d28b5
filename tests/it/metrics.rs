//! `GET /metrics`: the three series of the interface (host/docs/interface/errors-and-limits.md#metrics), and
//! what else a scraper finds.

use std::collections::BTreeSet;

use acceptance::{Model, Service, Task, eventually};

#[tokio::test]
async fn the_heap_is_memory_that_is_in_use() {
    let model = Model::openai().await;
    let service = Service::variant_a().model(&model).start().await;
    let metrics = service.metrics().await;
    let bytes = |name| metrics.value(name, &[]).unwrap();
    let (heap, resident) = (bytes("agent_process_heap_bytes"), bytes("agent_process_resident_memory_bytes"));
    assert!(heap > 1e6 && heap < resident, "{heap} bytes of heap in {resident} resident ones");
}

#[tokio::test]
async fn the_environment_label_is_the_services_environment() {
    let model = Model::openai().await;
    for environment in ["development", "test"] {
        let service = Service::variant_a().model(&model).env("NODE_ENV", environment).start().await;
        let metrics = service.metrics().await;
        assert_eq!(
            metrics.values_of("agent_invocations_total", "environment"),
            BTreeSet::from([environment])
        );
    }
}

#[tokio::test]
async fn a_caller_who_goes_away_is_not_in_progress_any_more() {
    let model = Model::openai().await;
    model.hangs();
    let service = Service::variant_a().model(&model).start().await;
    let caller = service.caller();
    let request = Task::begin(async move { caller.invoke("hi").await });
    model.was_asked(1).await;
    drop(request);
    eventually("the gauge to be back at 0", async || {
        (service.metrics().await.value("agent_active_requests", &[]) == Some(0.0)).then_some(())
    })
    .await;
}

/// The default process metrics of the Node stack that any process has
/// (host/docs/interface/node-clients.md#metrics).
const PROCESS: [&str; 9] = [
    "process_cpu_user_seconds_total",
    "process_cpu_system_seconds_total",
    "process_cpu_seconds_total",
    "process_start_time_seconds",
    "process_resident_memory_bytes",
    "process_virtual_memory_bytes",
    "process_heap_bytes",
    "process_open_fds",
    "process_max_fds",
];

#[tokio::test]
async fn the_process_metrics_stand_under_one_prefix_that_can_be_set() {
    let model = Model::openai().await;
    for (set, prefix) in [(None, "agent_"), (Some("our:own_"), "our:own_")] {
        let mut builder = Service::variant_a().model(&model);
        if let Some(prefix) = set {
            builder = builder.env("METRICS_PREFIX", prefix);
        }
        let service = builder.start().await;
        let metrics = service.metrics().await;
        for name in PROCESS {
            let name = format!("{prefix}{name}");
            let value = metrics.value(&name, &[]).unwrap_or_else(|| panic!("there is no {name}"));
            assert!(value >= 0.0, "{name} {value}");
            assert!(metrics.describe(&name).contains(": "), "{name}");
        }
        let resident = metrics.value(&format!("{prefix}process_resident_memory_bytes"), &[]).unwrap();
        assert!((1e6..1e10).contains(&resident), "{resident}");
        // The three of the interface (host/docs/interface/errors-and-limits.md#metrics) do not move.
        assert_eq!(metrics.value("agent_invocations_total", &[]), Some(0.0));
        let others: Vec<_> = metrics
            .names()
            .into_iter()
            .filter(|name| !name.starts_with(prefix) && !name.starts_with("agent_"))
            .map(str::to_owned)
            .collect();
        assert_eq!(others, Vec::<String>::new());
    }
}
