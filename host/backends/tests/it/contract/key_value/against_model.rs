//! Operations at random, each compared with what the store in memory answers.

use std::time::Duration;

use agent_core::ports::{KeyValueError, KeyValueStore, Space};
use agent_core::testing::TestKeyValues;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use super::{Bench, SPACE};

const OPERATIONS: usize = 400;

#[derive(Debug, Clone)]
enum Operation {
    Get,
    Set(Vec<u8>, Option<Duration>),
    Swap(Option<Vec<u8>>, Vec<u8>),
    /// Expects what is there.
    Replace(Vec<u8>),
    Add(i64),
    Delete,
    List(String, Option<String>, u32),
}

#[derive(Debug, PartialEq)]
enum Answer {
    Value(Option<Vec<u8>>),
    Done,
    Whether(bool),
    Sum(i64),
    Keys(Vec<String>),
}

fn key() -> impl Strategy<Value = String> {
    "[a-c\0é%]{1,2}"
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => proptest::sample::select(vec!["", "0", "9", "-1", "99", "01", "9223372036854775807"])
            .prop_map(|text| text.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..30),
    ]
}

/// Time passes at its own pace, so a value expires at once or not at all.
fn operation() -> impl Strategy<Value = Operation> {
    let times = vec![None, Some(Duration::ZERO), Some(Duration::from_secs(3600))];
    prop_oneof![
        2 => Just(Operation::Get),
        3 => (value(), proptest::sample::select(times)).prop_map(|(value, time)| Operation::Set(value, time)),
        2 => (proptest::option::of(value()), value()).prop_map(|(old, new)| Operation::Swap(old, new)),
        2 => value().prop_map(Operation::Replace),
        2 => proptest::sample::select(vec![0, 1, -1, 5, i64::MAX, i64::MIN]).prop_map(Operation::Add),
        1 => Just(Operation::Delete),
        1 => ("[a-c\0é%]{0,1}", proptest::option::of(key()), 0..5_u32)
            .prop_map(|(prefix, after, most)| Operation::List(prefix, after, most)),
    ]
}

async fn ask(
    store: &dyn KeyValueStore,
    space: Space<'_>,
    key: &str,
    operation: &Operation,
    there: Option<&[u8]>,
) -> Result<Answer, KeyValueError> {
    Ok(match operation {
        Operation::Get => Answer::Value(store.get(space, key).await?),
        Operation::Set(value, time) => store.set(space, key, value, *time).await.map(|()| Answer::Done)?,
        Operation::Swap(old, new) => Answer::Whether(store.swap(space, key, old.as_deref(), new).await?),
        Operation::Replace(new) => Answer::Whether(store.swap(space, key, there, new).await?),
        Operation::Add(delta) => Answer::Sum(store.add(space, key, *delta).await?),
        Operation::Delete => Answer::Whether(store.delete(space, key).await?),
        Operation::List(prefix, after, most) => {
            Answer::Keys(store.list_keys(space, prefix, after.as_deref(), *most).await?)
        }
    })
}

pub(crate) async fn it_does_what_the_model_does(bench: &Bench) {
    let model = TestKeyValues::default();
    let mut runner = TestRunner::deterministic();
    let quotas = proptest::sample::select(vec![0_u64, 25, 50, 50, 100, 100, 100]);
    let steps = (operation(), key(), quotas, any::<bool>(), any::<bool>());
    let mut refusals = 0;
    for number in 0..OPERATIONS {
        let (operation, key, quota, is_shared, by_peer) = steps.new_tree(&mut runner).unwrap().current();
        let space = Space { user: if is_shared { None } else { SPACE.user }, quota, ..SPACE };
        let store = if by_peer { &bench.peer } else { &bench.store };
        let there = model.get(space, &key).await.unwrap();
        let expected = ask(&model, space, &key, &operation, there.as_deref()).await;
        let answer = ask(&**store, space, &key, &operation, there.as_deref()).await;
        assert_eq!(answer, expected, "{number}: {operation:?} of {key:?} within {quota} bytes");
        refusals += usize::from(answer.is_err());
    }
    assert!((OPERATIONS / 10..OPERATIONS / 2).contains(&refusals), "{refusals}: it shows too little");
}
