//! What every store of HTTP recordings promises: `HttpRecordings`.

use agent_core::ports::http_recordings::{
    HttpRecording, HttpRecordings, MOST_BYTES_OF_A_CALL, MOST_BYTES_OF_A_RUN, MOST_EXCHANGES_OF_A_CALL,
};

use super::text::NASTY;

/// An empty store.
pub(crate) type Bench = super::Bench<dyn HttpRecordings>;

/// A test of every case. The argument is the path of an `async fn() -> Bench`.
macro_rules! test_all {
    ($test:ident $benches:tt) => {
        crate::contract::$test! { http_recordings, $benches:
            exchanges_are_read_in_their_order,
            runs_do_not_mix_and_hold_any_text,
            a_call_has_so_many_exchanges_and_no_more,
            a_call_has_so_many_bytes_and_no_more,
            a_run_has_so_many_bytes_and_no_more,
        }
    };
}
pub(crate) use test_all;

const NAMES: [&str; 4] = ["", "run_1", NASTY, "\\0"];

fn of(call_id: &str, exchange: impl Into<Vec<u8>>) -> HttpRecording {
    HttpRecording { call_id: call_id.into(), exchange: exchange.into() }
}

pub(crate) async fn exchanges_are_read_in_their_order(bench: &Bench) {
    assert_eq!(bench.store.read("run_1").await, Ok(vec![]));
    assert_eq!(bench.store.append("run_1", &[]).await, Ok(0));
    let all = [of("b", *b"1"), of("a", *b"2"), of("b", *b""), of("b", [0, 255, 1])];
    assert_eq!(bench.store.append("run_1", &all[..1]).await, Ok(1));
    assert_eq!(bench.peer.append("run_1", &all[1..]).await, Ok(3));
    for store in [&bench.store, &bench.peer] {
        assert_eq!(store.read("run_1").await, Ok(all.to_vec()));
    }
}

pub(crate) async fn runs_do_not_mix_and_hold_any_text(bench: &Bench) {
    for run in NAMES {
        for call in NAMES {
            let kept = bench.store.append(run, &[of(call, format!("{run}/{call}"))]).await;
            assert_eq!(kept, Ok(1), "{run:?} {call:?}");
        }
    }
    for run in NAMES {
        let expected: Vec<_> = NAMES.iter().map(|call| of(call, format!("{run}/{call}"))).collect();
        assert_eq!(bench.store.read(run).await, Ok(expected), "{run:?}");
    }
}

pub(crate) async fn a_call_has_so_many_exchanges_and_no_more(bench: &Bench) {
    let one_more = vec![of("a", *b"1"); MOST_EXCHANGES_OF_A_CALL + 1];
    assert_eq!(bench.store.append("run_1", &one_more).await, Ok(MOST_EXCHANGES_OF_A_CALL));
    assert_eq!(bench.peer.append("run_1", &[of("a", *b"1"), of("b", *b"1")]).await, Ok(1));
    let kept = bench.store.read("run_1").await.unwrap();
    assert_eq!((kept.len(), kept.last()), (MOST_EXCHANGES_OF_A_CALL + 1, Some(&of("b", *b"1"))));
}

pub(crate) async fn a_call_has_so_many_bytes_and_no_more(bench: &Bench) {
    let half = || of("a", vec![7; MOST_BYTES_OF_A_CALL / 2]);
    // The one that is too much is left away, and a smaller one after it is not.
    assert_eq!(bench.store.append("run_1", &[half(), of("a", *b"1"), half(), of("a", *b"2")]).await, Ok(3));
    assert_eq!(bench.store.append("run_1", &[of("b", vec![7; MOST_BYTES_OF_A_CALL])]).await, Ok(1));
    let sizes: Vec<_> =
        bench.store.read("run_1").await.unwrap().iter().map(|one| one.exchange.len()).collect();
    assert_eq!(sizes, [MOST_BYTES_OF_A_CALL / 2, 1, 1, MOST_BYTES_OF_A_CALL]);
}

pub(crate) async fn a_run_has_so_many_bytes_and_no_more(bench: &Bench) {
    let calls = MOST_BYTES_OF_A_RUN / MOST_BYTES_OF_A_CALL;
    for call in 0..calls {
        let full = of(&format!("call{call}"), vec![7; MOST_BYTES_OF_A_CALL]);
        assert_eq!(bench.store.append("run_1", &[full]).await, Ok(1));
    }
    assert_eq!(bench.store.append("run_1", &[of("last", *b"1")]).await, Ok(0));
    assert_eq!(bench.store.append("run_2", &[of("last", *b"1")]).await, Ok(1));
    assert_eq!(bench.store.read("run_1").await.unwrap().len(), calls);
}
