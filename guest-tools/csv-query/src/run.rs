//! Carries out a query: filters, groups, sorts, cuts.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use agent_tool_sdk::Failure;
use schemars::JsonSchema;
use serde::Serialize;

use crate::expression::Scope;
use crate::query::{Aggregate, Expression, Query};
use crate::table::Table;
use crate::value::{Key, Value};

/// The most rows that are returned.
const MOST_ROWS: usize = 1000;

/// The most text in returned rows, in bytes: it is a model that has to read them.
const MOST_BYTES: usize = 64 << 10;

/// Rows times values per row, so that what is sorted fits into the component's memory.
const MOST_VALUES: usize = 400_000;

/// What the query yields.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Answer {
    columns: Vec<String>,
    #[schemars(with = "Vec<Vec<serde_json::Value>>")]
    rows: Vec<Vec<Value>>,
    /// How many rows there are, if not all are returned: more than 1000 or than 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated_from: Option<usize>,
}

/// A row of the answer, with what it is sorted by.
struct Row {
    values: Vec<Value>,
    sorted_by: Vec<Value>,
}

/// Runs a query on a table.
pub(crate) fn run(query: &Query, table: &Table) -> Result<Answer, Failure> {
    let rows = collect(query, table).map_err(|reason| Failure::new("query-failed", reason))?;
    Ok(cut(query, rows))
}

fn collect(query: &Query, table: &Table) -> Result<Vec<Row>, String> {
    let mut chosen = Vec::new();
    for row in &table.rows {
        let scope = Scope { row, aggregates: &[] };
        if holds(query.filter.as_ref(), scope)? {
            chosen.push(row.as_slice());
        }
    }
    let per_row = query.items.len() + query.order_by.len();
    let mut rows = Vec::new();
    let mut add = |scope: Scope<'_>| {
        if !holds(query.having.as_ref(), scope)? {
            return Ok(());
        }
        if (rows.len() + 1) * per_row > MOST_VALUES {
            return Err("the answer is too large to be sorted: select fewer columns or rows".to_owned());
        }
        let values = query.items.iter().map(|item| item.expression.value(scope));
        let sorted_by = query.order_by.iter().map(|sorting| sorting.expression.value(scope));
        rows.push(Row {
            values: values.collect::<Result<_, _>>()?,
            sorted_by: sorted_by.collect::<Result<_, _>>()?,
        });
        Ok(())
    };
    if query.is_grouped() {
        for group in group(query, &chosen)? {
            let aggregates = aggregate(query, &group)?;
            let row = group.first().copied().unwrap_or_default();
            add(Scope { row, aggregates: &aggregates })?;
        }
    } else {
        for row in chosen {
            add(Scope { row, aggregates: &[] })?;
        }
    }
    if query.is_distinct {
        let mut seen = BTreeSet::new();
        rows.retain(|row| seen.insert(Key(row.values.clone())));
    }
    rows.sort_by(|one, another| order(query, one, another));
    Ok(rows)
}

fn holds(condition: Option<&Expression>, scope: Scope<'_>) -> Result<bool, String> {
    let Some(condition) = condition else { return Ok(true) };
    Ok(condition.value(scope)?.truth() == Some(true))
}

/// Rows with equal keys, in the order of the first of each. Without keys all rows are one group, be it empty.
fn group<'a>(query: &Query, rows: &[&'a [Value]]) -> Result<Vec<Vec<&'a [Value]>>, String> {
    if query.group_by.is_empty() {
        return Ok(vec![rows.to_vec()]);
    }
    let mut places = BTreeMap::new();
    let mut groups: Vec<Vec<&[Value]>> = Vec::new();
    for &row in rows {
        let scope = Scope { row, aggregates: &[] };
        let key: Result<Vec<_>, _> = query.group_by.iter().map(|part| part.value(scope)).collect();
        let place = *places.entry(Key(key?)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    Ok(groups)
}

fn aggregate(query: &Query, group: &[&[Value]]) -> Result<Vec<Value>, String> {
    let of = |aggregate: &Aggregate| {
        let Some(argument) = &aggregate.argument else { return Ok(Value::Number(group.len().into())) };
        let values = group.iter().map(|row| argument.value(Scope { row, aggregates: &[] }));
        aggregate.kind.of(values.collect::<Result<_, _>>()?, aggregate.is_distinct)
    };
    query.aggregates.iter().map(of).collect()
}

fn order(query: &Query, one: &Row, another: &Row) -> Ordering {
    let pairs = query.order_by.iter().zip(one.sorted_by.iter().zip(&another.sorted_by));
    let orders = pairs.map(|(sorting, (one, another))| {
        let order = one.order(another);
        if sorting.is_descending { order.reverse() } else { order }
    });
    orders.fold(Ordering::Equal, Ordering::then)
}

fn cut(query: &Query, rows: Vec<Row>) -> Answer {
    let wanted = rows.into_iter().skip(query.offset).take(query.limit.unwrap_or(usize::MAX));
    let wanted: Vec<_> = wanted.map(|row| row.values).collect();
    let count = wanted.len();
    let mut bytes = 0;
    let mut rows = Vec::new();
    for row in wanted {
        bytes += row.iter().map(|value| 4 + value.to_string().len()).sum::<usize>();
        if rows.len() == MOST_ROWS || bytes > MOST_BYTES {
            break;
        }
        rows.push(row);
    }
    let truncated_from = (rows.len() < count).then_some(count);
    Answer { columns: query.items.iter().map(|item| item.name.clone()).collect(), rows, truncated_from }
}

#[cfg(test)]
impl Answer {
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap()
    }
}
