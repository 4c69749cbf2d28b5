//! What runs came to, and what stands before them.

use agent_core::circuit_breaker::Verdict;
use agent_core::words::StopReason;
use run_service::conversations::ConversationRefusal;
use run_service::loop_driver::RunError;

use super::*;

#[tokio::test]
async fn runs_are_counted_by_what_they_came_to() {
    let metrics = metrics("agent_");
    let count = |outcome: &str, reason: &str| {
        let series = format!(r#"agent_runs_total{{outcome="{outcome}",reason="{reason}"}}"#);
        lines(&metrics, &series).trim().rsplit_once(' ').expect(&series).1.to_owned()
    };
    let ended = |reason| Ok(ScriptedInvoke::ended("", reason));
    let open = InvokeError::CircuitOpen { retry_after: Duration::from_secs(1) };
    let refused = ModelError::Refused { provider: "p".into(), detail: String::new() };
    let script = [
        ended(StopReason::Completed),
        ended(StopReason::TokenBudget),
        ended(StopReason::Cancelled),
        Err(InvokeError::TimedOut { limit: Duration::ZERO, retry_after: None, in_tools: false }),
        Err(InvokeError::Busy { waited: Duration::ZERO }),
        Err(open),
        Err(RunError::Model(refused).into()),
        Err(InvokeError::ToolsNotPrepared { waited: Duration::ZERO }),
        Err(ConversationRefusal::Busy.into()),
    ];
    let asks = script.len();
    let expected = [
        ("ended", "completed"),
        ("ended", "token_budget"),
        ("cancelled", "requested"),
        ("cancelled", "dropped"),
        ("timed_out", "deadline"),
        ("rejected", "busy"),
        ("rejected", "circuit_open"),
        ("rejected", "tools_not_prepared"),
        ("rejected", "conversation"),
        ("failed", "model_refused"),
        ("failed", "panicked"),
    ];
    for (outcome, reason) in [("ended", "empty_reply")].into_iter().chain(expected) {
        assert_eq!(count(outcome, reason), "0", "{outcome} {reason} begins at zero");
    }
    let judged = metrics.judged(ScriptedInvoke::new(script));
    for _ in 0..asks {
        let _ = judged.invoke(ask()).await;
    }
    let agent = ScriptedInvoke::hanging();
    agent.panic();
    let judged = metrics.judged(agent);
    assert!(judged.invoke(ask()).now_or_never().is_none());
    std::panic::AssertUnwindSafe(judged.invoke(ask())).catch_unwind().await.unwrap_err();
    for (outcome, reason) in expected {
        assert_eq!(count(outcome, reason), "1", "{outcome} {reason}");
    }
    let total: u64 = lines(&metrics, "agent_runs_total{")
        .lines()
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum();
    assert_eq!(total, 11, "each of them once, and nothing else");
}

#[tokio::test]
async fn the_circuit_and_the_places_are_shown_as_they_are() {
    let metrics = metrics("agent_");
    let (circuit, admission) = (agent_core::testing::circuit(1), Admission::new(2));
    metrics.show_gates(circuit.clone(), admission.clone()).unwrap();
    circuit.enter().unwrap().end(Verdict::Failure);
    let _place = admission.acquire().await;
    let shown = lines(&metrics, "agent_circuit_") + &lines(&metrics, "agent_admission_");
    let values: Vec<_> = shown.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        values,
        [
            "agent_circuit_closed_total 0",
            "agent_circuit_opened_total 1",
            "agent_circuit_state 2",
            "agent_admission_in_use 1",
            "agent_admission_waiting 0",
        ]
    );
}
