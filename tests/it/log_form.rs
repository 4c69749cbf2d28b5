//! What the log looks like: `LOG_LEVEL`, JSON lines in production, text elsewhere.

use acceptance::{Component, Model, ReservedPort, Service, Signal, eventually};

#[tokio::test]
async fn the_log_level_decides_what_is_logged() {
    for (level, logged) in [
        ("debug", &["DEBUG", "INFO", "WARN", "ERROR"][..]),
        ("info", &["INFO", "WARN", "ERROR"]),
        ("warn", &["WARN", "ERROR"]),
        ("error", &["ERROR"]),
    ] {
        let (first, second) = (Model::openai().await, Model::openai().await);
        first.answers(401, &[], "").answers(401, &[], "");
        second.answers(401, &[], "").says("hello");
        // Without the line that says where it listens the address has to be known beforehand.
        let port = ReservedPort::take().address();
        let builder = Service::variant_a().model(&first).second_model(&second).env("LOG_LEVEL", level);
        let service = builder.env("PORT", port.port().to_string()).start_at(port).await;
        assert_eq!(service.invoke("fails").await.status, 500);
        assert_eq!(service.invoke("succeeds").await.status, 200);
        service.live().await;
        service.log().entry("the failure", |entry| entry["status"] == 500).await;
        let mut expected = logged.to_vec();
        expected.sort_unstable();
        // Lines are written beside the answers.
        let levels = eventually("lines of these levels", async || {
            let entries = service.log().entries();
            let mut levels: Vec<_> =
                entries.iter().map(|entry| entry["level"].as_str().unwrap().to_owned()).collect();
            levels.sort();
            levels.dedup();
            (levels.len() >= expected.len()).then_some(levels)
        })
        .await;
        assert_eq!(levels, expected, "LOG_LEVEL={level}");
    }
}

#[tokio::test]
async fn every_line_of_a_production_log_is_a_json_object() {
    let model = Model::openai().await;
    model.answers(401, &[], "<html>").says("hello");
    let mut service = Service::variant_a()
        .model(&model)
        .tool(Component::core_module("core"))
        .env("LOG_LEVEL", "debug")
        .start()
        .await;
    service.invoke("fails").await;
    service.invoke("succeeds").await;
    service.ready().await;
    service.signal(Signal::TERM);
    let ended = service.ended().await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let entries = service.log().entries();
    assert!(entries.len() >= 5, "{entries:#?}");
    for entry in entries {
        for field in ["timestamp", "level", "target", "message"] {
            assert!(entry[field].is_string(), "no {field} in {entry}");
        }
    }
}

#[tokio::test]
async fn elsewhere_the_log_is_text_for_people() {
    for environment in ["test", "development"] {
        let service =
            Service::variant_a().env("LLM_API_KEY", "sk-1").env("NODE_ENV", environment).start().await;
        service.get("/nowhere").await;
        let line = service.log().line_with(&["/nowhere", "404"]).await;
        assert!(!line.starts_with('{') && line.contains("INFO"), "{line}");
        assert!(!line.contains('\u{1b}'), "no colours where nobody sees them: {line:?}");
    }
}
