//! What all rate windows promise: `RateWindows`.

use std::any::Any;
use std::time::Duration;

use agent_core::ports::{Hits, RateWindows, Window, WindowKind};
use futures::future::join_all;
use test_servers::eventually;

use super::text::NASTY;

/// A test of every case. The argument is the path of an `async fn() -> Bench`.
macro_rules! test_all {
    ($test:ident $benches:tt) => {
        crate::contract::$test! { rates, $benches:
            hits_are_counted_until_the_window_ends,
            a_window_ends_after_its_period_whatever_comes_in_between,
            what_is_turned_away_counts_on,
            what_the_first_window_turns_away_is_not_counted_in_the_second,
            windows_do_not_share_hits,
            hits_at_once_are_all_counted,
            a_window_that_is_read_counts_nothing,
        }
    };
}
pub(crate) use test_all;

/// Windows without hits, and what has to live as long as they.
pub(crate) type Bench = (Box<dyn RateWindows>, Box<dyn Any + Send + Sync>);

const LONG: Duration = Duration::from_secs(900);

fn window(key: &str, limit: u64, period: Duration) -> Window<'_> {
    Window { kind: WindowKind::Address, key, limit, period, cost: 1 }
}

pub(crate) async fn hits_are_counted_until_the_window_ends((rates, _guard): &Bench) {
    for count in 1..=5 {
        let hits = rates.hit(&[window("ip:192.0.2.1", 3, LONG)]).await.unwrap();
        assert_eq!((hits.len(), hits[0].count), (1, count));
        assert_eq!(hits[0].exceed(3), count > 3);
        assert!(hits[0].resets_in <= LONG && hits[0].resets_in > LONG / 2, "{:?}", hits[0]);
    }
    assert_eq!(rates.hit(&[]).await.unwrap(), []);
}

/// Were a window prolonged by hits, it would never end here.
pub(crate) async fn a_window_ends_after_its_period_whatever_comes_in_between((rates, _guard): &Bench) {
    let short = window("ip:192.0.2.1", 1, Duration::from_millis(100));
    let first = rates.hit(&[short]).await.unwrap()[0];
    assert_eq!(first.count, 1);
    let mut last = first;
    eventually("a new window", async || {
        let hits = rates.hit(&[short]).await.unwrap()[0];
        let is_new = hits.count < last.count || last.count == 1 && hits.count == 1;
        last = hits;
        is_new.then_some(())
    })
    .await;
    assert_eq!(last.count, 1);
}

pub(crate) async fn a_window_that_is_read_counts_nothing((rates, _guard): &Bench) {
    let hit = window("ip:192.0.2.7", 1, LONG);
    let read = Window { cost: 0, ..hit };
    for expected in [0, 1, 2] {
        for _ in 0..2 {
            let hits = rates.hit(&[read]).await.unwrap()[0];
            assert_eq!(hits.count, expected);
            assert!(hits.resets_in <= LONG && hits.resets_in > LONG / 2, "{hits:?}");
        }
        rates.hit(&[hit]).await.unwrap();
    }
}

pub(crate) async fn what_is_turned_away_counts_on((rates, _guard): &Bench) {
    for count in 1..=3 {
        assert_eq!(rates.hit(&[window("user:u1", 1, LONG)]).await.unwrap()[0].count, count);
    }
}

pub(crate) async fn what_the_first_window_turns_away_is_not_counted_in_the_second((rates, _guard): &Bench) {
    let both = [window("ip:192.0.2.1", 2, LONG), window("user:u1", 10, Duration::from_secs(60))];
    for _ in 0..2 {
        assert_eq!(rates.hit(&both).await.unwrap().len(), 2);
    }
    let hits = rates.hit(&both).await.unwrap();
    assert_eq!(hits.iter().map(|hits| hits.count).collect::<Vec<_>>(), [3]);
    let user = rates.hit(&both[1..]).await.unwrap()[0];
    assert_eq!(user.count, 3);
    assert!(user.resets_in <= Duration::from_secs(60));
}

pub(crate) async fn windows_do_not_share_hits((rates, _guard): &Bench) {
    for key in ["user:u1", "user:u10", "user:U1", "ip:u1", "", NASTY] {
        let Hits { count, .. } = rates.hit(&[window(key, 1, LONG)]).await.unwrap()[0];
        assert_eq!(count, 1, "{key}");
    }
}

pub(crate) async fn hits_at_once_are_all_counted((rates, _guard): &Bench) {
    let windows = [window("ip:192.0.2.1", 1000, LONG)];
    let hits = join_all((0..100).map(|_| rates.hit(&windows))).await;
    let mut counts: Vec<_> = hits.into_iter().map(|hits| hits.unwrap()[0].count).collect();
    counts.sort_unstable();
    assert_eq!(counts, (1..=100).collect::<Vec<_>>());
}
