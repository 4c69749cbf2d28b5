//! Components that were sent to a service and never were files of its tools folder.

use crate::fleet::{Fleet, named};

#[tokio::test(flavor = "multi_thread")]
async fn a_service_without_a_tools_folder_serves_what_is_sent_to_it_and_misses_no_folder() {
    let mut fleet = Fleet::new(false);
    fleet.folder_may_be_absent = true;
    let tools = tempfile::tempdir().unwrap();
    std::fs::remove_dir(tools.path()).unwrap();
    let one = fleet.over(tools).await;
    one.upload("sent", &named("sent")).await;
    // The folder is looked at once more, also by a service that starts again.
    one.host.host.reload().await;
    assert_eq!((one.host.names(), one.host.faults()), (vec!["sent".to_owned()], vec![]));
    let (tools, cache) = one.stop();
    let again = fleet.start(tools, cache).await;
    again.host.host.reload().await;
    assert_eq!((again.host.names(), again.host.faults()), (vec!["sent".to_owned()], vec![]));
}
