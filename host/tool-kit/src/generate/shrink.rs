//! Smaller arguments than those that failed: tried in their order, the first that still fails is made smaller
//! again.

use std::iter;

use serde_json::{Map, Value};

/// Steps, each made when it is asked for: there may be thousands, and each has a copy of nearly everything.
type Steps<'a, T> = Box<dyn Iterator<Item = T> + Send + 'a>;

/// Arguments that are a step smaller, the largest steps first.
pub fn smaller(arguments: &Map<String, Value>) -> Steps<'_, Map<String, Value>> {
    Box::new(of_object(arguments).filter(move |members| members != arguments))
}

fn of(value: &Value) -> Steps<'_, Value> {
    match value {
        Value::Null | Value::Bool(false) => Box::new(iter::empty()),
        Value::Bool(true) => Box::new(iter::once(Value::Bool(false))),
        Value::Number(number) => Box::new(of_number(number.as_f64().unwrap_or_default()).into_iter()),
        Value::String(text) => Box::new(of_text(text).into_iter().map(Value::String)),
        Value::Array(items) => Box::new(of_list(items).map(Value::Array)),
        Value::Object(members) => Box::new(of_object(members).map(Value::Object)),
    }
}

fn of_object(members: &Map<String, Value>) -> Steps<'_, Map<String, Value>> {
    let without = members.keys().map(move |key| {
        let rest = members.iter().filter(|(other, _)| *other != key);
        rest.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>()
    });
    let with_smaller = members.iter().flat_map(move |(key, value)| {
        of(value).map(move |smaller| {
            let mut members = members.clone();
            members.insert(key.clone(), smaller);
            members
        })
    });
    Box::new(without.chain(with_smaller))
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

fn of_list(items: &[Value]) -> Steps<'_, Vec<Value>> {
    /// Most items that are looked at one by one.
    const LOOKED_AT: usize = 8;
    if items.is_empty() {
        return Box::new(iter::empty());
    }
    let (first, second) = items.split_at(items.len() / 2);
    let parts: [&[Value]; 3] = [&[], first, second];
    let one_by_one = items.iter().enumerate().take(LOOKED_AT).flat_map(move |(at, item)| {
        let without = iter::once_with(move || {
            let mut rest = items.to_vec();
            rest.remove(at);
            rest
        });
        let with_smaller = of(item).map(move |smaller| {
            let mut items = items.to_vec();
            if let Some(item) = items.get_mut(at) {
                *item = smaller;
            }
            items
        });
        without.chain(with_smaller)
    });
    let steps = parts.into_iter().map(<[Value]>::to_vec).chain(one_by_one);
    Box::new(steps.filter(move |list| list.as_slice() != items))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Makes arguments smaller as long as they fail.
    fn shrunk(arguments: &Value, fails: impl Fn(&Value) -> bool) -> Value {
        let mut now = arguments.as_object().unwrap().clone();
        loop {
            let next = smaller(&now).find(|next| fails(&Value::Object(next.clone())));
            let Some(next) = next else { return Value::Object(now) };
            now = next;
        }
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
        assert!(smaller(large.as_object().unwrap()).all(|next| Value::Object(next) != large));
        assert_eq!(shrunk(&large, |_| true), json!({}));
    }
}
