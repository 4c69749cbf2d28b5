//! Pages of documents in the order of a time and, where that is the same, of their `_id`.
//!
//! A cursor is `<time in ms>:<_id>` of the last document of a page: what is added meanwhile moves no page.

use mongodb::bson::{DateTime, Document, doc};

/// The order of the pages.
pub(super) fn order(time: &str) -> Document {
    doc! { time: 1, "_id": 1 }
}

/// Narrows a filter to what stands after a cursor. One that is none narrows nothing. The time is bounded
/// beside the alternatives, of which the server makes no bounds of an index that it walks in order.
pub(super) fn go_on(filter: &mut Document, time: &str, cursor: Option<&str>) {
    if let Some((at, id)) = cursor.and_then(|cursor| cursor.split_once(':')) {
        let at = DateTime::from_millis(at.parse().unwrap_or(i64::MIN));
        let after = vec![doc! { time: { "$gt": at } }, doc! { time: at, "_id": { "$gt": id } }];
        let mut bounds = filter.get_document(time).cloned().unwrap_or_default();
        bounds.insert("$gte", at);
        filter.insert(time, bounds);
        filter.insert("$or", after);
    }
}

/// The cursor behind a page that has as many documents as were asked for; none behind the last page.
pub(super) fn next(page: &[Document], time: &str, most: u32) -> Option<String> {
    let last = page.last().filter(|_| page.len() >= most as usize)?;
    let at = last.get_datetime(time).ok()?;
    Some(format!("{}:{}", at.timestamp_millis(), last.get_str("_id").ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_page_ends_in_a_cursor_and_the_next_one_begins_behind_it() {
        let at = DateTime::from_millis(1_000);
        let page = [doc! { "_id": "a:1", "ended": at }, doc! { "_id": "a:2", "ended": at }];
        assert_eq!(next(&page, "ended", 3), None);
        let cursor = next(&page, "ended", 2).unwrap();
        assert_eq!(cursor, "1000:a:2");
        let end = DateTime::from_millis(2_000);
        let mut filter = doc! { "ended": { "$lt": end } };
        go_on(&mut filter, "ended", None);
        assert_eq!(filter, doc! { "ended": { "$lt": end } });
        go_on(&mut filter, "ended", Some(&cursor));
        let behind = [doc! { "ended": { "$gt": at } }, doc! { "ended": at, "_id": { "$gt": "a:2" } }];
        assert_eq!(filter, doc! { "ended": { "$lt": end, "$gte": at }, "$or": behind.to_vec() });
    }
}
