//! Smaller arguments than those that failed: tried in their order, the first that still fails is made smaller
//! again.

use serde_json::{Map, Value};

/// Arguments that are a step smaller, the largest steps first.
pub fn smaller(arguments: &Map<String, Value>) -> Vec<Map<String, Value>> {
    let whole = Value::Object(arguments.clone());
    let objects = of(&whole).into_iter().filter_map(|value| match value {
        Value::Object(members) if members != *arguments => Some(members),
        _ => None,
    });
    objects.collect()
}

fn of(value: &Value) -> Vec<Value> {
    match value {
        Value::Null => vec![],
        Value::Bool(true) => vec![Value::Bool(false)],
        Value::Bool(false) => vec![],
        Value::Number(number) => of_number(number.as_f64().unwrap_or_default()),
        Value::String(text) => of_text(text).into_iter().map(Value::String).collect(),
        Value::Array(items) => of_list(items).into_iter().map(Value::Array).collect(),
        Value::Object(members) => {
            let without = members.keys().map(|key| {
                let rest = members.iter().filter(|(other, _)| *other != key);
                Value::Object(rest.map(|(key, value)| (key.clone(), value.clone())).collect())
            });
            let with_smaller = members.iter().flat_map(|(key, value)| {
                of(value).into_iter().map(move |smaller| {
                    let mut members = members.clone();
                    members.insert(key.clone(), smaller);
                    Value::Object(members)
                })
            });
            without.chain(with_smaller).collect()
        }
    }
}

fn of_number(number: f64) -> Vec<Value> {
    if number == 0.0 {
        return vec![];
    }
    let half = (number / 2.0).trunc();
    let mut smaller = vec![Value::from(0)];
    if half != 0.0 && half.abs() < 9e15 {
        // The half is whole and within what an f64 holds exactly.
        smaller.push(Value::from(half as i64));
    }
    smaller
}

fn of_text(text: &str) -> Vec<String> {
    let length = text.chars().count();
    if length == 0 {
        return vec![];
    }
    let part = |from: usize, count: usize| text.chars().skip(from).take(count).collect::<String>();
    let mut smaller = vec![String::new()];
    if length > 1 {
        smaller.extend([part(0, length / 2), part(length / 2, length), part(0, length - 1), part(1, length)]);
    }
    if !text.is_ascii() {
        smaller.push("a".repeat(length.min(64)));
    }
    smaller
}

fn of_list(items: &[Value]) -> Vec<Vec<Value>> {
    /// Most items that are looked at one by one.
    const LOOKED_AT: usize = 8;
    if items.is_empty() {
        return vec![];
    }
    let (first, second) = items.split_at(items.len() / 2);
    let mut smaller = vec![vec![], first.to_vec(), second.to_vec()];
    for (at, item) in items.iter().enumerate().take(LOOKED_AT) {
        let mut rest = items.to_vec();
        rest.remove(at);
        smaller.push(rest);
        smaller.extend(of(item).into_iter().map(|small| {
            items
                .iter()
                .enumerate()
                .map(|(other, item)| if other == at { small.clone() } else { item.clone() })
                .collect()
        }));
    }
    smaller.retain(|list| list != items);
    smaller
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Makes arguments smaller as long as they fail.
    fn shrunk(arguments: &Value, fails: impl Fn(&Value) -> bool) -> Value {
        let mut now = arguments.as_object().unwrap().clone();
        while let Some(next) = smaller(&now).into_iter().find(|next| fails(&Value::Object(next.clone()))) {
            now = next;
        }
        Value::Object(now)
    }

    #[test]
    fn what_does_not_matter_is_left_out() {
        let large = json!({"a": [1, 2, {"b": "some text"}], "c": 900, "d": true});
        let fails = |value: &Value| value["c"].as_i64().is_some_and(|c| c > 100);
        assert_eq!(shrunk(&large, fails), json!({"c": 112}));
        let fails = |value: &Value| value["a"].to_string().contains('e');
        assert_eq!(shrunk(&large, fails), json!({"a": [{"b": "e"}]}));
    }

    #[test]
    fn every_step_is_another_and_it_ends() {
        let large = json!({"a": [[0, ""], null, false], "b": "日本", "c": -3.5, "d": {"e": {"f": 1e300}}});
        assert!(smaller(large.as_object().unwrap()).iter().all(|next| Value::Object(next.clone()) != large));
        assert_eq!(shrunk(&large, |_| true), json!({}));
    }
}
