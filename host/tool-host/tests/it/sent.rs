//! Components that were sent to a service and never were files of its tools folder.

use agent_core::ports::AdminAction;
use agent_core::testing::TestToolVersions;

use crate::fleet::{Fleet, answering, approve, named};

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
    let again = fleet.restart(one).await;
    again.host.host.reload().await;
    assert_eq!((again.host.names(), again.host.faults()), (vec!["sent".to_owned()], vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_serves_after_restarts_while_the_store_is_away_and_what_was_taken_away_does_not() {
    let fleet = Fleet::new(true);
    let mut one = fleet.approved_replica(&[("greet.wasm", &answering("1"))]).await;
    one.upload("sent", &named("sent")).await;
    one.act("sent", approve()).await.unwrap();
    assert_eq!(one.host.names(), ["greet", "sent"]);
    std::fs::remove_file(one.host.tools.path().join("greet.wasm")).unwrap();
    fleet.store.switch.fail(true);
    // The second start finds what the first one has remembered.
    for _ in 0..2 {
        one = fleet.restart(one).await;
        assert_eq!(one.host.names(), ["sent"], "{:?}", one.host.faults());
    }
    fleet.store.switch.fail(false);
    one.until_known("sent").await;
    one.act("sent", AdminAction::Disable).await.unwrap();
    one.until(|host| host.names().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_whose_bytes_are_gone_or_damaged_serves_when_they_are_sent_again() {
    for damage in [TestToolVersions::lose, TestToolVersions::spoil] {
        let fleet = Fleet::new(false);
        let one = fleet.replica(&[]).await;
        let digest = one.upload("sent", &named("sent")).await.record.active.unwrap();
        drop(one);
        damage(&fleet.store, &digest);
        // Another machine, which has no copy of it.
        let two = fleet.replica(&[]).await;
        assert!(two.host.faults()[0].contains("bytes are gone: upload"), "{:?}", two.host.faults());
        two.upload("sent", &named("sent")).await;
        two.until(|host| host.names() == ["sent"] && host.faults().is_empty()).await;
    }
}
