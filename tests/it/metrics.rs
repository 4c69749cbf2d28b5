//! `GET /metrics`: the three series of the interface (host/docs/interface/errors-and-limits.md#metrics), and
//! what else a scraper finds.

use acceptance::{Model, Service};

#[tokio::test]
async fn the_heap_is_memory_that_is_in_use() {
    let model = Model::openai().await;
    let service = Service::variant_a().model(&model).start().await;
    let metrics = service.metrics().await;
    let bytes = |name| metrics.value(name, &[]).unwrap();
    let (heap, resident) = (bytes("agent_process_heap_bytes"), bytes("agent_process_resident_memory_bytes"));
    assert!(heap > 1e6 && heap < resident, "{heap} bytes of heap in {resident} resident ones");
}
