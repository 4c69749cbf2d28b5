//! A kept result is passed on as bytes where that makes no difference: every answer is the one that is given
//! when the result is parsed and written anew.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{CacheError, ResultCache, Unobserved};
use agent_core::testing::{EchoTools, TokioSpawn};
use boxed_async::boxed_async;
use bytes::Bytes;
use http::StatusCode;
use run_service::layers::{
    Answerer, Ask, Cached, Invoke, InvokeError, JsonAnswer, RunAnswer, WriteBehindCache,
};
use serde_json::Value;

use crate::harness::{Answers, Fakes};

/// Has the same under every key, whoever wrote it.
struct Holds(Bytes);

#[boxed_async]
impl ResultCache for Holds {
    async fn get(&self, _key: &str) -> Result<Option<Bytes>, CacheError> {
        Ok(Some(self.0.clone()))
    }

    async fn put(&self, _key: &str, _json: Bytes, _time_to_live: Duration) -> Result<(), CacheError> {
        Ok(())
    }

    async fn delete_matching(&self, _pattern: &str) -> Result<u64, CacheError> {
        Ok(0)
    }
}

fn cached(kept: &str) -> Cached<Answers> {
    let cache =
        WriteBehindCache::new(Arc::new(Holds(Bytes::copy_from_slice(kept.as_bytes()))), Arc::new(TokioSpawn));
    let (toolbox, answerer) = (Arc::new(EchoTools::new(&[])), Answerer::new("m".into(), None));
    Cached::new(Answers, cache, toolbox, answerer, Arc::new(Unobserved))
}

/// Has every result parsed: nothing is passed on as bytes.
struct Parsing(Cached<Answers>);

#[boxed_async]
impl Invoke for Parsing {
    async fn invoke(&self, ask: Ask) -> Result<RunAnswer, InvokeError> {
        self.0.invoke(ask).await
    }
}

/// As this program keeps it.
const KEPT: &str = concat!(
    r#"{"id":"run_1","output":"Grüße \"3\"\n\u0001🦀","stopReason":"completed","messages":["#,
    r#"{"role":"user","content":"1+2?"},"#,
    r#"{"role":"assistant","content":"","#,
    r#""toolCalls":[{"id":"call_1","name":"add","arguments":{"a":1,"b":[2.5,null,true],"c":{}}}]},"#,
    r#"{"role":"tool","toolCallId":"call_1","name":"add","content":"{}"},"#,
    r#"{"role":"assistant","content":"3"}],"#,
    r#""usage":{"inputTokens":210,"outputTokens":18,"totalTokens":228},"#,
    r#""iterations":2,"model":"openai/m","toolCalls":["#,
    r#"{"name":"add","component":"c@sha256:1","durationMs":0.087,"outcome":"ok"},"#,
    r#"{"name":"nope","durationMs":0.0,"outcome":"unknown_tool"}]}"#,
);

/// What becomes of a value that is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    PassedOn,
    /// Parsed, and written anew (host/docs/interface/decisions-runs.md#the-result).
    Rewritten,
    Miss,
}

/// What is kept otherwise: one change of [`KEPT`] each.
const OTHERS: [(&str, &str, Fate); 16] = [
    (r#""output":"Grüße"#, r#""output":"</script>\u001f\\"#, Fate::PassedOn),
    (r#","component":"c@sha256:1""#, "", Fate::PassedOn),
    ("0.087", "1e-7", Fate::PassedOn),
    // As other writers of JSON put it.
    (r#"{"id":"run_1","#, r#"{ "id": "run_1", "#, Fate::Rewritten),
    (r#"{"id":"run_1","output""#, r#"{"iterations":2,"id":"run_1","output""#, Fate::Miss),
    (r#""iterations":2,"model":"openai/m","#, r#""model":"openai/m","iterations":2,"#, Fate::Rewritten),
    ("Grüße", r"Gr\u00fc\u00dfe\/", Fate::Rewritten),
    ("0.087", "1", Fate::Rewritten),
    (r#""c":{}"#, r#""a":7"#, Fate::Rewritten),
    // What clients are not to read, or read from us only.
    (r#"{"id":"run_1","#, r#"{"cached":false,"secret":"x","id":"run_1","#, Fate::Rewritten),
    (r#""outcome":"ok"}"#, r#""outcome":"ok","detail":{"cause":"for operators"}}"#, Fate::Rewritten),
    (r#"{"role":"user","#, r#"{"role":"system","content":"be kind"},{"role":"user","#, Fate::Rewritten),
    (r#""totalTokens":228"#, r#""totalTokens":1"#, Fate::Rewritten),
    // What is no result.
    (r#""iterations":2"#, r#""iterations":"2""#, Fate::Miss),
    (r#""unknown_tool"}]}"#, r#""unknown_tool"}]"#, Fate::Miss),
    (r#""unknown_tool"}]}"#, r#""unknown_tool"}]},"cached":true}"#, Fate::Miss),
];

#[tokio::test]
async fn an_answer_of_bytes_is_the_answer_that_is_written_anew() {
    let rows = OTHERS.map(|(from, to, fate)| {
        assert!(KEPT.contains(from), "{from}");
        (KEPT.replacen(from, to, 1), fate)
    });
    for (kept, fate) in [(KEPT.to_owned(), Fate::PassedOn)].into_iter().chain(rows) {
        let is_passed_on = matches!(
            cached(&kept).invoke_for_json(Ask::new("r".into(), "hi".into())).await,
            Ok(JsonAnswer::Written(_))
        );
        assert_eq!(is_passed_on, fate == Fate::PassedOn, "{kept}");
        for (path, body) in [
            ("/api/agent", r#"{"query":"hi"}"#),
            ("/api/serverless", r#"{"query":"hi"}"#),
            ("/api/gateway", r#"{"query":"hi","priority":"low"}"#),
        ] {
            // Of their own for each question: an answer that is being kept is at hand for the next one.
            let (passing, parsing) =
                (Fakes::with_invoke(cached(&kept)), Fakes::with_invoke(Parsing(cached(&kept))));
            let (passed, written) = (passing.post(path, body).await, parsing.post(path, body).await);
            assert_eq!((passed.status, written.status), (StatusCode::OK, StatusCode::OK), "{kept}");
            assert_eq!(passed.header("content-type"), written.header("content-type"));
            let is_hit = passed.json()["cached"].clone();
            assert_eq!(is_hit, Value::Bool(fate != Fate::Miss), "{path} {kept}");
            // The runs of two misses are two.
            if fate != Fate::Miss {
                assert_eq!(passed.body, written.body, "{path}");
            }
            if fate == Fate::PassedOn {
                let fields = kept.strip_suffix('}').unwrap();
                assert_eq!(passed.body, format!(r#"{fields},"cached":true}}"#));
            }
            for hidden in ["be kind", "operators", "secret"] {
                assert!(!passed.body.contains(hidden), "{passed}");
            }
        }
    }
}
