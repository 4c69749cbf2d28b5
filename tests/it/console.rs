//! The console, used as an administrator uses it: in a browser, which `tests/console/console.mjs` drives.
//! What the page may do and who gets its data is tested beside the code.

use acceptance::{
    Component, Ended, Model, Process, SECRET, Service, Token, User, asks_for, eventually, repository, says,
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::Command;

/// A name that could deceive: markup, and a character that turns the reading direction.
const USER: &str = "<b onclick=x>u\u{202e}1</b>";

/// What the browser's prompt says, and the model too. It is checked there character by character.
const HOSTILE: &str = "<img src=x onerror=\"window.hacked=1\"><b>6 * 7</b> \u{1b}[31mred\u{1b}[0m \
    \u{202e}right\u{202c}\u{3164}";

/// The program that drives the browser.
struct Browser(Process);

impl Browser {
    fn open(service: &Service) -> Self {
        let folder = repository().join("tests/console");
        let mut command = Command::new("node");
        command
            .arg(folder.join("console.mjs"))
            .current_dir(folder)
            .env("CONSOLE_URL", format!("http://{}", service.address()))
            .env("CONSOLE_USER", USER)
            .env("JWT_SECRET", SECRET);
        Self(Process::spawn(&mut command))
    }

    /// What it prints when it has done that.
    async fn step(&self, step: &str) -> Value {
        let of_step = |line: &str| serde_json::from_str::<Value>(line).ok()?.get(step).cloned();
        self.0.log().find(&format!("the browser: {step}"), of_step).await
    }
}

/// Approves a version, once it waits.
async fn approve(ops: &User, component: &Component) {
    let path = format!("/admin/tools/{}", component.name);
    let revision = eventually("the version to wait for its approval", async || {
        let found = ops.get(&path).await;
        let waits = found.json()["versions"][0]["digest"] == component.digest();
        waits.then(|| found.header("etag").to_owned())
    });
    let body = json!({ "digest": component.digest() }).to_string();
    let request = ops.request(Method::POST, &format!("{path}/approve")).header("If-Match", revision.await);
    let approved = ops.send(request.header("Content-Type", "application/json").body(body)).await;
    assert_eq!(approved.status, 200, "{}", approved.json());
}

#[tokio::test]
async fn an_administrator_sees_what_happens_and_changes_it() {
    let model = Model::openai().await;
    let service = Service::variant_b()
        .model(&model)
        .granting([(&Component::shipped("text-stats"), "approve = \"always\"\n")])
        .env("TOOLS_APPROVAL", "on")
        .env("WAIT_TOOLS", "on")
        .without_windows()
        .start()
        .await;
    let ops = service.user(Token::of("ops").admin().premium());
    approve(&ops, &Component::shipped("text-stats")).await;
    let calculator = Component::shipped("calculator");
    service.put(&calculator);
    let waits = async || (ops.get("/admin/tools/calculator").await.status == 200).then_some(());
    eventually("the calculator to wait for its approval", waits).await;
    let user = service.user(Token::of(USER).premium());
    model.says(HOSTILE);
    let job = user.job_for("How much will it be?").await;
    assert_eq!(user.ended_job(&job).await["status"], "completed");

    let mut browser = Browser::open(&service);
    // A prompt of the administrator's own.
    model.plays(asks_for("calculate", json!({ "expression": "6 * 7" })));
    let own = model.pauses(says(HOSTILE));
    assert_eq!(browser.step("approved").await, calculator.digest());
    // Now there is something to roll back.
    let second = calculator.clone().revision(1);
    service.put(&second);
    approve(&ops, &second).await;
    assert_eq!(browser.step("rolled back").await, calculator.digest());
    browser.step("canary").await;
    browser.step("streaming").await;
    own.open();
    // Somebody else's run.
    browser.step("watching runs").await;
    let others = model.pauses(says(&format!("It is {HOSTILE}")));
    let stream = user.stream("How much is it?").await;
    browser.step("watching").await;
    others.open();
    browser.step("live").await;
    drop(stream);
    browser.step("nothing waits").await;
    model.asks_for("ask_user", json!({ "question": HOSTILE })).says(HOSTILE);
    let job = user.job_for("Order one.").await;
    browser.step("decided").await;
    assert_eq!(user.ended_job(&job).await["status"], "completed");
    browser.step("a call is approved").await;
    browser.step("expired").await;
    assert_eq!(browser.step("troubles").await, json!([]), "errors, other servers or tokens in addresses");
    assert_eq!(browser.step("accessibility").await, json!([]), "what axe-core has to say");
    let Ended { code, stdout, stderr } = browser.0.ended().await;
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let audited = service.log().entries();
    let done = |action: &str| {
        audited.iter().any(|line| {
            let is_it = line["target"] == "http_edge::audit" && line["action"] == action;
            is_it && line["user_id"] == "ops" && line["outcome"] == "done"
        })
    };
    for action in ["approve", "promote", "rollback", "canary", "end-trial"] {
        assert!(done(action), "{action} has no line in the log");
    }
    service.stop().await;
}
