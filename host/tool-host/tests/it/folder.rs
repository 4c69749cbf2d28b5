//! The tools folder: what is taken from it, what is refused and why, and how it is swapped.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::Toolbox;
use agent_core::words::ToolOutcome;
use serde_json::json;
use tool_host::{Config, StartError, ToolHost, ToolLimits};

use crate::harness::{Host, Seen, call_on, config, limits, misbehaving};
use crate::text::versioned as tool;

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_loaded_is_named_and_the_others_serve() {
    let good = tool("good", 1);
    let host = Host::start(
        &[
            ("core.wasm", &wat::parse_str("(module)").unwrap()),
            ("cut.wasm", &good[..good.len() / 2]),
            ("empty.wasm", b""),
            ("good.wasm", &good),
            ("no name.wasm", &good),
            ("notes.txt", b"not looked at"),
            (".hidden.wasm", b"not looked at"),
        ],
        limits(),
    )
    .await;
    assert_eq!(host.names(), ["good"]);
    assert_eq!(host.call("good", json!({})).await.receipt.outcome, ToolOutcome::Ok);
    let faults = host.faults().join("\n");
    insta::with_settings!({filters => vec![(r"\(.*at offset.*\)", "(…)")]}, {
        insta::assert_snapshot!(faults, @r"
        core.wasm: is a core module, not a component; wrap it with `wasm-tools component new` or build it as wit/README.md says
        cut.wasm: is not a whole WebAssembly file (…): send all of it, or write it aside and rename it into the folder
        empty.wasm: is empty: send all of it, or write it aside and rename it into the folder
        no name.wasm: the file name must be 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-', then .wasm
        ");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_file_is_named_and_holds_nobody_up() {
    let host = Host::start(&[("good.wasm", &tool("good", 1))], limits()).await;
    fs::create_dir(host.tools.path().join("folder.wasm")).unwrap();
    let pipe = host.tools.path().join("pipe.wasm");
    assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
    std::os::unix::fs::symlink("nowhere", host.tools.path().join("link.wasm")).unwrap();
    host.host.reload().await;
    assert_eq!(host.names(), ["good"]);
    let faults = host.faults();
    assert_eq!(faults[0], "folder.wasm: is not a file");
    assert!(faults[1].starts_with("link.wasm: cannot be read: "), "{faults:?}");
    assert_eq!(faults[2], "pipe.wasm: is not a file");
}

/// Components that describe what cannot serve, and what is said of each.
const LIES: [(&str, &str); 7] = [
    ("describe-bad-name", "its name must be a letter"),
    ("describe-bad-schema", "is not a JSON Schema"),
    ("describe-duplicates", "two tools of that name"),
    ("describe-floods", "fails in its describe function"),
    ("describe-loops", "did not return within 2000 ms"),
    ("describe-nothing", "it describes no tool"),
    ("describe-traps", "fails in its describe function"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_lies_in_describe_is_refused_and_the_host_lives_on() {
    let components: Vec<_> =
        LIES.iter().map(|(name, _)| (format!("{name}.wasm"), misbehaving(name))).collect();
    let mut files: Vec<_> = components.iter().map(|(name, bytes)| (name.as_str(), &bytes[..])).collect();
    let good = tool("good", 1);
    files.push(("good.wasm", &good));
    let host = Host::start(&files, limits()).await;
    assert_eq!(host.names(), ["good"]);
    let faults = host.faults();
    assert_eq!(faults.len(), LIES.len(), "{faults:#?}");
    for ((name, why), fault) in LIES.iter().zip(&faults) {
        assert!(fault.starts_with(&format!("{name}.wasm: ")) && fault.contains(why), "{fault}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_described_but_not_there_is_an_answer() {
    let host = Host::start(&[("lies.wasm", &misbehaving("describe-lies"))], limits()).await;
    let names = host.names();
    assert!(!names.is_empty(), "{:?}", host.faults());
    for name in names {
        assert_eq!(host.call(&name, json!({})).await.receipt.outcome, ToolOutcome::Failed, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_components_with_one_tool_name_the_first_by_file_name_serves_and_the_error_names_both() {
    let host = Host::start(
        &[("a.wasm", &tool("same", 1)), ("b.wasm", &tool("same", 2)), ("c.wasm", &tool("other", 3))],
        limits(),
    )
    .await;
    assert_eq!(host.names(), ["other", "same"]);
    let clash = |file, other| {
        format!(
            r#"{file}.wasm: offers the tool "same", and so does {other}.wasm: rename the tool in one of the two or remove one"#
        )
    };
    assert_eq!(host.faults(), [clash("b", "a")]);
    fs::remove_file(host.tools.path().join("a.wasm")).unwrap();
    host.host.reload().await;
    assert_eq!((host.names(), host.faults()), (vec!["other".to_owned(), "same".to_owned()], vec![]));
    // Whoever has the name now keeps it.
    host.put("a.wasm", &tool("same", 4));
    host.host.reload().await;
    assert_eq!(host.names(), ["other", "same"]);
    assert_eq!(host.faults(), [clash("a", "b")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_put_in_replaced_or_removed_takes_effect_and_a_bad_one_changes_nothing() {
    let host = Host::start(&[("a.wasm", &tool("one", 1))], limits()).await;
    let watching = host.host.clone();
    let reload = async || watching.reload().await;
    let component = async || host.call("one", json!({})).await.receipt.component;

    host.put("b.wasm", &tool("two", 1));
    reload().await;
    assert_eq!(host.names(), ["one", "two"]);

    let first = component().await;
    host.put("a.wasm", &tool("one", 2));
    reload().await;
    let second = component().await;
    assert_ne!(first, second);

    let cut = tool("one", 3)[..100].to_vec();
    let core = wat::parse_str("(module)").unwrap();
    let lies = LIES.iter().map(|(name, _)| misbehaving(name));
    for broken in lies.chain([b"garbage".to_vec(), vec![], cut, core]) {
        host.put("a.wasm", &broken);
        reload().await;
        assert_eq!(component().await, second, "the running version is untouched");
        assert_eq!(host.faults().len(), 1, "{:?}", host.faults());
    }

    fs::remove_file(host.tools.path().join("a.wasm")).unwrap();
    reload().await;
    assert_eq!((host.names(), host.faults()), (vec!["two".to_owned()], vec![]));
    assert_eq!(host.call("one", json!({})).await.receipt.outcome, ToolOutcome::UnknownTool);
    let swaps = host.seen.swaps.lock().len();
    assert_eq!(swaps, 4, "start, put in, replaced, removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_that_was_taken_before_a_swap_goes_on_with_the_old_version() {
    let host = Host::start(&[("a.wasm", &tool("one", 1))], limits()).await;
    let pinned = host.host.everything();
    let before = call_on(&*pinned, "one", json!({})).await.receipt.component;
    fs::remove_file(host.tools.path().join("a.wasm")).unwrap();
    host.host.reload().await;
    let after = call_on(&*pinned, "one", json!({})).await.receipt;
    assert_eq!((after.outcome, after.component), (ToolOutcome::Ok, before));
    assert_eq!(host.names(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_folder_is_watched() {
    let host = Host::start(&[], limits()).await;
    let watched = host.host.clone();
    let watch = async move { watched.watch().await };
    let swapped = async {
        host.put("a.wasm", &tool("one", 1));
        while host.names().is_empty() {
            tokio::task::yield_now().await;
        }
        // Not renamed into place but written where it is, in two parts.
        let bytes = tool("two", 1);
        let path = host.tools.path().join("b.wasm");
        fs::write(&path, &bytes[..100]).unwrap();
        fs::write(&path, &bytes).unwrap();
        while host.names().len() < 2 {
            tokio::task::yield_now().await;
        }
        fs::remove_file(host.tools.path().join("a.wasm")).unwrap();
        while host.names() != ["two"] {
            tokio::task::yield_now().await;
        }
        // The folder may go away and come back.
        let (folder, home) = (host.tools.path(), tempfile::tempdir().unwrap());
        fs::rename(folder, home.path().join("aside")).unwrap();
        while host.faults().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(host.names(), ["two"], "what serves goes on serving");
        fs::rename(home.path().join("aside"), folder).unwrap();
        host.put("c.wasm", &tool("three", 1));
        while host.names() != ["three", "two"] {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = watch => unreachable!("watching never ends"),
        swapped = tokio::time::timeout(Duration::from_secs(20), swapped) => swapped.expect("changes are noticed"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_not_there_ends_the_start_unless_it_is_the_default_one_which_may_come_later() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("tools");
    let config = || config(&folder, limits(), Arc::new(Seen::default()));
    let error = ToolHost::start(config()).await.err().unwrap();
    assert!(matches!(&error, StartError::NoFolder(missing) if *missing == folder), "{error}");
    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    let error = ToolHost::start(Config { folder: file.clone(), ..config() }).await.err().unwrap();
    assert!(matches!(&error, StartError::NotAFolder(other) if *other == file), "{error}");
    let host = ToolHost::start(Config { folder_may_be_absent: true, ..config() }).await.unwrap();
    assert!(!host.preparing().first, "there is nothing to prepare");
    assert!(host.faults().is_empty() && host.no_tools().is_some(), "{:?}", host.faults());
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a.wasm"), tool("one", 1)).unwrap();
    host.reload().await;
    assert_eq!((host.list().len(), host.faults(), host.no_tools()), (1, vec![], None));

    // Once there, its files may be on a mount that went away.
    fs::rename(&folder, home.path().join("aside")).unwrap();
    host.reload().await;
    assert_eq!(host.list().len(), 1, "what serves goes on serving");
    assert!(host.faults()[0].error.contains("cannot be read"), "{:?}", host.faults());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_without_room_for_a_pool_serves_all_the_same() {
    // Two million slots of four gibibytes are more than any address space.
    let limits = ToolLimits { concurrency: 1 << 20, ..limits() };
    let host = Host::start(&[("a.wasm", &tool("one", 1))], limits).await;
    assert_eq!(host.host.allocation(), tool_host::Allocation::OnDemand);
    assert_eq!(host.call("one", json!({})).await.receipt.outcome, ToolOutcome::Ok);
}
