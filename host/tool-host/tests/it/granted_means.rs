//! Components that keep values, are told the user, are signed, are for some callers only, or are called
//! again.

use std::fs;

use agent_core::ports::{ToolSet, Toolbox as _};
use agent_core::words::{Principal, ToolOutcome, ToolReturn};
use serde_json::{Value, json};
use tool_policy::signature::{Signed, SigningKey};

use crate::fleet::answering;
use crate::harness::{WithPolicy, built, call_as, entry, misbehaving, ok};

impl WithPolicy {
    async fn call(&self, caller: &Principal, tool: &str, arguments: Value) -> ToolReturn {
        call_as(&*self.host.host.current_for(caller), caller, tool, arguments).await
    }

    fn names_for(&self, caller: &Principal) -> Vec<String> {
        let set = self.host.host.current_for(caller);
        set.catalog().tools().iter().map(|tool| tool.name.clone()).collect()
    }
}

fn keeper() -> Vec<u8> {
    misbehaving("keeps-values")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_whose_secret_is_missing_stays_a_fault_when_it_is_tried_again() {
    let greet = answering("1");
    let granted = WithPolicy::start(&[("greet.wasm", &greet)], "# nothing").await;
    assert!(granted.host.faults().is_empty());
    let lines = "[[component.http]]\nhost = \"a.test\"\n[[component.secret]]\nname = \"key\"\nfile = \"key.txt\"\n\
                 header = \"x-key\"\nhosts = [\"a.test\"]\n";
    granted.change(&entry("greet", &greet, lines)).await;
    // What was loaded under the policy before is no result of a load under this one.
    for _ in 0..2 {
        let faults = granted.host.faults();
        assert!(faults.len() == 1 && faults[0].contains("cannot have the secrets"), "{faults:?}");
        granted.host.put("greet.wasm", &greet);
        granted.host.host.reload().await;
    }
    fs::write(granted.folder.path().join("key.txt"), "the-first-one").unwrap();
    granted.host.until(|host| host.faults().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_kept_under_a_grant_for_each_user_or_for_all() {
    let (keeper, alice, bob) = (keeper(), Principal::user("alice"), Principal::user("bob"));
    let entry = |lines: &str| entry("keeps-values", &keeper, lines);
    let granted = WithPolicy::start(&[("keeps-values.wasm", &keeper)], "# nothing").await;
    let faults = granted.host.faults();
    assert_eq!(
        faults,
        [
            "keeps-values.wasm: imports agent:tool/key-value, and the policy (TOOLS_POLICY) does not grant it a place to keep \
          values: the log has the lines to write"
        ]
    );
    granted.change(&entry("key-value = { scope = \"user\", bytes = 20 }")).await;
    assert_eq!(granted.host.faults(), Vec::<String>::new());
    let keep = async |caller: &Principal, value: Value| {
        granted.call(caller, "keep", json!({"key": "k", "value": value})).await
    };
    assert_eq!(ok(&keep(&alice, json!("hers")).await)["value"], "hers");
    assert_eq!(ok(&keep(&bob, Value::Null).await)["value"], Value::Null);
    assert_eq!(ok(&keep(&alice, Value::Null).await)["value"], "hers");
    let receipt = keep(&alice, Value::Null).await.receipt;
    assert!(receipt.is_per_user());
    let detail = receipt.detail.unwrap();
    assert!(detail.effects && detail.per_user && detail.policy.unwrap().starts_with("sha256:"));
    let nobody = keep(Principal::nobody(), Value::Null).await;
    assert!(nobody.content.starts_with("Error: denied: "), "{}", nobody.content);
    let full = keep(&alice, json!("x".repeat(20))).await;
    assert!(full.content.starts_with("Error: quota-exceeded: "), "{}", full.content);
    assert_eq!(full.receipt.code(), Some("quota-exceeded"));
    // Another scope is another space.
    granted.change(&entry("key-value = { scope = \"component\" }")).await;
    assert_eq!(ok(&keep(&bob, json!("all's")).await)["value"], "all's");
    assert_eq!(ok(&keep(&alice, Value::Null).await)["value"], "all's");
    // Taken away while a run goes on.
    let set = granted.host.host.current_for(&alice);
    granted.change("# nothing").await;
    let denied = call_as(&*set, &alice, "keep", json!({"key": "k"})).await;
    assert!(denied.content.starts_with("Error: denied: the operator"), "{}", denied.content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_knows_a_user_by_a_name_of_its_own() {
    let (one, other) = (keeper(), keeper());
    let lines = "key-value = { scope = \"component\" }";
    let granted =
        WithPolicy::start(&[("keeps-values.wasm", &one)], &entry("keeps-values", &one, lines)).await;
    let who = async |granted: &WithPolicy, caller: &Principal| {
        ok(&granted.call(caller, "who", json!({})).await)["user"].clone()
    };
    let alice = who(&granted, &Principal::user("alice")).await;
    let name = alice.as_str().unwrap();
    assert!(name.starts_with("user_") && !name.contains("alice"), "{name}");
    assert_eq!(who(&granted, &Principal::user("alice")).await, alice);
    assert_ne!(who(&granted, &Principal::user("bob")).await, alice);
    assert_eq!(who(&granted, Principal::nobody()).await, Value::Null);
    let renamed = WithPolicy::start(&[("other.wasm", &other)], &entry("other", &other, lines)).await;
    assert_ne!(who(&renamed, &Principal::user("alice")).await, alice);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_made_again_as_the_tool_says_and_never_when_it_destroys() {
    let keeper = keeper();
    let lines = entry("keeps-values", &keeper, "key-value = { scope = \"component\" }");
    let granted = WithPolicy::start(&[("keeps-values.wasm", &keeper)], &lines).await;
    let fail = async |tool: &str, first: i64, crash: bool| {
        let key = format!("{tool}-{first}-{crash}");
        let arguments = json!({"key": key, "first": first, "crash": crash});
        let returned = granted.call(Principal::nobody(), tool, arguments).await;
        let attempts = returned.receipt.detail.as_ref().unwrap().attempts;
        (returned.receipt.outcome, attempts)
    };
    use ToolOutcome::{Failed, Ok, Trapped};
    for (tool, first, crash, expected) in [
        ("fail_first", 1, false, (Failed, 1)),
        ("fail_first", 1, true, (Trapped, 1)),
        ("fail_first_read_only", 2, false, (Ok, 3)),
        ("fail_first_read_only", 3, false, (Failed, 3)),
        ("fail_first_read_only", 1, true, (Ok, 2)),
        ("fail_first_read_only", 2, true, (Trapped, 2)),
        ("fail_first_idempotent", 2, false, (Ok, 3)),
        ("fail_first_idempotent", 1, true, (Trapped, 1)),
        ("fail_first_destructive", 1, false, (Failed, 1)),
    ] {
        assert_eq!(fail(tool, first, crash).await, expected, "{tool} {first} {crash}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_use_a_component_does_not_have_its_tools() {
    let (calculator, keeper) = (built("tools", "calculator"), keeper());
    let premium = |id: &str| Principal { tier: Some("premium".into()), ..Principal::user(id) };
    let kept = "key-value = { scope = \"user\" }\n";
    let policy = entry("calculator", &calculator, "tiers = [\"premium\"]\nusers = [\"carol\"]")
        + &entry("keeps-values", &keeper, &format!("roles = [\"admin\"]\n{kept}"));
    let files: &[(&str, &[u8])] = &[("calculator.wasm", &calculator), ("keeps-values.wasm", &keeper)];
    let granted = WithPolicy::start(files, &policy).await;
    assert_eq!(granted.host.faults(), Vec::<String>::new());
    let nobody = Principal::nobody();
    assert_eq!(granted.names_for(nobody), Vec::<String>::new());
    for caller in [premium("u1"), Principal::user("carol")] {
        assert_eq!(granted.names_for(&caller), ["calculate"], "{caller:?}");
    }
    let admin = Principal { role: Some("admin".into()), ..premium("root") };
    assert_eq!(granted.names_for(&admin).len(), 7);
    // Callers who may use the same tools have one digest, so that they share answers, and others have others.
    let digest = |caller: &Principal| granted.host.host.current_for(caller).catalog().digest().to_owned();
    assert_eq!(digest(&premium("u1")), digest(&premium("u2")));
    assert_eq!(digest(&premium("u1")), digest(&Principal::user("carol")));
    assert_ne!(digest(&premium("u1")), digest(nobody));
    assert_ne!(digest(&premium("u1")), digest(&admin));
    // A call by name is answered as of a tool that does not exist.
    let unknown = granted.call(nobody, "calculate", json!({"expression": "1+1"})).await;
    assert_eq!(unknown.receipt.outcome, ToolOutcome::UnknownTool);
    // Narrowed while a run goes on: from the next call.
    let set = granted.host.host.current_for(&premium("u1"));
    let calculate = async || call_as(&*set, &premium("u1"), "calculate", json!({"expression": "1+1"})).await;
    ok(&calculate().await);
    granted.change(&entry("calculator", &calculator, "users = [\"carol\"]")).await;
    let denied = calculate().await;
    assert!(denied.content.starts_with("Error: denied: the operator"), "{}", denied.content);
}

/// An upgrade must not lift what the policy says of the name.
#[tokio::test(flavor = "multi_thread")]
async fn another_build_than_the_policy_means_serves_nobody() {
    let calculator = built("tools", "calculator");
    let policy = entry("calculator", b"another build", "tiers = [\"premium\"]");
    let granted = WithPolicy::start(&[("calculator.wasm", &calculator)], "# nothing").await;
    let nobody = Principal::nobody();
    let set = granted.host.host.current_for(nobody);
    ok(&call_as(&*set, nobody, "calculate", json!({"expression": "1+1"})).await);
    granted.change(&policy).await;
    let faults = granted.host.faults();
    assert!(faults[0].contains("is another build than those that the policy"), "{faults:?}");
    assert_eq!(granted.names_for(nobody), Vec::<String>::new());
    let denied = call_as(&*set, nobody, "calculate", json!({"expression": "2+2"})).await;
    assert!(denied.content.starts_with("Error: denied: the operator"), "{}", denied.content);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_bound_a_run_under_way_when_their_entry_is_added_and_when_it_is_deleted() {
    let calculator = built("tools", "calculator");
    let narrow = entry("calculator", &calculator, "limits = { output-bytes = 1 }");
    let granted = WithPolicy::start(&[("calculator.wasm", &calculator)], "# nothing").await;
    let nobody = Principal::nobody();
    let outcome = async |set: &dyn ToolSet| {
        call_as(set, nobody, "calculate", json!({"expression": "1+1"})).await.receipt.outcome
    };
    let before = granted.host.host.current_for(nobody);
    assert_eq!(outcome(&*before).await, ToolOutcome::Ok);
    granted.change(&narrow).await;
    assert_eq!(outcome(&*before).await, ToolOutcome::OutputLimit);
    let bounded = granted.host.host.current_for(nobody);
    granted.change("# nothing").await;
    assert_eq!(outcome(&*bounded).await, ToolOutcome::OutputLimit);
    for unbounded in [before, granted.host.host.current_for(nobody)] {
        assert_eq!(outcome(&*unbounded).await, ToolOutcome::Ok);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_stands_for_digests() {
    let signature =
        |key: &SigningKey, name: &str, component: &[u8]| key.sign(&Signed { name, component, manifest: &[] });
    let keeper = keeper();
    let (own, foreign) = (SigningKey::generate().unwrap().0, SigningKey::generate().unwrap().0);
    let policy = format!(
        "[[component]]\nname = \"keeps-values\"\nsigner = \"{}\"\nkey-value = {{ scope = \"component\" }}\n",
        own.public()
    );
    let granted = WithPolicy::start(&[("keeps-values.wasm", &keeper)], &policy).await;
    assert_eq!(granted.host.names(), Vec::<String>::new(), "not signed");
    let sign = async |bytes: &[u8]| {
        granted.host.put("keeps-values.wasm.sig", bytes);
        granted.host.host.reload().await;
        granted.host.names().len()
    };
    assert_eq!(sign(&signature(&foreign, "keeps-values", &keeper)).await, 0, "by somebody else");
    assert_eq!(sign(&signature(&own, "other", &keeper)).await, 0, "for another name");
    assert_eq!(sign(&signature(&own, "keeps-values", b"other bytes")).await, 0, "of other bytes");
    assert_eq!(sign(b"short").await, 0);
    assert_eq!(sign(&signature(&own, "keeps-values", &keeper)).await, 6);
    // A key that is trusted no more grants nothing from the next call on.
    let set = granted.host.host.current_for(Principal::nobody());
    granted.change(&policy.replace(&own.public().to_string(), &foreign.public().to_string())).await;
    let denied = call_as(&*set, Principal::nobody(), "keep", json!({"key": "k"})).await;
    assert!(denied.content.starts_with("Error: denied: the operator"), "{}", denied.content);
    // The right signature of the key that is trusted now.
    assert_eq!(sign(&signature(&foreign, "keeps-values", &keeper)).await, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn fuel_that_nobody_counts_is_not_promised() {
    let calculator = built("tools", "calculator");
    let policy = entry("calculator", &calculator, "limits = { fuel = 1000 }");
    let uncounted = WithPolicy::start(&[("calculator.wasm", &calculator)], &policy).await;
    let faults = uncounted.host.faults();
    assert!(faults[0].contains("TOOL_FUEL_METERING=on"), "{faults:?}");

    let counted = WithPolicy::start_with(&[("calculator.wasm", &calculator)], &policy, |config| {
        config.metering = true;
    })
    .await;
    let stopped = counted.host.call("calculate", json!({"expression": "1+1"})).await;
    assert_eq!(stopped.receipt.outcome, ToolOutcome::TimedOut);
    assert_eq!(
        stopped.content,
        "Error: the tool needed more than the 1000 instructions it may use and was stopped."
    );
}
